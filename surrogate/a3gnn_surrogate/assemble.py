"""Computes metrics from the outputs of the regression, and replaces them by exactly known values."""

from __future__ import annotations

import dataclasses

import numpy as np

from a3gnn.learning_curve import ROUNDING, next_point
from a3gnn.measurement import METRICS
from a3gnn.prediction import Prediction, from_log_points
from a3gnn.setting import Setting
from a3gnn_surrogate.columns import Array, Columns
from a3gnn_surrogate.known_curves import KnownCurve, KnownCurves, KnownDefault
from a3gnn_surrogate.rows import ACCURACY_DROP, EPOCHS, HOST_BYTES, THROUGHPUT

_ACCURACY, _SECONDS = METRICS.index("val_accuracy"), METRICS.index("seconds_to_accuracy")


def default_epochs(curves: KnownCurves, default: KnownDefault, throughput: float) -> float:
    """Returns the default's epochs to its target, set-up included, by its curve if that is known.

    Args:
        curves: Known curves of the setting.
        default: Known results of the default.
        throughput: The default's predicted epochs per second.
    """
    known = curves.default_seconds(default.target)
    if known is not None:
        return known * curves.throughput
    return throughput * (1.0 if default.seconds is None else default.seconds)


def metrics_of(
    center: Array, half_width: Array, default: KnownDefault, default_epochs: float, setting: Setting
) -> Prediction:
    """Returns the metrics from the intervals of the outputs.

    Args:
        center: Centers of the intervals of `OUTPUTS`, float64, shape (n_configs, n_outputs).
        half_width: Half-widths of the intervals, same shape.
        default: Known results of the default configuration.
        default_epochs: Its seconds to the target times its epochs per second.
        setting: The task, the graph and the machine.
    """
    mean, low, high = (np.exp(bound) for bound in (center, center - half_width, center + half_width))
    for bound in (mean, low, high):
        bound[:, HOST_BYTES] += setting.hardware.profile.idle_host_bytes
    if not setting.hardware.has_device:
        for bound in (mean, low, high):
            bound[:, METRICS.index("peak_device_bytes")] = 0.0
    graph, lost, off = setting.graph, center[:, ACCURACY_DROP], half_width[:, ACCURACY_DROP]
    # Without a measured reference, predictions are assumed to be right about as often as neighbors agree. If labels are
    # not classes, half are.
    assumed = max(graph.homophily, 1 / max(graph.num_classes, 1)) if graph.target == "classes" else 0.5
    reference = assumed if default.val_accuracy is None else default.val_accuracy
    unknown = default.val_accuracy is None
    mean[:, _ACCURACY] = np.clip(reference - from_log_points(lost), 0, 1)
    low[:, _ACCURACY] = 0.0 if unknown else np.clip(reference - from_log_points(lost + off), 0, 1)
    high[:, _ACCURACY] = 1.0 if unknown else np.clip(reference - from_log_points(lost - off), 0, 1)
    seconds = np.log(default_epochs) + center[:, EPOCHS] - center[:, THROUGHPUT]
    off = np.hypot(half_width[:, EPOCHS], half_width[:, THROUGHPUT])
    for bound, sign in ((mean, 0), (low, -1), (high, 1)):
        bound[:, _SECONDS] = np.exp(seconds + sign * off)
    budget_s = None if default.seconds is None else default.budget_s
    return Prediction(mean, low, high, default_accuracy=default.val_accuracy, budget_s=budget_s)


def with_known_curves(
    prediction: Prediction, columns: Columns, curves: KnownCurves, default: KnownDefault
) -> Prediction:
    """Returns `prediction` with values from `curves` for configurations whose learning key has one.

    Their pace is the predicted one. If a curve was trained far enough, its accuracy and its mini-batches to the target
    are exact; otherwise they bound the prediction. If the default's seconds are unknown, its column holds ratios and
    stays as it is, because a curve's seconds have another unit.
    """
    positions = curves.positions(columns)
    mean, low, high = (bound.copy() for bound in (prediction.mean, prediction.low, prediction.high))
    for position in np.unique(positions[positions >= 0]):
        rows, known = np.flatnonzero(positions == position), curves.curves[position]
        for bound, opposite in ((mean, prediction.mean), (low, prediction.high), (high, prediction.low)):
            throughput = bound[rows, THROUGHPUT]
            if default.budget_s is not None:
                accuracy = _accuracy(known, default.budget_s, throughput, bound[rows, _ACCURACY])
                bound[rows, _ACCURACY] = accuracy
            if default.target is not None and default.seconds is not None:
                seconds = _seconds(known, default.target, opposite[rows, THROUGHPUT], bound[rows, _SECONDS])
                bound[rows, _SECONDS] = seconds
    return dataclasses.replace(prediction, mean=mean, low=low, high=high)


def _accuracy(known: KnownCurve, budget_s: float, throughput: Array, predicted: Array) -> Array:
    """Returns the accuracy after `budget_s` seconds at a throughput, float64, shape (n,).

    If the curve ends before that, it is the prediction, but at least the best known accuracy.
    """
    curve, best = known.curve, np.array([0.0, *known.curve.running_best()])
    batches = max(budget_s - known.setup_s, 0.0) * known.batches_per_epoch * throughput * ROUNDING
    reached = best[np.searchsorted(curve.batches, batches, side="right")]
    return np.where(batches < next_point(curve.trained, curve.batches[0]), reached, np.maximum(predicted, reached))


def _seconds(known: KnownCurve, target: float, throughput: Array, predicted: Array) -> Array:
    """Returns the seconds to `target` at a throughput, float64, shape (n,).

    If the curve doesn't reach it, they are the prediction, but at least the seconds that the curve was trained.
    """
    reached = known.curve.first_reaching(target)
    batches = known.curve.trained if reached is None else reached
    seconds = known.setup_s + batches / (known.batches_per_epoch * throughput)
    return np.maximum(predicted, seconds) if reached is None else seconds
