"""`ei`: the trials with the largest expected improvement per second."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.objectives import Priority
from a3gnn.seeding import derive
from a3gnn.space import Rows
from a3gnn.tuning.beliefs.beliefs import Beliefs, Floats
from a3gnn.tuning.engines.acquisition import log_gain, log_value
from a3gnn.tuning.engines.maximize import maximize
from a3gnn.tuning.engines.proposed import proposed
from a3gnn.tuning.engines.simplified import Judged, simplified
from a3gnn.tuning.study.trial import Proposal

#: Random configurations among the starts of the local search, as in Optuna's GPSampler (`n_preliminary_samples`).
STARTS = 2_048
#: A trial that is not expected to gain this share is not worth its seconds: verification, whose ranges are several
#: percent wide, could not show it.
MIN_GAIN = 0.01
#: Subtracted from the value of rows that are not worth a trial, so that a climb can still pass through them.
_NOT_WORTH = 1e9


class ExpectedImprovement:
    """Proposes the configurations with the largest expected improvement, times feasibility, per second (`log_value`).

    The value is maximized by local search from random configurations and the neighbors of eligible trials. Goals follow
    one another (`goals`): the first with a trial that is expected to gain `MIN_GAIN` gets it. If there is none, none
    is proposed.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        """Returns the proposals; see `Engine.propose`."""
        starts = self.starts(beliefs)
        for goal in goals(beliefs):
            rows = wanted(beliefs, goal, starts, seconds_left)[:count]
            if len(rows):
                simple = (simpler(row, beliefs, goal.priority, seconds_left) for row in rows)
                return [Proposal(goal.reason, beliefs.space.decode(row)) for row in simple]
        return []

    def starts(self, beliefs: Beliefs) -> Rows:
        """Returns the rows that the local search starts from, int64, shape (n, n_knobs)."""
        space, trials = beliefs.space, len(beliefs.history.trials)
        best = (beliefs.history.row(one.trial.measurement.config) for one in beliefs.ranked)
        around = [space.neighbors(row) for row in best if row is not None]
        return np.concatenate([space.sample(STARTS, derive(self._seed, "starts", trials)), *around])


def simpler(row: Rows, beliefs: Beliefs, priority: Priority, seconds_left: float) -> Rows:
    """Returns `row` with those knobs reset to their defaults that are worth nothing, int64, shape (n_knobs,).

    The learning key stays the same, and so does almost all of the trial's value for `priority` (`simplified`). The
    value counts improvements that are possible, so a knob that may gain keeps its value.
    """
    best, key = beliefs.best(priority), beliefs.learning_rows(row[None])
    if best is None:
        return row

    def judge(rows: Rows) -> Judged:
        belief = beliefs.of(rows, priority)
        new = np.array([one.tobytes() not in beliefs.tried for one in rows], dtype=np.bool_)
        alike = (beliefs.learning_rows(rows) == key).all(axis=1) & (belief.seconds <= seconds_left)
        return Judged(np.where(new & alike, log_value(belief, best), -np.inf), belief.probability)

    return simplified(row, beliefs.space, judge)


class PolicyEngine(ExpectedImprovement):
    """`ei`, whose local search also starts from the proposals of the shipped policy (`proposed`)."""

    def starts(self, beliefs: Beliefs) -> Rows:
        """Returns the rows that the local search starts from, int64, shape (n, n_knobs)."""
        seed = derive(self._seed, "policy", len(beliefs.history.trials))
        baseline = beliefs.predict_configs([TrainConfig().canonical()])
        rows = proposed(beliefs.history, beliefs.objectives, beliefs.surrogate, baseline, seed)
        return np.concatenate([super().starts(beliefs), rows])


class Goal(NamedTuple):
    """What a trial is for.

    Attributes:
        reason: The reason of its proposal: best, or front.
        priority: The priority to improve.
        allowed: Returns which rows may be tried for it, bool, shape (n,).
    """

    reason: str
    priority: Priority
    allowed: Callable[[Rows], NDArray[np.bool_]]


def goals(beliefs: Beliefs) -> Iterator[Goal]:
    """Yields the goals of trials, most important first.

    1. The tune's priority, by configurations that learn differently from all trials.
    2. The tune's priority, by others that learn as the best trial does: they only differ in speed and memory.
    3. The ends of the front: speed, memory and accuracy alone, by configurations that learn differently. Accuracy is no
       goal if it is only a limit, because trials then end at the target.

    A learning key is one curve, so a trial of a new key teaches more than one of a known key. On emulated graphs
    (`python -m benchmarks.emulated`), trials of both kinds in one order spent a third of the seconds on known keys, and
    gained up to a quarter less.
    """
    own = beliefs.objectives.priority
    yield Goal("best", own, beliefs.learns_anew)
    yield Goal("best", own, beliefs.learns_as_best)
    ends = np.eye(3)[: 3 if own.accuracy_counts else 2]
    yield from (
        Goal("front", Priority(speed, memory, accuracy, own.time), beliefs.learns_anew)
        for speed, memory, accuracy in ends.tolist()
    )


def wanted(beliefs: Beliefs, goal: Goal, starts: Rows, seconds_left: float) -> Rows:
    """Returns the rows that are worth a trial for `goal`, best first, with distinct learning keys.

    Args:
        beliefs: Beliefs after all trials so far.
        goal: What the trial is for.
        starts: Rows that the local search starts from.
        seconds_left: Seconds that a trial may take.
    """
    best = beliefs.best(goal.priority)
    least = -math.inf if best is None else math.log(math.log2(1 + MIN_GAIN))
    if best is None:  # nothing is eligible yet: whatever exceeds the lowest score is an improvement
        best = float(beliefs.of(starts, goal.priority).mean.min())

    def value(rows: Rows) -> Floats:
        belief = beliefs.of(rows, goal.priority)
        worth = (log_gain(belief, best) >= least) & (belief.seconds <= seconds_left) & goal.allowed(rows)
        return np.where(worth, log_value(belief, best), log_value(belief, best) - _NOT_WORTH)

    rows, values = maximize(beliefs.space, value, starts)
    rows = rows[values > -_NOT_WORTH / 2]
    _, first = np.unique(beliefs.learning_rows(rows), axis=0, return_index=True)
    return rows[np.sort(first)]
