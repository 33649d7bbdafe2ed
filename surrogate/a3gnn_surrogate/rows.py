"""Measurements as the arrays that models are fitted to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import Task
from a3gnn.hardware import Hardware
from a3gnn.measurement import METRICS, Measurement, Metrics
from a3gnn_surrogate.accuracy import is_reference
from a3gnn_surrogate.analytic import analytic_metrics
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.features import FEATURE_NAMES, feature_matrix
from a3gnn_surrogate.local import POINT_NAMES, knob_points
from a3gnn_surrogate.volume import Array

#: What is modelled, in the order of `METRICS`: logarithms of the first three, and the fall of accuracy.
CHANNELS: tuple[str, ...] = ("throughput_epochs_per_s", "peak_device_bytes", "peak_host_bytes", "accuracy_drop")
#: The channel that is a difference; the others are logarithms.
DROP = CHANNELS.index("accuracy_drop")


@dataclass(frozen=True, slots=True)
class Rows:
    """Measured rows; n rows, c channels.

    Attributes:
        features: float32, shape (n, n_features), columns `FEATURE_NAMES`.
        points: float64, shape (n, n_points), columns `POINT_NAMES`.
        physics: The analytic model in each channel's unit, float64, shape (n, c).
        measured: The same of what was measured, NaN where a channel does not apply.
        graphs: Fingerprints, shape (n,).
        settings: `setting_key` of each row, shape (n,).
        reference: Whether the row learns from the default configuration's mini-batches, bool, shape (n,).
    """

    features: NDArray[np.float32]
    points: Array
    physics: Array
    measured: Array
    graphs: NDArray[np.str_]
    settings: NDArray[np.str_]
    reference: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.graphs)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Rows:
        """Returns `rows` alone."""
        return Rows(*(getattr(self, name)[rows] for name in Rows.__slots__))

    def without_physics(self, num_features: int) -> Rows:
        """Returns the rows with the first `num_features` columns alone and nothing expected by physics."""
        features = np.ascontiguousarray(self.features[:, :num_features])
        return dataclasses.replace(self, features=features, physics=np.zeros_like(self.physics))


def setting_key(task: Task, graph: GraphCharacteristics, hardware: Hardware) -> str:
    """Returns what must agree for a measured level to carry over: task, graph and machine."""
    return f"{learning_setting(task, graph)}|{hardware.fingerprint}"


def learning_setting(task: Task, graph: GraphCharacteristics) -> str:
    """Returns what must agree for accuracies to compare: task and graph."""
    return f"{task.key()}|{graph.fingerprint}"


def channel_physics(analytic: dict[str, Array]) -> Array:
    """Returns the analytic model in each channel's unit, float64, shape (n, c)."""
    columns = [
        analytic[name] if j == DROP else np.log(np.maximum(analytic[name], 1e-12)) for j, name in enumerate(CHANNELS)
    ]
    return np.stack(columns, axis=1)


def reference_accuracies(measurements: Iterable[Measurement]) -> dict[tuple[str, int], float]:
    """Returns the accuracy that drops are counted from, by `learning_setting` and epochs that were asked for.

    The mean of the rows that learn as the default configuration does, or the median of all where there are none.
    """
    default: dict[tuple[str, int], list[float]] = {}
    every: dict[tuple[str, int], list[float]] = {}
    for row in measurements:
        if row.metrics is None or not np.isfinite(row.metrics.test_accuracy):
            continue
        key = (learning_setting(row.task, row.graph), row.accuracy_budget)
        every.setdefault(key, []).append(row.metrics.test_accuracy)
        if is_reference(as_columns([row.config]), row.graph)[0]:
            default.setdefault(key, []).append(row.metrics.test_accuracy)
    return {key: float(np.mean(default[key])) if key in default else float(np.median(every[key])) for key in every}


def rows_of(measurements: Sequence[Measurement]) -> Rows:
    """Returns the rows of the measurements that have metrics; failures teach no number and are left out."""
    done = [row for row in measurements if row.metrics is not None]
    references = reference_accuracies(done)
    settings: dict[tuple[str, Hardware], list[Measurement]] = {}
    for row in done:
        settings.setdefault((setting_key(row.task, row.graph, row.hardware), row.hardware), []).append(row)
    parts = [_setting_rows(group, references) for group in settings.values()]
    if not parts:
        return _no_rows()
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__slots__))


def _setting_rows(group: list[Measurement], references: dict[tuple[str, int], float]) -> Rows:
    task, graph, hardware = group[0].task, group[0].graph, group[0].hardware
    columns = as_columns([row.config for row in group])
    analytic = analytic_metrics(columns, task, graph, hardware)
    learning = learning_setting(task, graph)
    measured = [
        _measured(row.metrics, references.get((learning, row.accuracy_budget), np.nan))
        for row in group
        if row.metrics is not None
    ]
    return Rows(
        features=feature_matrix(columns, task, graph, hardware, analytic),
        points=knob_points(columns, graph),
        physics=channel_physics(analytic),
        measured=np.array(measured),
        graphs=np.full(len(group), graph.fingerprint),
        settings=np.full(len(group), setting_key(task, graph, hardware)),
        reference=is_reference(columns, graph),
    )


def _measured(metrics: Metrics, reference: float) -> list[float]:
    """Returns the channels of measured `metrics`; a device's peak of 0 means that there is no device."""
    values = [getattr(metrics, name) for name in METRICS]
    logs = [float(np.log(value)) if value > 0 else np.nan for value in values[:DROP]]
    return [*logs, reference - values[DROP]]


def _no_rows() -> Rows:
    none = np.empty((0, len(CHANNELS)))
    names = np.empty(0, dtype=np.str_)
    features = np.empty((0, len(FEATURE_NAMES)), dtype=np.float32)
    return Rows(features, np.empty((0, len(POINT_NAMES))), none, none, names, names, np.empty(0, dtype=np.bool_))
