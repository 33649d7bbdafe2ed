"""The context of a contextual environment, and the scale of its rewards: one graph, one machine, one set of limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.limits import FEASIBLE, Limits
from a3gnn.objectives import memory_metric
from a3gnn.prediction import Predict, Prediction
from a3gnn.space import SearchSpace

NO_LIMITS = Limits()
#: Random configurations whose predictions set the scale of a context's utilities. Guess.
SCALE_SAMPLE_SIZE = 128
#: Observed features are clipped to this many standard deviations. Guess.
FEATURE_BOUND = 10.0
# Guesses, kept from a simulation that is not part of this repository.
#: Utilities are clipped to this range; 0 is the 5 % quantile of random configurations and 1 their best.
MIN_UTILITY, MAX_UTILITY = -0.5, 1.6
#: The utopian point in each objective: a little better than the best of the random configurations.
_UTOPIAN_UTILITY = 1.2
#: Weight of the sum in the augmented Chebyshev distance; it breaks ties between equal worst objectives.
_AUGMENTATION = 0.05


@dataclass(frozen=True)
class Context:
    """What an episode is about; constant during the episode.

    Attributes:
        space: The configurations.
        predict: Returns the `Prediction` of encoded rows.
        limits: Limits that a feasible configuration keeps.
        has_device: Whether the memory objective is the device's.
        features: Graph and hardware as numbers, preferably z-scored over the contexts, float32, shape (n_features,).
        speed: The metric of the speed objective: throughput_epochs_per_s or seconds_to_accuracy. It is not observed:
            a configuration that is fast by one is mostly fast by the other.
    """

    space: SearchSpace
    predict: Predict
    limits: Limits = NO_LIMITS
    has_device: bool = False
    features: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, dtype=np.float32))
    speed: str = "throughput_epochs_per_s"

    @cached_property
    def scale_sample(self) -> Prediction:
        """Predictions of `SCALE_SAMPLE_SIZE` random configurations, the same ones at every call."""
        return self.predict(self.space.sample(SCALE_SAMPLE_SIZE, seed=0))

    @cached_property
    def scale(self) -> UtilityScale:
        """The scale of utilities, fitted to `scale_sample`."""
        return UtilityScale.fit(self.scale_sample, self.has_device, self.speed)

    @cached_property
    def observation(self) -> NDArray[np.float32]:
        """The features, log10 of the memory limit in GB, and the smallest memory of `scale_sample` over it, float32.

        Without a limit on the memory objective, the largest memory of `scale_sample` takes its place.
        """
        memory = self.scale_sample.with_probability(memory_metric(self.has_device), FEASIBLE)
        limit = self.limits.device_bytes if self.has_device else self.limits.host_bytes
        bound = float(limit if limit is not None else max(memory.max(), 1.0))
        tail = (math.log10(bound) - 9, float(memory.min()) / bound)
        observed = np.append(self.features, tail).astype(np.float32)
        return np.clip(observed, -FEATURE_BOUND, FEATURE_BOUND)

    def slack(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the unused share of the tightest memory limit, in [-1, 1], float64, shape (n_configs,)."""
        left = np.ones(len(prediction))
        for metric, limit in (
            ("peak_host_bytes", self.limits.host_bytes),
            ("peak_device_bytes", self.limits.device_bytes),
        ):
            if limit is not None:
                left = np.minimum(left, 1 - prediction.with_probability(metric, FEASIBLE) / limit)
        return np.clip(left, -1, 1)


@dataclass(frozen=True, slots=True)
class UtilityScale:
    """Maps speed, -memory and accuracy to utilities: comparable numbers around [0, 1], larger is better.

    Speed is epochs per second, or one over the seconds to accuracy.

    Attributes:
        low: Values with utility 0, float64, shape (3,).
        span: Difference to the values with utility 1, float64, shape (3,).
        has_device: Whether the memory objective is the device's.
        speed: The metric of the speed objective: throughput_epochs_per_s or seconds_to_accuracy.
    """

    low: NDArray[np.float64]
    span: NDArray[np.float64]
    has_device: bool
    speed: str

    @classmethod
    def fit(cls, prediction: Prediction, has_device: bool, speed: str = "throughput_epochs_per_s") -> Self:
        """Returns the scale from the 5 % quantile to the maximum of `prediction`, of random configurations."""
        gains = _gains(prediction, has_device, speed)
        low = np.quantile(gains, 0.05, axis=0)
        span = gains.max(axis=0) - low
        return cls(low, np.where(span > 0, span, 1.0), has_device, speed)

    def utilities(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the utilities of speed, memory and accuracy, clipped, float64, shape (n_configs, 3)."""
        scaled = (_gains(prediction, self.has_device, self.speed) - self.low) / self.span
        return np.clip(scaled, MIN_UTILITY, MAX_UTILITY)


def scalarise(
    utilities: NDArray[np.float64], weights: NDArray[np.float64], violation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns one number per configuration, larger is better, at most a little above 0, float64, shape (n,).

    A feasible configuration scores minus its augmented weighted Chebyshev distance from the utopian point. Unlike a
    weighted sum, this can make any point of a front the best. An infeasible one scores `-1 - violation`, with the
    violation clipped at 1: the "extremely negative reward" of A3GNN, III-C, would make a policy keep far away from the
    limits.

    Args:
        utilities: float64, shape (n, 3).
        weights: float64, shape (n, 3) or (3,), rows sum to 1.
        violation: Relative violation of the worst limit, 0 for feasible configurations, float64, shape (n,).
    """
    distance = weights * (_UTOPIAN_UTILITY - utilities)
    feasible = -distance.max(axis=1) - _AUGMENTATION * distance.sum(axis=1)
    return np.where(violation > 0, -1 - np.minimum(violation, 1), feasible)


def _gains(prediction: Prediction, has_device: bool, speed: str) -> NDArray[np.float64]:
    memory, found = prediction.column(memory_metric(has_device)), prediction.column(speed)
    fast = 1 / found if speed == "seconds_to_accuracy" else found
    return np.stack([fast, -memory, prediction.column("val_accuracy")], axis=1)
