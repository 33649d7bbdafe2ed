"""How well the trials of a tune were predicted before they ran."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from a3gnn.measurement import METRICS
from a3gnn.report.front import Front


@dataclass(frozen=True, slots=True)
class PredictionErrors:
    """Errors of one metric over the trials that were predicted and measured.

    Attributes:
        median: Median of |predicted - measured| / measured.
        covered: Trials whose measured value lies in the predicted interval.
        count: Trials.
    """

    median: float
    covered: int
    count: int


def prediction_errors(front: Front) -> dict[str, PredictionErrors]:
    """Returns the errors of each metric of `METRICS` that was predicted and is not zero in every measurement.

    Accuracies that are lower bounds, and missed targets, have no error and are left out.
    """
    found = {}
    for metric in METRICS:
        pairs = [
            (row.predicted[metric], float(getattr(row.measured, metric)))
            for row in front.rows
            if row.predicted is not None
            and metric in row.predicted  # older files have other metrics
            and getattr(row.measured, metric)
            and (row.measured.complete or metric != "val_accuracy")
        ]
        if pairs:
            errors = [abs(predicted["mean"] - value) / abs(value) for predicted, value in pairs]
            covered = sum(predicted["low"] <= value <= predicted["high"] for predicted, value in pairs)
            found[metric] = PredictionErrors(statistics.median(errors), covered, len(pairs))
    return found
