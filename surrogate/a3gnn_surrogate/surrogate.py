"""The surrogate: an analytic model, what measurements correct in it, and intervals that hold on unseen graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS, Measurement, distinct
from a3gnn.prediction import Prediction
from a3gnn.setting import Setting
from a3gnn_surrogate import storage
from a3gnn_surrogate.analytic import analytic_metrics
from a3gnn_surrogate.columns import Array, Columns, as_columns
from a3gnn_surrogate.features import FEATURE_NAMES, PLAIN_FEATURES, feature_matrix
from a3gnn_surrogate.learner import Learner, make_learner
from a3gnn_surrogate.local import knob_points
from a3gnn_surrogate.residual import fit_residual_model
from a3gnn_surrogate.setting_corrections import fit_setting_corrections, latest_reference_accuracies
from a3gnn_surrogate.training_rows import (
    ACCURACY_DROP,
    OUTPUTS,
    analytic_outputs,
    setting_key,
    task_graph_key,
    training_rows,
)

#: Configurations per chunk of a prediction, which bounds its memory. Guess.
_CHUNK = 32_768


class Surrogate(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Predicts throughput, memory and accuracy of configurations, with intervals; an estimator of scikit-learn.

    Args:
        learner: What is fitted to the residual: xgboost; a baseline, linear or tree; or none, for the analytic model
            without any.
        physics: Whether the residual is over the analytic model; otherwise the learner predicts the metrics from
            knobs, graph and machine.
        coverage: Share of measurements that the intervals should cover.
        target_weight: Sample weight of a row of the target graph; other graphs' rows weigh 1. The default is a guess.
        seed: Decides folds, and the rows and columns that a tree sees.

    Attributes:
        residual_models_: One `ResidualModel` per output.
        setting_corrections_: Corrections of the measured settings (task, graph, machine).
        reference_accuracies_: Accuracy of the default configuration by `task_graph_key`.
        num_rows_: Number of rows that were fitted.
        num_graphs_: Number of their graphs.
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
        """Fits to `measurements` and returns itself.

        Failed trials are left out. Copies of a row, which have equal ids, count once; repetitions of a trial all count.

        Args:
            measurements: Of any graphs, tasks and machines; [] gives the analytic model without corrections.
            target: Fingerprint of the graph that is tuned: its rows weigh more, and narrow its own intervals.

        Raises:
            UsageError: A parameter is out of range.
        """
        self._check_parameters()
        measurements = distinct(measurements)
        rows = training_rows(measurements)
        if not self.physics:
            rows = rows.without_analytic(len(PLAIN_FEATURES))
        weights = np.where(rows.graphs == target, self.target_weight, 1.0)
        self.residual_models_ = [
            fit_residual_model(rows, output, weights, self._make, self.coverage, self.seed)
            for output in range(len(OUTPUTS))
        ]
        self.setting_corrections_ = fit_setting_corrections(
            rows, self.residual_models_, weights, target, self.coverage, self.seed
        )
        self.reference_accuracies_ = latest_reference_accuracies(measurements)
        self.num_rows_ = len(rows)
        self.num_graphs_ = len(np.unique(rows.graphs))
        self.feature_names_ = FEATURE_NAMES if self.physics else PLAIN_FEATURES
        return self

    def predict(
        self,
        configs: Sequence[TrainConfig] | Columns,
        setting: Setting,
        reference_accuracy: float | None = None,
    ) -> Prediction:
        """Returns the predicted metrics of `configs`, in their order.

        Throughput and memory are positive and accuracy is in [0, 1]; the device's peak is 0 without a device.

        Args:
            configs: Configurations, or their columns as `SearchSpace.columns` gives them.
            setting: What is trained, on which graph and machine.
            reference_accuracy: Test accuracy of the default configuration. None takes the measured one; where
                there is none, the mean is a guess and the interval is [0, 1].

        Raises:
            NotFittedError: `fit` was not called.
            UsageError: A column is missing.
        """
        self._check_fitted()
        columns = as_columns(configs)
        reference = self.reference_accuracies_.get(task_graph_key(setting.task, setting.graph), reference_accuracy)
        if reference_accuracy is not None:
            reference = reference_accuracy
        widths = self.setting_corrections_.half_widths(setting_key(setting), self.residual_models_)
        centre = np.empty((len(columns["batch_size"]), len(OUTPUTS)))
        for start in range(0, len(centre), _CHUNK):
            part = {name: values[start : start + _CHUNK] for name, values in columns.items()}
            centre[start : start + _CHUNK] = self._centre(part, setting)
        return _prediction(centre, widths, reference, setting)

    def _centre(self, columns: Columns, setting: Setting) -> Array:
        """Returns the centres of the intervals of canonical `columns`, float64, shape (n_configs, n_outputs)."""
        analytic = analytic_metrics(columns, setting)
        features = self._visible(feature_matrix(columns, setting, analytic))
        centre = analytic_outputs(analytic) if self.physics else np.zeros((len(features), len(OUTPUTS)))
        for output, model in enumerate(self.residual_models_):
            centre[:, output] += model.predict(features)
        key = setting_key(setting)
        return centre + self.setting_corrections_.correction(key, knob_points(columns, setting.graph))

    def save(self, folder: str | Path) -> Path:
        """Writes the fitted surrogate into `folder` (boosters as UBJ, the rest as JSON) and returns it.

        Raises:
            NotFittedError: `fit` was not called.
            UsageError: The learner is a baseline, which can't be saved.
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
            raise UsageError(f"target_weight must be positive, got {self.target_weight}; 1 gives all rows equal weight")

    def _check_fitted(self) -> None:
        if not hasattr(self, "residual_models_"):
            raise NotFittedError("this Surrogate is not fitted; call fit(measurements); fit([]) is the analytic model")


def _prediction(centre: Array, widths: Array, reference: float | None, setting: Setting) -> Prediction:
    graph = setting.graph
    bounds = [centre, centre - widths, centre + widths]
    mean, low, high = (np.exp(bound) for bound in bounds)
    if not setting.hardware.has_device:
        for bound in (mean, low, high):
            bound[:, METRICS.index("peak_device_bytes")] = 0.0
    accuracy = METRICS.index("test_accuracy")
    # Without a measured reference, guess: predictions are right about as often as neighbours agree.
    default = max(graph.homophily, 1 / max(graph.num_classes, 1)) if reference is None else reference
    mean[:, accuracy] = np.clip(default - centre[:, ACCURACY_DROP], 0, 1)
    low[:, accuracy] = 0.0 if reference is None else np.clip(default - bounds[2][:, ACCURACY_DROP], 0, 1)
    high[:, accuracy] = 1.0 if reference is None else np.clip(default - bounds[1][:, ACCURACY_DROP], 0, 1)
    return Prediction(mean, low, high)
