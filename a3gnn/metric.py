"""`Metric`: how a model is judged on validation and test nodes, links or edges.

Code computes, stores and compares one float, the quality, of which larger is better. For most metrics the quality is
the metric itself, a share in [0, 1]. For an error E it is 1 - E / S, where S is the MAE of predicting the train
nodes' median for every node (`GraphCharacteristics.label_spread`): 1 means no error, 0 an error of S, and negative
values are worse. Differences of quality thus mean the same in any unit of the labels. Constants that are shares of 1,
such as the accuracy that may be lost, apply to errors too. Users see the error itself.

Fields and options named accuracy, such as `val_accuracy`, hold the quality by the task's metric. Stored rows and
scripts have used these names since accuracy was the only metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self, get_args

from a3gnn.errors import UsageError, unknown_name
from a3gnn.option_names import option

LabelMetricName = Literal["accuracy", "macro_f1", "micro_f1", "roc_auc", "average_precision", "mae", "rmse", "r2"]
RankMetricName = Literal["mrr", "hits@10", "recall@20", "ndcg@20", "map@20"]
MetricName = LabelMetricName | RankMetricName
#: The metrics of links by their rank among all candidates (`a3gnn.evaluation.ranking.Ranks`).
RANK_METRICS: tuple[RankMetricName, ...] = get_args(RankMetricName)
#: Scores of links without a model, by name (`a3gnn.evaluation.heuristics`).
HEURISTICS = ("popularity", "item neighbors")
#: Models of nodes without a graph network, by name (`a3gnn.evaluation.row_models`).
RowModel = Literal["linear", "mlp", "boosting", "neighbor boosting"]
ROW_MODELS: tuple[RowModel, ...] = get_args(RowModel)
#: Most quality that one of them may be below a network's and still be named: about as far as seeds spread. On five
#: graphs their standard deviation is .0003 to .006, and .0014 in the middle (docs/design/seed_order.md).
_NEARLY = 0.005
METRIC_NAMES: tuple[MetricName, ...] = (*get_args(LabelMetricName), *RANK_METRICS)
#: Kind of a graph's labels: a class per node, several 0/1 labels per node, or a value per node (regression).
LabelTarget = Literal["classes", "labels", "values"]
#: What is predicted: labels, or links.
Target = Literal["classes", "labels", "values", "links"]
#: The option that chooses by the graph's labels (`a3gnn.evaluation.choose_metric`).
AUTO: Literal["auto"] = "auto"

#: Display names.
METRIC_LABELS: dict[MetricName, str] = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "mae": "MAE",
    "rmse": "RMSE",
    "r2": "R2",
    "mrr": "MRR",
    "hits@10": "hits@10",
    "recall@20": "recall@20",
    "ndcg@20": "NDCG@20",
    "map@20": "MAP@20",
}
#: The metrics that are errors of values; the others are shares, of classes, labels or variance.
ERRORS: tuple[MetricName, ...] = ("mae", "rmse")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its name, and how its qualities and their differences are shown and read.

    Attributes:
        name: Name in options and files.
        scale: For an error, the error whose quality is 0, in the unit of the labels; None for shares.

    Raises:
        UsageError: The metric is unknown, or the scale is invalid.
    """

    name: MetricName
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.name not in METRIC_NAMES:
            raise unknown_name("a metric", self.name, METRIC_NAMES)
        if (self.name in ERRORS) != (self.scale is not None) or not (self.scale is None or self.scale > 0):
            raise UsageError(
                f"the scale of {self.name} must be {'positive' if self.name in ERRORS else 'None'}, got "
                f"{self.scale}; an error metric needs predicted values that differ"
            )

    @property
    def label(self) -> str:
        """Display name: `macro-F1`."""
        return METRIC_LABELS[self.name]

    @property
    def unit(self) -> str:
        """Unit on the axis of a figure."""
        return "%" if self.scale is None else "in the unit of the values"

    @property
    def larger_is_better(self) -> bool:
        """Whether larger values of the shown metric are better, as they always are for its quality."""
        return self.scale is None

    @property
    def extreme(self) -> str:
        """Word for a limit: the `least` share or the `most` error that is allowed."""
        return "least" if self.larger_is_better else "most"

    def number(self, quality: float) -> float:
        """Returns the shown number for `quality`, without its unit: 87.2 for 0.872, or the error."""
        return 100 * quality if self.scale is None else (1 - quality) * self.scale

    def show(self, quality: float) -> str:
        """Returns `quality` as text: `87.20%`, or the error."""
        return f"{quality:.2%}" if self.scale is None else f"{self.number(quality):.4g}"

    def show_difference(self, difference: float) -> str:
        """Returns a positive difference of two qualities as text: `0.8 points` (hundredths), or that of the errors."""
        return f"{100 * difference:.2g} points" if self.scale is None else f"{difference * self.scale:.3g}"

    def show_at_least(self, quality: float) -> str:
        """Returns the text for `quality` or better: `>= 87.20%`, `<= 0.4`."""
        return f"{'>=' if self.larger_is_better else '<='} {self.show(quality)}"

    def show_gain(self, points: str) -> str:
        """Returns the text for a gain of `points` in validation quality: `+0.50 points of validation F1`."""
        if self.scale is None:
            return f"{points} points of validation {self.label}"
        return f"{points} points, of {self.scale / 100:.3g} each, better in validation {self.label}"

    def as_option(self, quality: float) -> str:
        """Returns a target with few digits that `quality` reaches, in the form that `quality_of` reads."""
        if self.scale is None:
            return f"{math.floor(quality * 1e4) / 100:g}"
        return f"{math.ceil(self.number(quality) / self.scale * 1e3) / 1e3 * self.scale:.4g}"

    def quality_of(self, name: str, value: Any) -> float:
        """Returns the quality for `value` of the option `name`: a percentage, or an error.

        Raises:
            UsageError: A percentage is not above 1 and up to 100, because 0.88 is more likely a share than under one
                percent; or an error is not positive.
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
        """Returns the metric of `to_dict`; accuracy for None, as in files from before other metrics existed."""
        return cls("accuracy") if fields is None else cls(**fields)


ACCURACY = Metric("accuracy")


def nearly_as_good(found: Mapping[str, float], network: float | None) -> str:
    """Returns the best prediction without a network, if it is at most half a point below a network's quality; else "".

    Args:
        found: The validation quality of each prediction.
        network: The network's validation quality; None if unknown.
    """
    best = max(found, key=found.__getitem__, default="")
    return best if best and network is not None and found[best] >= network - _NEARLY else ""


def checked_metric(value: Any) -> str | None:
    """Returns `value` if the argument `metric` may have it: a metric's name, "auto", or None.

    Raises:
        UsageError: `value` is none of them.
    """
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{option('metric')} must be a name such as macro_f1, or auto, got {value!r}")
    if value is not None and value not in (AUTO, *METRIC_NAMES):
        raise unknown_name(option("metric"), value, (AUTO, *METRIC_NAMES))
    return value
