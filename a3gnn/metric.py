"""`Metric`: by what a model is judged on validation and test nodes.

What is computed, stored and compared is one float, its quality, of which larger is better. Of most metrics it is the
metric itself, a share in [0, 1]. Of an error E it is 1 - E / S, where S is the error of saying the train nodes' median
of every node (`GraphCharacteristics.label_spread`): 1 is no error, 0 as much as that, less is worse. So differences of
quality mean the same whatever the unit of what is predicted, and what is a share of 1 elsewhere (what may be lost, when
a curve has stopped rising) is one here. People are shown the error itself.

Fields and options that say accuracy, such as `val_accuracy`, hold the quality by the task's metric: stored rows and
scripts have had these names since accuracy was the only one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self, get_args

from a3gnn.errors import UsageError, unknown_name
from a3gnn.option_names import option

MetricName = Literal["accuracy", "macro_f1", "micro_f1", "roc_auc", "average_precision", "mae"]
METRIC_NAMES: tuple[MetricName, ...] = get_args(MetricName)
#: What a graph's labels are: a class per node, several 0/1 labels per node, or a value per node (regression).
Target = Literal["classes", "labels", "values"]
#: The option that chooses by the graph's labels (`a3gnn.evaluation.choose_metric`).
AUTO: Literal["auto"] = "auto"

#: What people call each.
METRIC_LABELS: dict[MetricName, str] = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "mae": "MAE",
}
#: The metrics that are errors of values; the others are shares, of classes or labels.
ERRORS: tuple[MetricName, ...] = ("mae",)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: what it is called, and how its qualities and differences of these are shown and read.

    Attributes:
        name: As options and files have it.
        scale: Of an error, the one whose quality is 0, in the unit of what is predicted; None of shares.

    Raises:
        UsageError: There is no such metric, or the scale is not one.
    """

    name: MetricName
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.name not in METRIC_NAMES:
            raise unknown_name("a metric", self.name, METRIC_NAMES)
        if (self.name in ERRORS) != (self.scale is not None) or not (self.scale is None or self.scale > 0):
            raise UsageError(
                f"the scale of {self.name} must be {'positive' if self.name in ERRORS else 'None'}, got {self.scale}; "
                "an error needs values that are predicted, and differ"
            )

    @property
    def label(self) -> str:
        """What people call it: `macro-F1`."""
        return METRIC_LABELS[self.name]

    @property
    def unit(self) -> str:
        """What a figure's axis says of it."""
        return "%" if self.scale is None else "in the unit of what is predicted"

    @property
    def larger_is_better(self) -> bool:
        """Whether the metric that people are shown is better where it is larger, as its quality is."""
        return self.scale is None

    @property
    def extreme(self) -> str:
        """What people call a limit on it: the `least` share, or the `most` error that is allowed."""
        return "least" if self.larger_is_better else "most"

    def number(self, quality: float) -> float:
        """Returns what people read for `quality`, without its unit: 87.2 for 0.872, or the error."""
        return 100 * quality if self.scale is None else (1 - quality) * self.scale

    def show(self, quality: float) -> str:
        """Returns `quality` for people: `87.20%`, or the error."""
        return f"{quality:.2%}" if self.scale is None else f"{self.number(quality):.4g}"

    def show_difference(self, difference: float) -> str:
        """Returns a positive difference of two qualities for people: `0.8 points`, hundredths, or that of errors."""
        return f"{100 * difference:.2g} points" if self.scale is None else f"{difference * self.scale:.3g}"

    def show_at_least(self, quality: float) -> str:
        """Returns `quality` for people where it is that or better: `>= 87.20%`, `<= 0.4`."""
        return f"{'>=' if self.larger_is_better else '<='} {self.show(quality)}"

    def show_gain(self, points: str) -> str:
        """Returns by how many `points` a validation quality is better, for people: `+0.50 points of validation F1`."""
        if self.scale is None:
            return f"{points} points of validation {self.label}"
        return f"{points} points, of {self.scale / 100:.3g} each, better in validation {self.label}"

    def as_option(self, quality: float) -> str:
        """Returns a target that `quality` reaches, as `quality_of` takes it, with few digits."""
        if self.scale is None:
            return f"{math.floor(quality * 1e4) / 100:g}"
        return f"{math.ceil(self.number(quality) / self.scale * 1e3) / 1e3 * self.scale:.4g}"

    def quality_of(self, name: str, value: Any) -> float:
        """Returns the quality of the option `name`, which is in percent, or an error.

        Raises:
            UsageError: It is no number above 1 and up to 100: 0.88 is more likely a share than under one percent. Of
                an error: it is not positive.
        """
        is_number = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
        if self.scale is not None:
            if not is_number or not value > 0:
                raise UsageError(f"{name} must be a positive {self.label}, got {value!r}; smaller ones are better")
            return 1 - float(value) / self.scale
        if not is_number or not 1 < float(value) <= 100:
            raise UsageError(
                f"{name} must be in percent, above 1 and up to 100, got {value!r}; 88 stands for a share of 0.88"
            )
        return float(value) / 100

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {"name": self.name, "scale": self.scale}

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
        raise UsageError(f"{option('metric')} must be a name such as macro_f1, or auto, got {value!r}")
    if value is not None and value not in (AUTO, *METRIC_NAMES):
        raise unknown_name(option("metric"), value, (AUTO, *METRIC_NAMES))
    return value
