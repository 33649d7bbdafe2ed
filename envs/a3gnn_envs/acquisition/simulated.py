"""`SimulatedWorlds`: worlds drawn from what a surrogate believes before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.acquisition_env import NUM_CANDIDATES
from a3gnn_envs.acquisition.prior import Outcomes, Prior
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, NUM_COSTS, SPEED, Floats, World, score_weights

#: Priorities that are drawn; beside them, random weights.
_PRIORITIES = ("time", "throughput", "memory", "accuracy", "balanced")
# Guesses, all of the following.
#: Standard deviation of the logarithm by which a true variance differs from the believed one: beliefs are not exact.
_MISJUDGED = 0.5
#: Share of trials that fail whatever the limits; none of the 270 shipped rows did.
_CRASHES = 0.02
#: Share of worlds with a limit on memory, and where it lies beside the default's memory, in doublings.
_LIMITED, _LOWEST_LIMIT, _HIGHEST_LIMIT = 0.5, -0.7, 0.5
#: What may be lost of the default's accuracy: what a tune allows by default.
_DROP = 0.01
#: Whole trials that a budget is worth: the fewest and the most.
_FEWEST_TRIALS, _MOST_TRIALS = 3.0, 20.0
#: By how many doublings a world's curves take longer or shorter than the prior's.
_CURVE_DOUBLINGS = 2.0
#: Of so many drawn configurations per candidate, half of the candidates are the best as believed.
_POOL = 8
#: Timings of a finalist in the play-off's rounds (`a3gnn.tuning.play_off_plan.ROUNDS`).
_ROUNDS = 2


class SimulatedWorlds:
    """Draws worlds: a setting's level, what differs within it, noise, learning curves, limits, failures, a priority.

    Speed and memory vary with every knob, what is learnt with the learning key alone, which decides it bit for bit.

    Args:
        priors: One is drawn for each world.
        num_candidates: Of a world.
        priority: Of all worlds; drawn where there is none.

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
        outcomes = _outcomes(prior, chosen, random)
        limits = draw_limits(outcomes.truth[:, 0], random)
        curve_factor = 2.0 ** random.uniform(-_CURVE_DOUBLINGS, _CURVE_DOUBLINGS)
        return prior.world(chosen, outcomes, priority, limits, draw_trials(random), curve_factor)


def draw_priority(random: np.random.Generator) -> Priority:
    """Returns a preset, or random weights as probably as each."""
    number = int(random.integers(len(_PRIORITIES) + 1))
    if number < len(_PRIORITIES):
        return Priority.parse(_PRIORITIES[number])
    throughput, memory, accuracy = random.dirichlet(np.ones(3))
    return Priority(float(throughput), float(memory), float(accuracy))


def draw_limits(default: Floats, random: np.random.Generator) -> Floats:
    """Returns limits beside the `default`'s true costs (4,): on accuracy always, on memory sometimes; (4,)."""
    limits = np.full(NUM_COSTS, np.inf)
    limits[ACCURACY] = default[ACCURACY] + _DROP
    if random.random() < _LIMITED:
        limits[MEMORY] = default[MEMORY] + random.uniform(_LOWEST_LIMIT, _HIGHEST_LIMIT)
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


def _outcomes(prior: Prior, chosen: NDArray[np.int64], random: np.random.Generator) -> Outcomes:
    """Returns what is true of the `chosen` configurations in a world whose variances are not quite the believed."""
    between, within, noise = (
        variances * np.exp(_MISJUDGED * random.standard_normal(NUM_COSTS))
        for variances in (prior.between, prior.within, prior.noise)
    )
    kernels = prior.kernels(chosen)
    off = [_drawn(between[cost] + within[cost] * kernels[cost], random) for cost in range(NUM_COSTS)]
    truth = prior.mean[:, chosen] + np.stack(off)
    truth[ACCURACY] = np.clip(truth[ACCURACY], -1.0, 0.0)  # accuracies are in [0, 1]
    measured, play_off = truth.copy(), truth.copy()
    for cost in (SPEED, MEMORY):
        first, again = np.sqrt(noise[cost]) * random.standard_normal((2, len(chosen)))
        measured[cost] += first
        play_off[cost] += again / np.sqrt(_ROUNDS)
    rise = float(random.choice(prior.rises))
    rises = np.maximum(rise + prior.rise_deviation * random.standard_normal(len(chosen)), 0.0)
    crashes = random.random(len(chosen)) < _CRASHES
    crashes[0] = False
    return Outcomes(truth, measured, play_off, measured[ACCURACY] + rises[prior.keys(chosen)], rise, crashes)


def _drawn(covariance: Floats, random: np.random.Generator) -> Floats:
    """Returns a draw from the normal distribution around 0, float64, shape (K,); equal rows get equal values."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0.0)) * random.standard_normal(len(values))))
