"""`Metric`: by what a model is judged on validation and test nodes.

What is computed, stored and compared is one float, its quality, of which larger is better. Of most metrics it is the
metric itself, a share in [0, 1]. Fields and options that say accuracy, such as `val_accuracy`, hold the quality by the
task's metric: stored rows and scripts have had these names since accuracy was the only one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from a3gnn.errors import UsageError, unknown_name

MetricName = Literal["accuracy", "macro_f1", "micro_f1", "roc_auc", "average_precision"]
METRIC_NAMES: tuple[MetricName, ...] = get_args(MetricName)
#: The option that chooses by the graph's labels (`a3gnn.training.choose_metric`).
AUTO: Literal["auto"] = "auto"

#: What people call each.
_LABELS: dict[MetricName, str] = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: what it is called, and how its qualities and differences of these are shown.

    Attributes:
        name: As options and files have it.

    Raises:
        UsageError: There is no such metric.
    """

    name: MetricName

    def __post_init__(self) -> None:
        if self.name not in METRIC_NAMES:
            raise unknown_name("a metric", self.name, METRIC_NAMES)

    @property
    def label(self) -> str:
        """What people call it: `macro-F1`."""
        return _LABELS[self.name]

    @property
    def unit(self) -> str:
        """What a figure's axis says: `%`."""
        return "%"

    def number(self, quality: float) -> float:
        """Returns what people read for `quality`, without its unit: 87.2 for 0.872."""
        return 100 * quality

    def show(self, quality: float) -> str:
        """Returns `quality` for people: `87.20%`."""
        return f"{quality:.2%}"

    def show_difference(self, difference: float) -> str:
        """Returns a difference of two qualities for people: `0.8 points`, which are hundredths."""
        return f"{100 * difference:.2g} points"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {"name": self.name}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> Self:
        """Returns the metric of `to_dict`; of None, as in files from before there were others, accuracy."""
        return cls("accuracy") if fields is None else cls(**fields)


ACCURACY = Metric("accuracy")


def checked_metric(value: Any) -> str | None:
    """Returns `value`, the argument `metric`: a metric's name, "auto", or None.

    Raises:
        UsageError: It is none of them.
    """
    if value is not None and not isinstance(value, str):
        raise UsageError(f"--metric must be a name such as macro_f1, or auto, got {value!r}")
    if value is not None and value not in (AUTO, *METRIC_NAMES):
        raise unknown_name("--metric", value, (AUTO, *METRIC_NAMES))
    return value
