"""`SimulatedWorlds`: worlds drawn from a surrogate's beliefs before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.acquisition_env import NUM_CANDIDATES
from a3gnn_envs.acquisition.studies import QUARTER, SHARES
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, NUM_COSTS, SPEED, WORK, Floats, World, score_weights

#: A point of accuracy, added to rises before their logarithms are taken, because many are 0. Guess.
RISE_OFFSET = 0.01
#: Priorities that are drawn, besides random weights.
_PRIORITIES = ("time", "throughput", "memory", "accuracy", "balanced")
# All of the following are guesses.
#: Mean and standard deviation of the logarithm by which true variances differ from the believed ones. On measured
#: grids, errors were 1.6 to 3.9 times as large as was believed (docs/design/acquisition.md).
_UNDERRATED, _MISJUDGED = 0.7, 0.5
#: Share of trials that fail whatever the limits; none of the 270 shipped rows did.
_CRASHES = 0.02
#: Share of worlds with a limit on memory, and the least and the largest share of the candidates that keep it.
_LIMITED, _FEWEST_KEEP, _MOST_KEEP = 0.5, 0.1, 0.9
#: Accuracy below the default's that may be lost, as a tune allows by default.
_DROP = 0.01
#: Whole trials that a budget is worth: the fewest and the most.
_FEWEST_TRIALS, _MOST_TRIALS = 3.0, 20.0
#: Range of doublings by which a world's curves take longer than the corpus's, whose graphs are small.
_FEWEST_DOUBLINGS, _MOST_DOUBLINGS = -1.0, 3.5
#: Configurations drawn per candidate; half of the candidates are the best of them as believed.
_POOL = 8
#: Log2 of the least share of the default's budget at which a configuration that misses the target reaches it.
_LATER = 0.1
#: The least by which accuracy misses the target, if it does.
_MISSED = 1e-4
#: Added to the diagonal of correlations, because equal points make them singular.
_ROUNDING = 1e-9
#: Timings of a finalist in the play-off's rounds (`a3gnn.tuning.run.plans.ROUNDS`).
_ROUNDS = 2


class Outcomes(NamedTuple):
    """True costs of K candidates and results of their trials, as in `World`; `rise` is the default's own."""

    truth: Floats
    measured: Floats
    play_off: Floats
    early: Floats
    rise: float
    crashes: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Prior:
    """Beliefs about N configurations of a setting, of which the first is the default; costs as in `World`.

    Attributes:
        mean: Costs, float64, shape (4, N).
        points: Inputs of the kernel of speed and memory, float64, shape (N, n_points).
        learning_points: Inputs of the kernel of accuracy and work, equal for configurations of one learning key, same
            shape.
        kernel: Returns the correlation of two sets of points, as in the surrogate.
        between: Variances of a setting's level of each cost, float64, shape (4,).
        within: Variances over the configurations, float64, shape (4,).
        noise: Variances of a trial, > 0, float64, shape (4,).
        rises: Rises of accuracy on curves of defaults after their first quarter, float64, shape (n,).
        rise_spread: Standard deviation of log((rise + `RISE_OFFSET`) / (the default's + `RISE_OFFSET`)) of the others.
        late_share: Share of the curves without a point within the first quarter.
        start_s: Seconds of a trial without its curve.
        curve_s: Seconds of a whole curve.
    """

    mean: Floats
    points: Floats
    learning_points: Floats
    kernel: Callable[[Floats, Floats], Floats]
    between: Floats
    within: Floats
    noise: Floats
    rises: Floats
    rise_spread: float
    late_share: float
    start_s: float
    curve_s: float

    def kernels(self, chosen: NDArray[np.int64]) -> Floats:
        """Returns each cost's correlations between the `chosen` configurations, float64, shape (4, K, K)."""
        kernels = np.empty((NUM_COSTS, len(chosen), len(chosen)))
        for costs, points in (((SPEED, MEMORY), self.points), ((ACCURACY, WORK), self.learning_points)):
            kernels[list(costs)] = self.kernel(points[chosen], points[chosen])
        return kernels

    def keys(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns equal numbers for the `chosen` configurations of one learning key, int64, shape (K,)."""
        return np.unique(self.learning_points[chosen], axis=0, return_inverse=True)[1].reshape(-1)

    def world(
        self,
        chosen: NDArray[np.int64],
        outcomes: Outcomes,
        priority: Priority,
        limits: Floats,
        trials: float,
        curve_factor: float = 1.0,
    ) -> World:
        """Returns the world of the `chosen` configurations.

        Args:
            chosen: Positions, the default's first, int64, shape (K,).
            outcomes: Outcomes of the chosen configurations.
            priority: The priority of the study.
            limits: As in `World`.
            trials: Whole trials that the budget is worth.
            curve_factor: Factor on the seconds of the setting's curves.
        """
        curve_s = self.curve_s * curve_factor
        # The mean and the deviation of the log-normal distribution of rises around the default's.
        offset_rise = (outcomes.rise + RISE_OFFSET) * np.exp(self.rise_spread**2 / 2)
        return World(
            present=np.ones(len(chosen), dtype=np.bool_),
            weights=score_weights(priority),
            limits=limits,
            mean=self.mean[:, chosen],
            covariance=self.between[:, None, None] + self.within[:, None, None] * self.kernels(chosen),
            noise=np.sqrt(self.noise),
            truth=outcomes.truth,
            measured=outcomes.measured,
            play_off=outcomes.play_off,
            early=outcomes.early,
            rise=np.asarray(offset_rise - RISE_OFFSET),
            rise_deviation=np.asarray(offset_rise * np.sqrt(np.expm1(self.rise_spread**2))),
            crashes=outcomes.crashes,
            keys=self.keys(chosen),
            start_s=np.asarray(self.start_s),
            curve_s=np.asarray(curve_s),
            budget_s=np.asarray(trials * (self.start_s + curve_s)),
            ends_at_target=np.asarray(not priority.accuracy_counts),
        )


class SimulatedWorlds:
    """Draws worlds: a setting's level, variation within it, noise, learning curves, limits, failures, a priority.

    Speed and memory vary with every knob. Learning varies with the learning key alone, which decides it bit for bit.

    Args:
        priors: One is drawn for each world.
        num_candidates: Candidates per world.
        priority: The priority of all worlds; None draws one for each.

    Raises:
        UsageError: There are no priors, or one has too few configurations.
    """

    def __init__(
        self, priors: Sequence[Prior], num_candidates: int = NUM_CANDIDATES, priority: Priority | None = None
    ) -> None:
        fewest = min((prior.mean.shape[1] for prior in priors), default=0)
        if fewest < num_candidates:
            raise UsageError(
                f"every prior must have at least {num_candidates} configurations, got {fewest}; "
                "draw more, or worlds of fewer candidates"
            )
        self._priors, self._num_candidates, self._priority = list(priors), num_candidates, priority

    def draw(self, random: np.random.Generator) -> World:
        """Returns a world, decided by `random`."""
        prior = self._priors[int(random.integers(len(self._priors)))]
        priority = draw_priority(random) if self._priority is None else self._priority
        chosen = _candidates(prior, score_weights(priority), self._num_candidates, random)
        truth, noise = _truth(prior, chosen, random)
        limits = draw_limits(truth, random)
        outcomes = _outcomes(prior, chosen, truth, noise, limits, random)
        curve_factor = 2.0 ** random.uniform(_FEWEST_DOUBLINGS, _MOST_DOUBLINGS)
        return prior.world(chosen, outcomes, priority, limits, draw_trials(random), curve_factor)


def draw_priority(random: np.random.Generator) -> Priority:
    """Returns a preset or random weights, each with the same probability."""
    number = int(random.integers(len(_PRIORITIES) + 1))
    if number < len(_PRIORITIES):
        return Priority.parse(_PRIORITIES[number])
    throughput, memory, accuracy = random.dirichlet(np.ones(3))
    return Priority(float(throughput), float(memory), float(accuracy))


def draw_limits(truth: Floats, random: np.random.Generator) -> Floats:
    """Returns limits by the true costs (4, K), always on accuracy and sometimes on memory, float64, shape (4,)."""
    limits = np.full(NUM_COSTS, np.inf)
    limits[ACCURACY] = truth[ACCURACY, 0] + _DROP
    if random.random() < _LIMITED:
        limits[MEMORY] = np.quantile(truth[MEMORY], random.uniform(_FEWEST_KEEP, _MOST_KEEP))
    return limits


def draw_trials(random: np.random.Generator) -> float:
    """Returns how many whole trials a budget is worth."""
    return float(np.exp(random.uniform(np.log(_FEWEST_TRIALS), np.log(_MOST_TRIALS))))


def _candidates(prior: Prior, weights: Floats, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Returns the default and other configurations, half of them the best as believed, int64, shape (count,)."""
    drawn = 1 + random.permutation(prior.mean.shape[1] - 1)[: _POOL * count]
    best = drawn[np.argsort(weights @ prior.mean[:, drawn], kind="stable")][: count // 2]
    rest = drawn[~np.isin(drawn, best)][: count - 1 - len(best)]
    return np.concatenate([[0], best, rest])


def _truth(prior: Prior, chosen: NDArray[np.int64], random: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns true costs (4, K) of the `chosen` configurations, and noise variances (4,), drawn around the beliefs."""
    between, within, noise = (
        variances * np.exp(mean + _MISJUDGED * random.standard_normal(NUM_COSTS))
        for variances, mean in ((prior.between, _UNDERRATED), (prior.within, _UNDERRATED), (prior.noise, 0.0))
    )
    keys = prior.keys(chosen)
    _, first_of_key = np.unique(keys, return_index=True)
    by_knobs = _draws(prior.kernel(prior.points[chosen], prior.points[chosen]), random)
    points = prior.learning_points[chosen][first_of_key]
    by_key = _draws(prior.kernel(points, points), random)[:, keys]
    levels = np.sqrt(between) * random.standard_normal(NUM_COSTS)
    truth = prior.mean[:, chosen] + levels[:, None] + np.sqrt(within)[:, None] * np.concatenate([by_knobs, by_key])
    truth[ACCURACY] = np.clip(truth[ACCURACY], -1.0, 0.0)  # accuracies are in [0, 1]
    return truth, noise


def _outcomes(
    prior: Prior,
    chosen: NDArray[np.int64],
    truth: Floats,
    noise: Floats,
    limits: Floats,
    random: np.random.Generator,
) -> Outcomes:
    """Returns the results of trials of candidates with these true costs.

    Curves agree with `truth`. Candidates that keep the limit on accuracy reach it within the default's budget, and no
    others do. Those that reach it within a quarter show it there.
    """
    keys, target = prior.keys(chosen), limits[ACCURACY]
    share = truth[SPEED] + truth[WORK]
    share = np.where(truth[ACCURACY] <= target, np.minimum(share, 0.0), np.maximum(share, _LATER))
    truth[WORK] = share - truth[SPEED]
    measured, play_off = truth.copy(), truth.copy()
    for cost in (SPEED, MEMORY):
        once, again = np.sqrt(noise[cost]) * random.standard_normal((2, len(chosen)))
        measured[cost] += once
        play_off[cost] += again / np.sqrt(_ROUNDS)
    rise = float(random.choice(prior.rises))
    rises = (rise + RISE_OFFSET) * np.exp(prior.rise_spread * random.standard_normal(len(chosen))) - RISE_OFFSET
    early = truth[ACCURACY] + np.maximum(rises, 0.0)[keys]
    late = (random.random(len(chosen)) < prior.late_share)[keys]
    shown = share <= np.log2(SHARES[QUARTER])
    early = np.select([shown, late], [np.minimum(early, target), np.nan], np.maximum(early, target + _MISSED))
    crashes = random.random(len(chosen)) < _CRASHES
    crashes[0] = False
    return Outcomes(truth, measured, play_off, early, rise, crashes)


def _draws(correlation: Floats, random: np.random.Generator) -> Floats:
    """Returns two draws with this `correlation` (n, n), float64, shape (2, n)."""
    factor = np.linalg.cholesky(correlation + _ROUNDING * np.eye(len(correlation)))
    return np.asarray(random.standard_normal((2, len(correlation))) @ factor.T)
