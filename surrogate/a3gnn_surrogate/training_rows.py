"""Measurements as the arrays that models are fitted to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import Task
from a3gnn.hardware import Hardware
from a3gnn.measurement import METRICS, Measurement, Metrics
from a3gnn.setting import Setting
from a3gnn_surrogate.accuracy import is_reference
from a3gnn_surrogate.analytic import analytic_metrics
from a3gnn_surrogate.columns import Array, as_columns
from a3gnn_surrogate.features import FEATURE_NAMES, feature_matrix
from a3gnn_surrogate.local import POINT_NAMES, knob_points

#: The outputs of the regression, in the order of `METRICS`: logarithms of the first three, and the drop of accuracy.
OUTPUTS: tuple[str, ...] = ("throughput_epochs_per_s", "peak_device_bytes", "peak_host_bytes", "accuracy_drop")
#: Index of the output that is a difference; the others are logarithms.
ACCURACY_DROP = OUTPUTS.index("accuracy_drop")


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

    def without_analytic(self, num_features: int) -> TrainingRows:
        """Returns the rows with their first `num_features` columns only, and an analytic model that predicts 0."""
        features = np.ascontiguousarray(self.features[:, :num_features])
        return dataclasses.replace(self, features=features, analytic=np.zeros_like(self.analytic))


class ReferenceKey(NamedTuple):
    """What two accuracies must share to be compared.

    Attributes:
        task_and_graph: Their `task_graph_key`.
        accuracy_budget: Epochs that the trials were asked to train.
    """

    task_and_graph: str
    accuracy_budget: int


def setting_key(setting: Setting) -> str:
    """Returns the key of a setting: task, graph and machine."""
    return f"{task_graph_key(setting.task, setting.graph)}|{setting.hardware.fingerprint}"


def task_graph_key(task: Task, graph: GraphCharacteristics) -> str:
    """Returns the key of a task on a graph."""
    return f"{task.key()}|{graph.fingerprint}"


def analytic_outputs(analytic: dict[str, Array]) -> Array:
    """Returns the analytic model's `OUTPUTS`, float64, shape (n, n_outputs)."""
    columns = [
        analytic[name] if name == "accuracy_drop" else np.log(np.maximum(analytic[name], 1e-12)) for name in OUTPUTS
    ]
    return np.stack(columns, axis=1)


def reference_accuracies(measurements: Iterable[Measurement]) -> dict[ReferenceKey, float]:
    """Returns the accuracies that drops are counted from.

    Each is the mean of the rows that train on the default configuration's mini-batches, or where there are none, the
    median of all rows.
    """
    default: dict[ReferenceKey, list[float]] = {}
    every: dict[ReferenceKey, list[float]] = {}
    for row in measurements:
        if row.metrics is None or not np.isfinite(row.metrics.test_accuracy):
            continue
        key = ReferenceKey(task_graph_key(row.setting.task, row.setting.graph), row.accuracy_budget)
        every.setdefault(key, []).append(row.metrics.test_accuracy)
        if is_reference(as_columns([row.config]), row.setting.graph)[0]:
            default.setdefault(key, []).append(row.metrics.test_accuracy)
    return {key: float(np.mean(default[key])) if key in default else float(np.median(every[key])) for key in every}


def training_rows(measurements: Sequence[Measurement]) -> TrainingRows:
    """Returns the rows of the measurements that have metrics; failed trials have none and are left out."""
    done = [row for row in measurements if row.metrics is not None]
    references = reference_accuracies(done)
    settings: dict[tuple[str, Hardware], list[Measurement]] = {}
    for row in done:
        settings.setdefault((setting_key(row.setting), row.setting.hardware), []).append(row)
    parts = [_setting_rows(group, references) for group in settings.values()]
    if not parts:
        return _no_rows()
    return TrainingRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in TrainingRows.__slots__))


def _setting_rows(group: list[Measurement], references: dict[ReferenceKey, float]) -> TrainingRows:
    setting = group[0].setting
    columns = as_columns([row.config for row in group])
    analytic = analytic_metrics(columns, setting)
    compared = task_graph_key(setting.task, setting.graph)
    measured = [
        _measured(row.metrics, references.get(ReferenceKey(compared, row.accuracy_budget), np.nan))
        for row in group
        if row.metrics is not None
    ]
    return TrainingRows(
        features=feature_matrix(columns, setting, analytic),
        points=knob_points(columns, setting.graph),
        analytic=analytic_outputs(analytic),
        measured=np.array(measured),
        graphs=np.full(len(group), setting.graph.fingerprint),
        settings=np.full(len(group), setting_key(setting)),
        reference=is_reference(columns, setting.graph),
    )


def _measured(metrics: Metrics, reference: float) -> list[float]:
    """Returns the measured `OUTPUTS`; a device peak of 0 means that there is no device."""
    values = [getattr(metrics, name) for name in METRICS]
    logs = [float(np.log(value)) if value > 0 else np.nan for value in values[:ACCURACY_DROP]]
    return [*logs, reference - values[ACCURACY_DROP]]


def _no_rows() -> TrainingRows:
    none = np.empty((0, len(OUTPUTS)))
    names = np.empty(0, dtype=np.str_)
    features = np.empty((0, len(FEATURE_NAMES)), dtype=np.float32)
    return TrainingRows(
        features, np.empty((0, len(POINT_NAMES))), none, none, names, names, np.empty(0, dtype=np.bool_)
    )
