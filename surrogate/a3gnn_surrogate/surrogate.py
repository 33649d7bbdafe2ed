"""The surrogate: physics first, then what measurements teach, with intervals that hold on unseen graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import Task, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware
from a3gnn.measurement import METRICS, Measurement, distinct
from a3gnn.prediction import Prediction
from a3gnn_surrogate import storage
from a3gnn_surrogate.analytic import analytic_metrics
from a3gnn_surrogate.columns import Columns, as_columns
from a3gnn_surrogate.features import FEATURE_NAMES, PLAIN_FEATURES, feature_matrix
from a3gnn_surrogate.learner import Learner
from a3gnn_surrogate.learners import make_learner
from a3gnn_surrogate.local import knob_points
from a3gnn_surrogate.residual import fit_residual
from a3gnn_surrogate.rows import CHANNELS, DROP, Rows, channel_physics, learning_setting, rows_of, setting_key
from a3gnn_surrogate.settings import fit_settings, latest_references
from a3gnn_surrogate.volume import Array

#: Configurations are predicted in chunks of this many rows, which bounds the memory of a sweep.
_CHUNK = 32_768


class Surrogate(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Predicts throughput, memory and accuracy of configurations, with intervals; an estimator of scikit-learn.

    Args:
        learner: What learns the residual: xgboost; or a baseline, linear, tree, or none (the analytic model alone).
        physics: Whether the residual is over the analytic model; without, the learner sees knobs, graph and machine.
        coverage: Share of measurements that the intervals are to cover.
        target_weight: Weight of a row of the target graph against another's.
        seed: Decides folds, and the rows and columns that a tree sees.

    Attributes:
        residuals_: One `Residual` a channel.
        settings_: What the measured settings (task, graph, machine) add.
        references_: Accuracy of the default configuration by task and graph.
        num_rows_: Rows that were fitted.
        num_graphs_: Graphs among them.
        feature_names_: The learner's columns.
    """

    def __init__(
        self,
        learner: str = "xgboost",
        physics: bool = True,
        coverage: float = 0.9,
        target_weight: float = 4.0,
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.physics = physics
        self.coverage = coverage
        self.target_weight = target_weight
        self.seed = seed

    def fit(self, measurements: Sequence[Measurement], target: str | None = None) -> Self:
        """Fits to `measurements` and returns itself; none at all leave physics alone.

        Failures are left out. Copies of a row, which have its id, count once; repetitions of a trial all count.

        Args:
            measurements: Rows of any graphs, tasks and machines.
            target: Fingerprint of the graph that is tuned: its rows weigh more, and narrow its own intervals.

        Raises:
            UsageError: A parameter breaks its law.
        """
        self._check_parameters()
        measurements = distinct(measurements)
        rows = self._rows(measurements)
        weights = np.where(rows.graphs == target, self.target_weight, 1.0)
        self.residuals_ = [
            fit_residual(rows, channel, weights, self._make, self.coverage, self.seed)
            for channel in range(len(CHANNELS))
        ]
        self.settings_ = fit_settings(rows, self.residuals_, weights, target, self.coverage, self.seed)
        self.references_ = latest_references(measurements)
        self.num_rows_ = len(rows)
        self.num_graphs_ = len(np.unique(rows.graphs))
        self.feature_names_ = FEATURE_NAMES if self.physics else PLAIN_FEATURES
        return self

    def predict(
        self,
        configs: Sequence[TrainConfig] | Columns,
        task: Task,
        graph: GraphCharacteristics,
        hardware: Hardware,
        reference_accuracy: float | None = None,
    ) -> Prediction:
        """Returns the predicted metrics of `configs`, in their order.

        Throughput and memory are positive and accuracy is in [0, 1] by construction; the device's peak is 0 without
        a device.

        Args:
            configs: Configurations, or their columns as `SearchSpace.columns` gives them.
            task: What is trained.
            graph: On which graph.
            hardware: On which machine.
            reference_accuracy: Test accuracy of the default configuration. None takes the measured one; where there
                is none the mean is a guess and the interval all of [0, 1].

        Raises:
            NotFittedError: `fit` was not called.
            UsageError: A column is missing.
        """
        self._check_fitted()
        columns = as_columns(configs)
        reference = self.references_.get(learning_setting(task, graph), reference_accuracy)
        if reference_accuracy is not None:
            reference = reference_accuracy
        widths = self.settings_.widths(setting_key(task, graph, hardware), self.residuals_)
        centre = np.empty((len(columns["batch_size"]), len(CHANNELS)))
        for start in range(0, len(centre), _CHUNK):
            part = {name: values[start : start + _CHUNK] for name, values in columns.items()}
            centre[start : start + _CHUNK] = self._channels(part, task, graph, hardware)
        return _prediction(centre, widths, reference, graph, hardware)

    def _channels(self, columns: Columns, task: Task, graph: GraphCharacteristics, hardware: Hardware) -> Array:
        """Returns the channels' centres of canonical `columns`, float64, shape (n_configs, n_channels)."""
        analytic = analytic_metrics(columns, task, graph, hardware)
        features = self._visible(feature_matrix(columns, task, graph, hardware, analytic))
        centre = channel_physics(analytic) if self.physics else np.zeros((len(features), len(CHANNELS)))
        for channel, residual in enumerate(self.residuals_):
            centre[:, channel] += residual.predict(features)
        key = setting_key(task, graph, hardware)
        return centre + self.settings_.correction(key, knob_points(columns, graph))

    def save(self, folder: str | Path) -> Path:
        """Writes the fitted surrogate into `folder` (boosters as UBJ, the rest as JSON) and returns it.

        Raises:
            NotFittedError: `fit` was not called.
            UsageError: The learner is a baseline.
            StoreError: The folder can't be written.
        """
        self._check_fitted()
        return storage.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Returns the surrogate that `save` wrote into `folder`.

        Raises:
            StoreError: `folder` holds none, or one of another schema version.
        """
        return storage.load(cls, Path(folder))

    def _rows(self, measurements: Sequence[Measurement]) -> Rows:
        rows = rows_of(measurements)
        if self.physics:
            return rows
        return rows.without_physics(len(PLAIN_FEATURES))

    def _visible(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return features if self.physics else np.ascontiguousarray(features[:, : len(PLAIN_FEATURES)])

    @property
    def _make(self) -> Callable[[], Learner]:
        return lambda: make_learner(self.learner, self.seed)

    def _check_parameters(self) -> None:
        self._make()
        if not 0 < self.coverage < 1:
            raise UsageError(f"coverage must be in (0, 1), got {self.coverage}; 0.9 is the default")
        if not self.target_weight > 0:
            raise UsageError(f"target_weight must be positive, got {self.target_weight}; 1 weighs all rows alike")

    def _check_fitted(self) -> None:
        if not hasattr(self, "residuals_"):
            raise NotFittedError("this Surrogate is not fitted; call fit(measurements), with [] for physics alone")


def _prediction(
    centre: Array, widths: Array, reference: float | None, graph: GraphCharacteristics, hardware: Hardware
) -> Prediction:
    bounds = [centre, centre - widths, centre + widths]
    mean, low, high = (np.exp(bound) for bound in bounds)
    if not hardware.has_device:
        for bound in (mean, low, high):
            bound[:, METRICS.index("peak_device_bytes")] = 0.0
    accuracy = METRICS.index("test_accuracy")
    # Without a measured reference: neighbours vote right about as often as they agree.
    level = max(graph.homophily, 1 / max(graph.num_classes, 1)) if reference is None else reference
    mean[:, accuracy] = np.clip(level - centre[:, DROP], 0, 1)
    low[:, accuracy] = 0.0 if reference is None else np.clip(level - bounds[2][:, DROP], 0, 1)
    high[:, accuracy] = 1.0 if reference is None else np.clip(level - bounds[1][:, DROP], 0, 1)
    return Prediction(mean, low, high)
