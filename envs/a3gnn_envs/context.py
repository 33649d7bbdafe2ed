"""The context of a contextual environment: one graph on one machine under one set of limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.limits import FEASIBLE, Limits
from a3gnn.objectives import memory_metric
from a3gnn.prediction import Predict, Prediction
from a3gnn.space import SearchSpace
from a3gnn_envs.rewards import UtilityScale

#: Random configurations whose predictions set the scale of a context's utilities (`a3gnn_envs.rewards`). Guess.
SCALE_SAMPLE_SIZE = 128
#: Observed features are clipped to this many standard deviations. Guess.
FEATURE_BOUND = 10.0
NO_LIMITS = Limits()


@dataclass(frozen=True)
class Context:
    """What an episode is about; constant during the episode.

    Attributes:
        space: The configurations.
        predict: Returns the `Prediction` of encoded rows.
        limits: What a feasible configuration keeps.
        has_device: Whether the memory objective is the device's.
        features: Graph and hardware as numbers, preferably z-scored over the contexts, float32, shape (n_features,).
        speed: The metric of the speed objective: throughput_epochs_per_s or seconds_to_accuracy. It is not observed:
            what is fast by one is mostly fast by the other.
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
