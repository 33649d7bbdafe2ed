"""`Learned`: dynamic resource management by a network trained on simulated platforms."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import StoreError
from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.controller import (
    BALANCED_STAGES,
    PARTNERS,
    PROCESSOR_STAGES,
    Action,
    BalancedStage,
    ShareBounds,
    apply,
    balanced_seconds,
    decide,
    threads_of,
    with_moved_seeds,
    with_moved_threads,
)
from a3gnn.training.adapting.drift import CHANGED, iteration_of
from a3gnn.training.adapting.stage_times import StageTimes

#: How much is moved. Seeds: enough to make both stages equally long, or an eighth or a 32nd of the mini-batch. Threads:
#: enough to make both stages equally long, one, or half of the giving stage's.
Amount = Literal["balance", "eighth", "little", "one", "half"]

#: Actions that move nothing: keep the division, or return to the fastest measured one.
STAY, BACK = 0, 1
#: Ratios of seconds are clipped to this many octaves, and divided by the scale. Guesses.
_OCTAVES, _SCALE = 6.0, 3.0
#: Most steps counted since the best division was measured. Guess.
_STEPS = 8
#: Increased when older networks can't be used any more, because the observation or the actions have changed.
_VERSION = 1
_FORMAT, _MANIFEST, _WEIGHTS = "a3gnn-management", "manifest.json", "weights.npz"


class Move(NamedTuple):
    """What is moved between which stages."""

    action: Action
    amount: Amount


MOVES: tuple[Move, ...] = (
    *(
        Move(Action("work", slow, fast), amount)
        for slow, fast in PARTNERS.items()
        for amount in ("balance", "eighth", "little")
    ),
    *(
        Move(Action("threads", slow, fast), amount)
        for slow, fast in permutations(PROCESSOR_STAGES, 2)
        for amount in ("balance", "one", "half")
    ),
)
#: Number of actions: `STAY`, `BACK`, and the moves.
NUM_ACTIONS = 2 + len(MOVES)

#: The observation: per stage, whether it has work and its seconds; the division; the effect of the last action; the
#: last action; and the action of Algorithm 1.
NUM_OBSERVED = 2 * len(BALANCED_STAGES) + 8 + 4 + 2 * NUM_ACTIONS


def moved(
    move: Move, assignment: Assignment, seconds: Mapping[BalancedStage, float], bounds: ShareBounds
) -> Assignment:
    """Returns `assignment` after `move`; unchanged if one of its stages has no work, or nothing is to be moved.

    Args:
        move: The move.
        assignment: The measured assignment.
        seconds: Seconds of the stages that have work (`balanced_seconds`).
        bounds: Bounds of shares.
    """
    action, amount = move
    if action.slow not in seconds or action.fast not in seconds:
        return assignment
    if amount == "balance":
        if seconds[action.slow] <= seconds[action.fast]:
            return assignment
        return apply(action, assignment, seconds[action.slow], seconds[action.fast], bounds)
    if action.kind == "work":
        seeds = assignment.batch_size // (8 if amount == "eighth" else 32)
        return with_moved_seeds(action, assignment, max(seeds, 1), bounds)
    if not bounds.threads:
        return assignment
    threads = 1 if amount == "one" else threads_of(action.fast, assignment.threads) // 2
    return with_moved_threads(action, assignment, threads)


class Situation:
    """Keeps the measurements of successive divisions, for a controller that decides by a network.

    | index | meaning | range |
    |---|---|---|
    | 0 .. 4 | whether the stage of `BALANCED_STAGES` has work | 0, 1 |
    | 5 .. 9 | log2 of its seconds over the longest stage's, over 3; -2 if it has none | [-2, 0] |
    | 10, 11 | the processors' share of the seeds, and the accelerators' share of sampling | [0, 1] |
    | 12 | the share of the seeds that fits on the accelerators | [0, 1] |
    | 13 .. 15 | shares of the host's threads: sampling, loading, training | [0, 1] |
    | 16, 17 | log2 of the host's threads, and of the accelerators, over 4 | [0, 2] |
    | 18 | log2 of the iteration over the longest stage, over 3 | [-2, 2] |
    | 19 | log2 of the iteration over that before the last action, over 3 | [-2, 2] |
    | 20 | log2 of the iteration over the shortest of any division so far, over 3 | [-2, 2] |
    | 21 | steps since that was measured, up to 8, over 8 | [0, 1] |
    | then | the action before, one-hot of `NUM_ACTIONS` | 0, 1 |
    | last | the action of Algorithm 1, one-hot of `NUM_ACTIONS` | 0, 1 |

    Args:
        bounds: Bounds of shares.
    """

    def __init__(self, bounds: ShareBounds) -> None:
        self._bounds = bounds
        self._before: float | None = None
        self._last = STAY
        self._best: Assignment | None = None
        self._best_s, self._since = 0.0, 0

    def see(self, assignment: Assignment, times: StageTimes) -> NDArray[np.float32]:
        """Returns the observation of `assignment` and its times, float32, shape (NUM_OBSERVED,)."""
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
    """Returns the action of Algorithm 1, as one of `NUM_ACTIONS`."""
    action = decide(seconds)
    return STAY if action is None else 2 + MOVES.index(Move(action, "balance"))


class Network:
    """A perceptron with two hidden tanh layers. Its logits are added to a prior for Algorithm 1's action.

    Args:
        weights: float32, with torch's names: 0.weight, 0.bias, 2.weight, 2.bias, 4.weight, 4.bias.
        prior: Logit of Algorithm 1's action, which the last `NUM_ACTIONS` values of the observation name.
    """

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], prior: float) -> None:
        self._layers = [(weights[f"{place}.weight"], weights[f"{place}.bias"]) for place in (0, 2, 4)]
        self._weights, self._prior = dict(weights), prior

    def logits(self, seen: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the logits of the actions, float32, shape (NUM_ACTIONS,)."""
        value = seen
        for weight, bias in self._layers[:-1]:
            value = np.tanh(weight @ value + bias)
        weight, bias = self._layers[-1]
        found: NDArray[np.float32] = weight @ value + bias + self._prior * seen[-NUM_ACTIONS:]
        return found

    def save(self, folder: Path, training: Mapping[str, Any]) -> None:
        """Writes `weights.npz` and `manifest.json`, which describes the `training`, into `folder`; no pickles."""
        manifest = {"format": _FORMAT, "version": _VERSION, "prior": self._prior, "training": dict(training)}
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / _WEIGHTS, **self._weights)  # type: ignore[arg-type]
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the network that `save` wrote into `folder`.

        Raises:
            StoreError: `folder` has no network, or one of another version.
        """
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            kind = manifest.get("format"), manifest.get("version")
            if kind != (_FORMAT, _VERSION):
                raise StoreError(
                    f"the network in {folder} must be {_FORMAT} of version {_VERSION}, got {kind[0]} of version "
                    f"{kind[1]}; train one"
                )
            with np.load(folder / _WEIGHTS, allow_pickle=False) as file:
                weights = dict(file.items())
            made = cls(weights, float(manifest["prior"]))
            made.logits(np.zeros(NUM_OBSERVED, dtype=np.float32))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise StoreError(
                f"{folder} holds no network of management that can be read ({error}); train one"
            ) from error
        return made


class Learned:
    """A `Controller` that always takes the action with the network's largest logit.

    Args:
        bounds: Bounds of shares.
        network: The trained network.
    """

    def __init__(self, bounds: ShareBounds, network: Network) -> None:
        self._situation, self._network = Situation(bounds), network

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Returns the division after one action of the network."""
        seen = self._situation.see(assignment, times)
        return self._situation.act(int(self._network.logits(seen).argmax()))


def _octaves(seconds: float, over: float) -> float:
    if seconds <= 0:
        return -_OCTAVES / _SCALE
    return float(np.clip(np.log2(seconds / over), -_OCTAVES, _OCTAVES)) / _SCALE


def _one_hot(action: int) -> list[float]:
    return [float(place == action) for place in range(NUM_ACTIONS)]
