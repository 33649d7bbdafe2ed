"""`Limits`: what a configuration must keep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.breach import Breach
from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.metric import ACCURACY, Metric
from a3gnn.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Limits:
    """What a configuration must keep.

    Attributes:
        host_bytes: Largest `peak_host_bytes`, or None.
        device_bytes: Largest `peak_device_bytes`, or None.
        least_accuracy: Smallest `val_accuracy` at equal training time, a quality by the metric, or None.
        metric: What that is of.
    """

    host_bytes: int | None = None
    device_bytes: int | None = None
    least_accuracy: float | None = None
    metric: Metric = ACCURACY

    def __post_init__(self) -> None:
        for name in ("host_bytes", "device_bytes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name} must be positive, got {value}; leave it out for no limit")

    def violation(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns by how much each configuration breaks its worst limit, relative, float64, shape (n_configs,).

        0 where all are kept. Memory is judged by the interval's upper bound, accuracy by the mean.
        """
        worst = np.zeros(len(prediction))
        for metric, limit in (("peak_host_bytes", self.host_bytes), ("peak_device_bytes", self.device_bytes)):
            if limit is not None:
                worst = np.maximum(worst, prediction.column(metric, "high") / limit - 1)
        if self.least_accuracy is not None:
            worst = np.maximum(worst, self.least_accuracy - prediction.column("val_accuracy"))
        return worst

    def broken_by(self, figures: Figures) -> tuple[Breach, ...]:
        """Returns the limits that measured `figures` break, each with by how much; none where all are kept.

        Without a point of the learning curve a share counts as 0; an error, which may be any, as over what is allowed.
        """
        unknown_error = figures.val_accuracy is None and not self.metric.larger_is_better
        judged = (
            ("host_bytes", self.host_bytes, figures.peak_host_bytes, 1),
            ("device_bytes", self.device_bytes, figures.peak_device_bytes, 1),
            ("least_accuracy", self.least_accuracy, figures.val_accuracy or 0.0, -1),
        )
        return tuple(
            Breach(name, bound, found, self.metric)
            for name, bound, found, sign in judged
            if bound is not None and (sign * found > sign * bound or (sign < 0 and unknown_error))
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"metric": self.metric.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the limits of `to_dict`, also as former versions wrote them, whose metric was accuracy."""
        return cls(**{**fields, "metric": Metric.from_dict(fields.get("metric"))})
