"""`Situation`: what a learned controller sees of a division and of those before it, and what its actions do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.algorithm1 import BALANCED_STAGES, BalancedStage, balanced_seconds, decide
from a3gnn.hybrid.control.amounts import Bounds
from a3gnn.hybrid.control.moves import BACK, MOVES, NUM_ACTIONS, STAY, Move, moved
from a3gnn.training.adapting.drift import CHANGED, iteration_of
from a3gnn.training.adapting.stage_times import StageTimes

#: Octaves beyond which a ratio of seconds is not told apart, and by which ratios are divided. Guesses.
_OCTAVES, _SCALE = 6.0, 3.0
#: Steps that the one since the best was measured is counted up to. Guess.
_STEPS = 8
#: What is seen: of each stage whether it has work, and its seconds; the division; what the last action changed; the
#: action before; and the one that Algorithm 1 would take.
NUM_OBSERVED = 2 * len(BALANCED_STAGES) + 8 + 4 + 2 * NUM_ACTIONS


class Situation:
    """Keeps what was measured of divisions in turn, for a controller that decides by a network.

    | index | meaning | range |
    |---|---|---|
    | 0 .. 4 | whether the stage of `BALANCED_STAGES` has work | 0, 1 |
    | 5 .. 9 | log2 of its seconds over the longest one's, over 3; -2 where it has none | [-2, 0] |
    | 10, 11 | the processors' share of the seeds, and the accelerators' of what is sampled | [0, 1] |
    | 12 | the share of the seeds that fits on the accelerators | [0, 1] |
    | 13 .. 15 | shares of the host's threads: sampling, loading, training | [0, 1] |
    | 16, 17 | log2 of the host's threads, and of the accelerators, over 4 | [0, 2] |
    | 18 | log2 of the iteration over the longest stage, over 3 | [-2, 2] |
    | 19 | log2 of the iteration over that before the last action, over 3 | [-2, 2] |
    | 20 | log2 of the iteration over the shortest of any division so far, over 3 | [-2, 2] |
    | 21 | steps since that was measured, up to 8, over 8 | [0, 1] |
    | then | the action before, one-hot of `NUM_ACTIONS` | 0, 1 |
    | last | what Algorithm 1 would do now, likewise | 0, 1 |

    Args:
        bounds: Of shares.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._before: float | None = None
        self._last = STAY
        self._best: Assignment | None = None
        self._best_s, self._since = 0.0, 0

    def see(self, assignment: Assignment, times: StageTimes) -> NDArray[np.float32]:
        """Returns what is seen of `assignment` by what it took, float32, shape (NUM_OBSERVED,)."""
        now = iteration_of(times)
        if assignment == self._best and abs(now / self._best_s - 1) > CHANGED:
            self._best = None  # the machine has changed
        if self._best is None or now < self._best_s:
            self._best, self._best_s, self._since = assignment, now, 0
        self._assignment, self._seconds = assignment, balanced_seconds(assignment, times)
        before = now if self._before is None else self._before
        longest = max(self._seconds.values())
        progress = [_octaves(now, longest), _octaves(now, before), _octaves(now, self._best_s)]
        seen = [
            *(float(stage in self._seconds) for stage in BALANCED_STAGES),
            *(_octaves(self._seconds.get(stage, 0.0), longest) for stage in BALANCED_STAGES),
            *self._division(assignment),
            *progress,
            min(self._since, _STEPS) / _STEPS,
            *_one_hot(self._last),
            *_one_hot(algorithm1_action(self._seconds)),
        ]
        self._before = now
        self._since += 1
        return np.array(seen, dtype=np.float32)

    def act(self, action: int) -> Assignment:
        """Returns the division after one of `NUM_ACTIONS` actions."""
        self._last = action
        if action == STAY:
            return self._assignment
        if action == BACK:
            return self._assignment if self._best is None else self._best
        return moved(MOVES[action - 2], self._assignment, self._seconds, self._bounds)

    def _division(self, assignment: Assignment) -> list[float]:
        batch, threads = assignment.batch_size, assignment.threads
        devices = sum(kind == "accelerator" for kind in assignment.kinds)
        return [
            assignment.seeds_of("processor") / batch,
            assignment.sampled_on_accelerators / batch,
            min(self._bounds.accelerators / batch, 1.0),
            threads.sampling / threads.total,
            threads.loading / threads.total,
            threads.training / threads.total,
            np.log2(threads.total) / 4,
            np.log2(1 + devices) / 4,
        ]


def algorithm1_action(seconds: dict[BalancedStage, float]) -> int:
    """Returns what Algorithm 1 does, as one of `NUM_ACTIONS`."""
    action = decide(seconds)
    return STAY if action is None else 2 + MOVES.index(Move(action, "balance"))


def _octaves(seconds: float, over: float) -> float:
    if seconds <= 0:
        return -_OCTAVES / _SCALE
    return float(np.clip(np.log2(seconds / over), -_OCTAVES, _OCTAVES)) / _SCALE


def _one_hot(action: int) -> list[float]:
    return [float(place == action) for place in range(NUM_ACTIONS)]
