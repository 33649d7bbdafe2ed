"""`Prior`: what a surrogate believes of a setting's configurations before any is measured, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, NUM_COSTS, SPEED, WORK, Floats, World, score_weights

#: A point of accuracy, added to rises before their logarithms are taken: many are 0. Guess.
RISE_OFFSET = 0.01


class Outcomes(NamedTuple):
    """What is true of K candidates, and what trials of them find; as in `World`, `rise` being the default's own."""

    truth: Floats
    measured: Floats
    play_off: Floats
    early: Floats
    rise: float
    crashes: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of N configurations of a setting, of which the first is the default; costs as in `World`.

    Attributes:
        mean: Costs, float64, shape (4, N).
        points: Inputs of the kernel of speed and memory, float64, shape (N, n_points).
        learning_points: Those of what is learnt, equal for configurations of one learning key, same shape.
        kernel: Correlation of two sets of points, as the surrogate takes it.
        between: Variances of a setting's level of each cost, float64, shape (4,).
        within: Variances over the configurations, float64, shape (4,).
        noise: Variances of a trial, > 0, float64, shape (4,).
        rises: By how much accuracy rose on curves of defaults after their first quarter, float64, shape (n,).
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
            outcomes: Of these.
            priority: What is wanted.
            limits: As in `World`.
            trials: Whole trials that the budget is worth.
            curve_factor: By how much curves take longer than those of the setting.
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
