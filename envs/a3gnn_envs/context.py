"""Contexts: one graph on one machine under one set of limits, as an environment sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.objectives import Limits, memory_metric
from a3gnn.prediction import Predict, Prediction
from a3gnn.space import SearchSpace
from a3gnn_envs.rewards import UtilityScale

#: Random configurations whose predictions set a context's scales; the same ones at every call.
SURVEY_SIZE = 128
#: Observed features are clipped to this many standard deviations.
FEATURE_BOUND = 10.0
#: Nothing need be kept.
NO_LIMITS = Limits()


@dataclass(frozen=True)
class Context:
    """What an episode is about.

    Attributes:
        space: The configurations.
        predict: Answers encoded rows with a `Prediction`.
        limits: What a configuration must keep.
        has_device: Whether memory means the device's.
        features: Graph and hardware in numbers, best z-scored over the contexts, float32, shape (n_features,).
    """

    space: SearchSpace
    predict: Predict
    limits: Limits = NO_LIMITS
    has_device: bool = False
    features: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, dtype=np.float32))

    @cached_property
    def survey(self) -> Prediction:
        """Predictions of `SURVEY_SIZE` random configurations."""
        return self.predict(self.space.sample(SURVEY_SIZE, seed=0))

    @cached_property
    def scale(self) -> UtilityScale:
        """What counts as little and as much here, by the survey."""
        return UtilityScale.fit(self.survey, self.has_device)

    @cached_property
    def observation(self) -> NDArray[np.float32]:
        """The features, log10 of the limit in GB, and the smallest surveyed memory over the limit, float32.

        Without a limit on the memory objective, the largest surveyed memory stands for it.
        """
        memory = self.survey.column(memory_metric(self.has_device), "high")
        limit = self.limits.device_bytes if self.has_device else self.limits.host_bytes
        bound = float(limit if limit is not None else max(memory.max(), 1.0))
        tail = (math.log10(bound) - 9, float(memory.min()) / bound)
        observed = np.append(self.features, tail).astype(np.float32)
        return np.clip(observed, -FEATURE_BOUND, FEATURE_BOUND)

    def slack(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the share of the tightest memory limit that is left, in [-1, 1], float64, shape (n_configs,)."""
        left = np.ones(len(prediction))
        for metric, limit in (
            ("peak_host_bytes", self.limits.host_bytes),
            ("peak_device_bytes", self.limits.device_bytes),
        ):
            if limit is not None:
                left = np.minimum(left, 1 - prediction.column(metric, "high") / limit)
        return np.clip(left, -1, 1)
