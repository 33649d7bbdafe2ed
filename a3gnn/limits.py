"""`Limits`: bounds on memory and accuracy that a configuration must keep; `Breach`: one broken limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn._fields import from_fields
from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.metric import ACCURACY, Metric
from a3gnn.prediction import Prediction
from a3gnn.units import format_size

#: Display names of the memory limits of `Limits`.
MEMORY_NAMES = {"host_bytes": "host memory", "device_bytes": "device memory"}
#: A predicted configuration is feasible if it keeps each limit with at least this probability. Chosen on four measured
#: grids: with 0.6, 0.7 and 0.8, there are answers in 70, 65 and 50 of 100 cases, and 80, 100 and 96 % of these keep all
#: limits. On eight graphs that chose nothing, it is 150, 130 and 75 of 180 cases, and 44, 78 and 100 %
#: (docs/design/tuning.md, "What counts as keeping a limit").
FEASIBLE = 0.7


@dataclass(frozen=True, slots=True)
class Breach:
    """One broken limit.

    Attributes:
        limit: The field of `Limits`: host_bytes, device_bytes or least_accuracy.
        bound: The allowed value: the most bytes, or the least quality by the metric.
        found: The measured value, in the same unit; a quality of 0 means unknown.
        metric: Metric of the quality.
    """

    limit: str
    bound: float
    found: float
    metric: Metric = ACCURACY

    @property
    def name(self) -> str:
        """Display name of the limited quantity: host memory, device memory or the metric."""
        return MEMORY_NAMES.get(self.limit, self.metric.label)

    @property
    def excess(self) -> float:
        """Size of the breach, as in `Limits.violation`: a share of the limit for memory, a difference for accuracy."""
        return self.bound - self.found if self.limit == "least_accuracy" else self.found / self.bound - 1

    def amount(self) -> str:
        """Returns the size of the breach as text: `12.0 MiB` or `0.8 points`."""
        if self.limit == "least_accuracy":
            return self.metric.show_difference(self.bound - self.found)
        return format_size(self.found - self.bound)

    def short(self) -> str:
        """Returns the breach for a table: `host memory +12.0 MiB` or `accuracy -0.8 points`."""
        of_quality = self.limit == "least_accuracy"
        if of_quality and not self.found:
            return f"{self.name} unknown"
        return f"{self.name} {'-' if of_quality and self.metric.larger_is_better else '+'}{self.amount()}"

    def describe(self) -> str:
        """Returns the breach in words: `host memory 12.0 MiB over the limit of 300 MiB`."""
        if self.limit != "least_accuracy":
            return f"{self.name} {self.amount()} over the limit of {format_size(self.bound)}"
        bound, extreme = self.metric.show(self.bound), f"the {self.metric.extreme} allowed"
        if not self.found:
            return f"{self.name} unknown within the time, but {bound} is {extreme}"
        return f"{self.name} {self.amount()} {'under' if self.metric.larger_is_better else 'over'} {extreme}, {bound}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"metric": self.metric.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the breach of `to_dict`, also from older versions, whose metric was accuracy."""
        return from_fields(cls, dict(fields) | {"metric": Metric.from_dict(fields.get("metric"))})


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that a configuration must keep.

    Attributes:
        host_bytes: Largest `peak_host_bytes`, or None.
        device_bytes: Largest `peak_device_bytes`, or None.
        least_accuracy: Smallest `val_accuracy` at equal training time, a quality by the metric, or None.
        metric: Metric of `least_accuracy`.
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

    def keeping(self, prediction: Prediction) -> dict[str, NDArray[np.float64]]:
        """Returns the probability that each configuration keeps each limit that is set, by the limit's name.

        Each is float64, shape (n_configs,), by `Prediction.no_worse`. The least accuracy is kept if it is reached
        within the available seconds. The predictions of accuracy and of the seconds each give a probability for that,
        and the lower one counts. If no seconds are predicted (`Prediction.budget_s` is None), the accuracy alone does.
        """
        found = {name: prediction.no_worse(metric, limit) for name, metric, limit in self._of_memory()}
        if self.least_accuracy is not None:
            reached = prediction.no_worse("val_accuracy", self.least_accuracy)
            if prediction.budget_s is not None:
                reached = np.minimum(reached, prediction.no_worse("seconds_to_accuracy", prediction.budget_s))
            found["least_accuracy"] = reached
        return found

    def feasibility(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the probability of keeping all limits, assuming independent errors, float64, shape (n_configs,)."""
        return np.asarray(np.prod([np.ones(len(prediction)), *self.keeping(prediction).values()], axis=0))

    def violation(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns by how much each configuration breaks its worst limit, float64, shape (n_configs,).

        It is exactly 0 if each limit is kept with a probability of at least `FEASIBLE`. Otherwise it is the distance
        from the limit to the bound that is kept with that probability. The distance is a share of the limit for memory
        and for the seconds to the accuracy, and a difference for accuracy.
        """
        excess = [prediction.with_probability(metric, FEASIBLE) / limit - 1 for _, metric, limit in self._of_memory()]
        if self.least_accuracy is not None:
            excess.append(self.least_accuracy - prediction.with_probability("val_accuracy", FEASIBLE))
            if prediction.budget_s is not None:
                excess.append(prediction.with_probability("seconds_to_accuracy", FEASIBLE) / prediction.budget_s - 1)
        return np.asarray(np.max([np.zeros(len(prediction)), *excess], axis=0))

    def _of_memory(self) -> list[tuple[str, str, int]]:
        """Returns the limits on memory that are set: name, metric and bytes."""
        named = (("host_bytes", self.host_bytes), ("device_bytes", self.device_bytes))
        return [(name, f"peak_{name}", limit) for name, limit in named if limit is not None]

    def broken_by(self, figures: Figures) -> tuple[Breach, ...]:
        """Returns the limits that measured `figures` break; empty if all are kept.

        Without a point of the learning curve, a share counts as 0; an error counts as too large, because it may be any.
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
        """Returns the limits of `to_dict`, also from older versions, whose metric was accuracy."""
        return cls(**{**fields, "metric": Metric.from_dict(fields.get("metric"))})
