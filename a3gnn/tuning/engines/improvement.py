"""`ei` and `ppo`: the trials with the largest expected improvement per second, found by local search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from a3gnn.config import TrainConfig
from a3gnn.knobs import Knob
from a3gnn.objectives import MIN_GAIN, Objectives, Priority
from a3gnn.prediction import Prediction
from a3gnn.seeding import derive
from a3gnn.setting import setting_key
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.beliefs.beliefs import Belief, Beliefs, Floats
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Proposal
from a3gnn_surrogate.surrogate import Surrogate

#: Below this standardized gain, the logarithm of the improvement is computed by its asymptotic form (Ament et al.).
_FAR = -1.0
#: Stands for the logarithm of 0, so that sums stay finite.
_NEVER = -1e6


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Returns the logarithm of the expected improvement over `best`, float64, shape of `mean`.

    Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions" (1998), Eq. 15, for
    maximization; computed as in Ament et al., "Unexpected Improvements to Expected Improvement" (2023), Eq. 9, so that
    it has a slope where the improvement itself underflows. A deviation of 0 makes the gain certain.

    Args:
        mean: float64, any shape.
        deviation: Standard deviations, >= 0, float64, same shape.
        best: The value to improve upon.
    """
    gain = np.asarray(mean - best)
    scale = np.maximum(deviation, 1e-12)
    z = np.clip(gain / scale, -1e6, 1e6)
    near = np.maximum(z, _FAR)
    density = np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi)
    by_sum = np.log(density + near * ndtr(near))
    far = -np.minimum(z, _FAR)
    left = np.maximum(1 - np.sqrt(np.pi / 2) * far * erfcx(far / np.sqrt(2)), 1e-300)
    # Where that difference has lost its digits, it is about 1 / z^2.
    left = np.where(far > 1e4, 1 / far**2, left)
    by_tail = -0.5 * far**2 - 0.5 * np.log(2 * np.pi) + np.log(left)
    found = np.log(scale) + np.where(z > _FAR, by_sum, by_tail)
    certain = np.where(gain > 0, np.log(np.maximum(gain, 1e-300)), _NEVER)
    return np.asarray(np.maximum(np.where(deviation > 0, found, certain), _NEVER))


def log_gain(belief: Belief, best: float) -> Floats:
    """Returns the logarithm of the expected improvement times the probability of feasibility, float64, shape (n,).

    Gardner et al., "Bayesian Optimization with Inequality Constraints" (2014), Eq. 5.
    """
    return log_improvement(belief.mean, belief.deviation, best) + np.log(np.maximum(belief.probability, 1e-300))


def log_value(belief: Belief, best: float) -> Floats:
    """Returns the logarithm of the gain per second, by which trials are chosen, float64, shape (n,).

    Snoek, Larochelle and Adams, "Practical Bayesian Optimization of Machine Learning Algorithms" (2012), section 3.2.
    """
    return np.asarray(log_gain(belief, best) - np.log(belief.seconds))


#: Starts that climb. As many as in Optuna's GPSampler (`n_local_search`).
CLIMBERS = 10
#: Proposals per search. The best predicted one of so many was .01 to .13 doublings behind 3,000 predictions of a local
#: search, on ten graphs outside the policy's training (docs/design/trials.md).
PROPOSALS = 256
#: Random configurations among the starts of the local search, as in Optuna's GPSampler (`n_preliminary_samples`).
STARTS = 2_048
#: What decides how the first trial of a tune for `time` learns, beside the default's knobs. Other configurations are
#: often sooner at the first accuracies, and then miss the last one. These reached the default's best accuracy within
#: 30 s, less half a point, on all of six graphs, 1.4 times as early on the four that have a table of full aggregates. A
#: rate of x4 reached it on three (`python -m benchmarks.schedules`, docs/design/trials.md).
FIRST: Mapping[str, object] = {"input_aggregation": "full", "compute_dtype": "bfloat16"}
#: Subtracted from the value of rows that are not worth a trial, so that a climb can still pass through them.
NOT_WORTH = 1e9


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
        if (first := first_row(beliefs, derive(self._seed, "first"))) is not None:
            return [Proposal("best", beliefs.space.decode(first))]
        starts = self.starts(beliefs)
        for goal in goals(beliefs):
            rows = wanted(beliefs, goal, starts, seconds_left)[:count]
            if len(rows):
                return [Proposal(goal.reason, beliefs.space.decode(row)) for row in rows]
        return []

    def starts(self, beliefs: Beliefs) -> Rows:
        """Returns the rows that the local search starts from, int64, shape (n, n_knobs)."""
        space, trials = beliefs.space, len(beliefs.history.trials)
        best = (beliefs.history.row(one.trial.measurement.config) for one in beliefs.ranked)
        around = [space.neighbors(row) for row in best if row is not None]
        return np.concatenate([space.sample(STARTS, derive(self._seed, "starts", trials)), *around])


def first_row(beliefs: Beliefs, seed: int) -> Rows | None:
    """Returns the row of the first trial of a tune for `time`, int64, shape (n_knobs,).

    It learns as the default with `FIRST` does, as far as the space has it. Its other knobs, such as the tier of
    features, have the largest value (`log_value`): with the default's own it may break the memory limit. None if there
    was a trial already, the priority is another one, or the space has nothing of `FIRST`.
    """
    space, history = beliefs.space, beliefs.history
    if not history.objectives.priority.time or any(trial.counts for trial in history.trials):
        return None
    row = np.array([_index(knob, knob.default) for knob in space.knobs])
    first = np.array([_index(knob, FIRST.get(knob.name, knob.default)) for knob in space.knobs])
    row, first = space.canonical(np.stack([row, first]))
    if (row == first).all():
        return None
    rows = np.unique(space.canonical(np.concatenate([first[None], drawn_like(beliefs, first, seed)])), axis=0)
    rows = rows[(beliefs.learning_rows(rows) == beliefs.learning_rows(first[None])).all(axis=1)]
    belief, best = beliefs.of(rows), beliefs.best()
    chosen: Rows = rows[log_value(belief, float(belief.mean.min()) if best is None else best).argmax()]
    return chosen


def drawn_like(beliefs: Beliefs, row: NDArray[np.int64], seed: int) -> Rows:
    """Returns random rows with the knobs that decide how `row` learns, int64, shape (`STARTS`, n_knobs)."""
    return np.where(beliefs.learning_rows(row[None]) >= 0, row, beliefs.space.sample(STARTS, seed))


def _index(knob: Knob, value: object) -> int:
    """Returns the index of `value` among the values of `knob`, or 0 if it is not among them."""
    return knob.values.index(value) if value in knob.values else 0


class PolicyEngine(ExpectedImprovement):
    """`ei`, whose local search also starts from the proposals of the shipped policy (`proposed`)."""

    def starts(self, beliefs: Beliefs) -> Rows:
        """Returns the rows that the local search starts from, int64, shape (n, n_knobs)."""
        seed = derive(self._seed, "policy", len(beliefs.history.trials))
        baseline = beliefs.predict_configs([TrainConfig().canonical()])
        rows = proposed(beliefs.history, beliefs.objectives, beliefs.surrogate, baseline, seed)
        return np.concatenate([super().starts(beliefs), rows])


class Goal(NamedTuple):
    """What a trial is for."""

    reason: str  # the reason of its proposal: best, or front
    priority: Priority  # the priority to improve
    allowed: Callable[[Rows], NDArray[np.bool_]]  # returns which rows may be tried for it, bool, shape (n,)


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


def wanted(beliefs: Beliefs, goal: Goal, starts: Rows, seconds_left: float, climbers: int = CLIMBERS) -> Rows:
    """Returns the rows that are worth a trial for `goal`, best first, with distinct learning keys.

    Args:
        beliefs: The beliefs.
        goal: What the trial is for.
        starts: Rows that the search starts from, int64, shape (n, n_knobs).
        seconds_left: Seconds that a trial may take.
        climbers: Number of starts that climb; 0 for none.
    """
    best = beliefs.best(goal.priority)
    least = -math.inf if best is None else math.log(math.log2(1 + MIN_GAIN))
    if best is None:  # nothing is eligible yet: whatever exceeds the lowest score is an improvement
        best = float(beliefs.of(starts, goal.priority).mean.min())

    def value(rows: Rows) -> Floats:
        belief = beliefs.of(rows, goal.priority)
        worth = (log_gain(belief, best) >= least) & (belief.seconds <= seconds_left) & goal.allowed(rows)
        return np.where(worth, log_value(belief, best), log_value(belief, best) - NOT_WORTH)

    rows, values = maximize(beliefs.space, value, starts, climbers)
    rows = rows[values > -NOT_WORTH / 2]
    _, first = np.unique(beliefs.learning_rows(rows), axis=0, return_index=True)
    return rows[np.sort(first)]


def maximize(
    space: SearchSpace, value: Callable[[Rows], Floats], starts: Rows, climbers: int = CLIMBERS
) -> tuple[Rows, Floats]:
    """Returns all rows that a local search evaluated, and their values, largest first.

    The best of `starts` climb in steps of one knob, each to its best neighbor, until none is better.

    Args:
        space: The configurations.
        value: Returns the values of canonical rows, float64, shape (n,).
        starts: Rows to start from, int64, shape (n, n_knobs), n > 0.
        climbers: Number of starts that climb; 0 for none.
    """
    rows = np.unique(space.canonical(starts), axis=0)
    values = {row.tobytes(): own for row, own in zip(rows, value(rows).tolist(), strict=True)}
    found = [rows]
    order = np.argsort([-values[row.tobytes()] for row in rows], kind="stable")
    climbing = [rows[i] for i in order[:climbers]]
    while climbing:
        around = [space.neighbors(row) for row in climbing]
        fresh = {row.tobytes(): row for rows in around for row in rows if row.tobytes() not in values}
        if fresh:
            found.append(np.stack(list(fresh.values())))
            values |= zip(fresh, value(found[-1]).tolist(), strict=True)
        moved: dict[bytes, Rows] = {}
        for row, near in zip(climbing, around, strict=True):
            top = max(near, key=lambda one: values[one.tobytes()])
            if values[top.tobytes()] > values[row.tobytes()]:
                moved[top.tobytes()] = top
        climbing = list(moved.values())
    every = np.concatenate(found)
    own = np.array([values[row.tobytes()] for row in every])
    best = np.argsort(-own, kind="stable")
    return every[best], own[best]


def proposed(history: History, objectives: Objectives, surrogate: Surrogate, baseline: Prediction, seed: int) -> Rows:
    """Returns the rows that the shipped policy proposes, int64, shape (n, n_knobs), n up to `PROPOSALS`.

    The policy was trained by PPO in the environment `a3gnn/Configure-v0`. It observes the graph, the machine, the
    limits, the priority, and how the setting's measurements differ from the general model.

    Args:
        history: Its space and setting.
        objectives: The limits and the priority.
        surrogate: Provides the setting's corrections.
        baseline: Prediction of the default configuration, of length 1.
        seed: Decides the draws.
    """
    from a3gnn_envs.observation import Levels  # imports gymnasium
    from a3gnn_envs.policy import Policy

    setting = history.study.setting
    correction = surrogate.setting_corrections_.corrections.get(setting_key(setting))
    levels = Levels(baseline) if correction is None else Levels(baseline, correction.constant)
    rows = Policy.load().propose(setting, history.space.systems, objectives, levels, PROPOSALS, seed)
    if not history.space.searched:
        return rows
    drawn = history.space.sample(len(rows), derive(seed, "searched"))  # the policy knows no names of a search
    drawn[:, : rows.shape[1]] = rows
    return history.space.canonical(drawn)
