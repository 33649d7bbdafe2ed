"""Measurements as the arrays that models are fitted to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.features import FEATURE_NAMES
from a3gnn_surrogate.points import LEARNING_POINTS, POINT_NAMES

#: The outputs of the regression, in the order of `METRICS`. All are logarithms, except the drop of accuracy, which is
#: in `log_points`. The host's peak is that of a trial that trains its curve, less the known peak of an idle trial. The
#: last output is the ratio of the epochs to the target, set-up included, to the default's; seconds follow from it and
#: the throughput.
OUTPUTS: tuple[str, ...] = (
    *("throughput_epochs_per_s", "peak_device_bytes", "host_bytes_above_idle", "accuracy_drop", "epochs_to_accuracy"),
)
THROUGHPUT, HOST_BYTES, ACCURACY_DROP, EPOCHS = (
    OUTPUTS.index(name)
    for name in ("throughput_epochs_per_s", "host_bytes_above_idle", "accuracy_drop", "epochs_to_accuracy")
)
#: Outputs that a learning curve gives: all rows of a setting that learn alike share one.
LEARNED = [ACCURACY_DROP, EPOCHS]
#: The Gaussian process's inputs on which each of `OUTPUTS` depends, bool, shape (n_outputs, n_points). What is learned
#: does not depend on how mini-batches are made, so a trial informs about all configurations that learn alike.
RELEVANT: NDArray[np.bool_] = np.ones((len(OUTPUTS), len(POINT_NAMES)), dtype=np.bool_)
RELEVANT[LEARNED] = LEARNING_POINTS


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Measured rows as arrays.

    Attributes:
        features: float32, shape (n, n_features), columns `FEATURE_NAMES`.
        points: Inputs of the Gaussian process, float64, shape (n, n_points), columns `POINT_NAMES`.
        analytic: What the analytic model predicts for each of `OUTPUTS`, float64, shape (n, n_outputs).
        measured: What was measured, in the same units, NaN where an output does not apply; same shape.
        graphs: Fingerprints of the graphs, shape (n,).
        settings: `setting_key` of each row, shape (n,).
        reference: Whether the row trains on the default configuration's mini-batches, bool, shape (n,).
    """

    features: NDArray[np.float32]
    points: Array
    analytic: Array
    measured: Array
    graphs: NDArray[np.str_]
    settings: NDArray[np.str_]
    reference: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.graphs)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> TrainingRows:
        """Returns only `rows`, a mask or indices."""
        return TrainingRows(*(getattr(self, name)[rows] for name in TrainingRows.__slots__))

    def residual(self, output: int) -> Array:
        """Returns the residuals of the analytic model in `output`, float64, shape (n,)."""
        return np.asarray(self.measured[:, output] - self.analytic[:, output])

    def without_analytic(self, num_features: int) -> TrainingRows:
        """Returns the rows with their first `num_features` columns only, and an analytic model that predicts 0."""
        features = np.ascontiguousarray(self.features[:, :num_features])
        return dataclasses.replace(self, features=features, analytic=np.zeros_like(self.analytic))


def analytic_outputs(analytic: dict[str, Array]) -> Array:
    """Returns the analytic model's `OUTPUTS`, float64, shape (n, n_outputs).

    The drop of accuracy is 0 here. The model's drop is only a feature of the learner, because adding it to the
    learner's prediction did harm (docs/design/surrogate.md).
    """
    logs = [np.log(np.maximum(analytic[name], 1e-12)) for name in OUTPUTS[:ACCURACY_DROP]]
    epochs = analytic[OUTPUTS[EPOCHS]]
    return np.stack([*logs, np.zeros_like(epochs), epochs], axis=1)


def no_rows() -> TrainingRows:
    """Returns empty training rows."""
    none = np.empty((0, len(OUTPUTS)))
    names = np.empty(0, dtype=np.str_)
    features = np.empty((0, len(FEATURE_NAMES)), dtype=np.float32)
    return TrainingRows(
        features, np.empty((0, len(POINT_NAMES))), none, none, names, names, np.empty(0, dtype=np.bool_)
    )
