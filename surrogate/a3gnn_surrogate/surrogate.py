"""The surrogate: an analytic model, corrections by measurements, and intervals that hold on unseen graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Reference
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement, distinct
from a3gnn.prediction import Prediction
from a3gnn.setting import Setting
from a3gnn_surrogate import storage
from a3gnn_surrogate.analytic import analytic_metrics
from a3gnn_surrogate.assemble import default_epochs, metrics_of, with_known_curves
from a3gnn_surrogate.columns import Array, Columns, as_columns
from a3gnn_surrogate.features import FEATURE_NAMES, PLAIN_FEATURES, feature_matrix
from a3gnn_surrogate.fit_corrections import CorrectionFit
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.known_default import KnownDefault
from a3gnn_surrogate.learner import Regressor, make_learner
from a3gnn_surrogate.measured_setting import latest_reference_accuracies
from a3gnn_surrogate.points import knob_points, setting_key, task_graph_key
from a3gnn_surrogate.residual import ResidualModel, fit_residual_model, refit
from a3gnn_surrogate.row_source import RowSource
from a3gnn_surrogate.training_rows import OUTPUTS, THROUGHPUT, analytic_outputs

#: Degrees of freedom of the prior's variance. Guess: those of five trials of three windows.
_PRIOR_DEGREES = 10.0
#: Configurations per chunk of a prediction, which bounds its memory. Guess.
_CHUNK = 32_768


class Surrogate(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Predicts throughput, memory, validation accuracy and seconds to accuracy of configurations, with intervals.

    A scikit-learn estimator.

    Args:
        learner: Model of the residual: xgboost; a baseline, linear or tree; or none, for the analytic model alone.
        physics: Whether the residual is over the analytic model. If not, the learner predicts the metrics from knobs,
            graph and machine.
        coverage: Share of measurements that the intervals should cover.
        target_weight: Sample weight of a row of the target graph; other graphs' rows weigh 1. The default is a guess.
        seed: Decides folds, and the rows and columns that a tree sees.

    Attributes:
        calibrations_: Factors on the analytic model's seconds per stage.
        residual_models_: One `ResidualModel` per output.
        setting_corrections_: Corrections of the measured settings (task, graph, machine).
        known_curves_: Known learning curves by `setting_key`.
        reference_accuracies_: Validation accuracy of the default configuration by `task_graph_key`.
        noise_: Relative standard deviation of one trial's throughput by the machine's fingerprint, for machines with
            replicates; `noise` covers any machine.
        num_rows_: Number of rows that were fitted.
        num_graphs_: Number of graphs among these rows.
        feature_names_: Names of the learner's columns.
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

    def fit(
        self,
        measurements: Sequence[Measurement],
        target: str | None = None,
        judged_by: Mapping[str, Reference] | None = None,
        like: Surrogate | None = None,
    ) -> Self:
        """Fits to `measurements` and returns itself.

        Failed trials are left out. Copies of a row, which have equal ids, count once; repetitions of a trial all count.

        Args:
            measurements: Measurements of any graphs, tasks and machines; [] gives the analytic model without
                corrections.
            target: Fingerprint of the tuned graph. Its rows weigh more, and only its settings get their own
                calibrations and interval widths, which takes time. None: all settings do.
            judged_by: Budget and target by which the rows of a setting are judged, by `setting_key`. By default they
                are those of the first row of the setting's default configuration, less a point of accuracy.
            like: A surrogate fitted with these parameters to most of these rows. Its hyper-parameters, variances and
                interval scales are reused, which saves two thirds of the time. Learners, calibrations and the
                corrections of settings are fitted to all rows.

        Raises:
            UsageError: A parameter is out of range, or differs from that of `like`.
        """
        self._check_parameters()
        if like is not None and like.get_params() != self.get_params():
            raise UsageError(
                f"like must have been fitted with the same parameters, {self.get_params()}, got {like.get_params()}; "
                "without like all is fitted anew"
            )
        measurements = distinct(measurements)
        source = RowSource(measurements, self.physics, judged_by)
        rows = source.rows()
        weights = np.where(rows.graphs == target, self.target_weight, 1.0)
        self.residual_models_: list[ResidualModel] = [
            fit_residual_model(source, output, weights, self._make, self.coverage, self.seed)
            if like is None
            else refit(like.residual_models_[output], rows, output, weights)
            for output in range(len(OUTPUTS))
        ]
        prior = self.residual_models_[THROUGHPUT].variances.noise ** 0.5
        self.noise_ = throughput_noise(measurements, prior)
        fit = CorrectionFit(source, self.residual_models_, weights, self.noise_, self.coverage, self.seed)
        self.calibrations_ = fit.own_calibrations(target)
        self.setting_corrections_ = fit.corrections(self.calibrations_, target)
        self.known_curves_ = {key: curves for key, curves in source.curves.items() if curves.curves}
        self.reference_accuracies_ = latest_reference_accuracies(measurements)
        self.num_rows_ = len(rows)
        self.num_graphs_ = len(np.unique(rows.graphs))
        self.feature_names_ = FEATURE_NAMES if self.physics else PLAIN_FEATURES
        return self

    def predict(
        self,
        configs: Sequence[TrainConfig] | Columns,
        setting: Setting,
        reference: KnownDefault | None = None,
    ) -> Prediction:
        """Returns the predicted metrics of `configs`, in their order.

        Throughput, memory and seconds are positive and accuracy is in [0, 1]; the device's peak is 0 without a device.
        Whatever a known learning curve determines is taken from it.

        Args:
            configs: Configurations, or their columns as `SearchSpace.columns` gives them.
            setting: The task, the graph and the machine.
            reference: What the default configuration reached. Missing values are taken from the setting's rows. If
                these lack them too, the accuracy is a guess with the interval [0, 1], and seconds to accuracy are
                ratios to the default's (`Prediction.budget_s` is None).

        Raises:
            NotFittedError: `fit` was not called.
            UsageError: A column is missing.
        """
        self._check_fitted()
        own, default_columns = as_columns(configs), as_columns([TrainConfig()])
        columns = {name: np.concatenate([default_columns[name], values]) for name, values in own.items()}
        centre = np.empty((len(columns["batch_size"]), len(OUTPUTS)))
        widths = np.empty_like(centre)
        for start in range(0, len(centre), _CHUNK):
            rows = slice(start, start + _CHUNK)
            part = {name: values[rows] for name, values in columns.items()}
            centre[rows], widths[rows] = self.intervals(part, setting)
        curves, default = self._curves(setting), self.known_default(setting, reference)
        epochs = default_epochs(curves, default, float(np.exp(centre[0, THROUGHPUT])))
        found = metrics_of(centre[1:], widths[1:], default, epochs, setting)
        return with_known_curves(found, own, curves, default)

    def knows_curve(self, configs: Sequence[TrainConfig] | Columns, setting: Setting) -> NDArray[np.bool_]:
        """Returns for which of `configs` a learning curve is known, bool, shape (n_configs,).

        Args:
            configs: As in `predict`.
            setting: As in `predict`.

        Raises:
            NotFittedError: `fit` was not called.
        """
        self._check_fitted()
        return self.known_curves_.get(setting_key(setting), KnownCurves()).positions(as_columns(configs)) >= 0

    def noise(self, hardware: Hardware) -> float:
        """Returns the relative standard deviation of one trial's throughput on a machine.

        Raises:
            NotFittedError: `fit` was not called.
        """
        self._check_fitted()
        return self.noise_.get(hardware.fingerprint, self.residual_models_[THROUGHPUT].variances.noise ** 0.5)

    def known_default(self, setting: Setting, given: KnownDefault | None = None) -> KnownDefault:
        """Returns the known results of the default configuration: `given`, completed by the setting's rows.

        Raises:
            NotFittedError: `fit` was not called.
        """
        self._check_fitted()
        curves, given = self._curves(setting), given or KnownDefault()
        if curves.reference is not None:
            given = given.or_else(KnownDefault.of(curves.reference))
        accuracy = self.reference_accuracies_.get(task_graph_key(setting.task, setting.graph))
        return given.or_else(KnownDefault(val_accuracy=accuracy, seconds=curves.default_seconds(given.target)))

    def _curves(self, setting: Setting) -> KnownCurves:
        return self.known_curves_.get(setting_key(setting), KnownCurves())

    def intervals(self, columns: Columns, setting: Setting) -> tuple[Array, Array]:
        """Returns centres and half-widths of `OUTPUTS` for canonical `columns`, float64, (n_configs, n_outputs) each.

        Raises:
            NotFittedError: `fit` was not called.
        """
        self._check_fitted()
        analytic = analytic_metrics(columns, setting, self.calibrations_.of(setting))
        features = self._visible(feature_matrix(columns, setting, analytic))
        centre = analytic_outputs(analytic) if self.physics else np.zeros((len(features), len(OUTPUTS)))
        for output, model in enumerate(self.residual_models_):
            centre[:, output] += model.predict(features)
        points = knob_points(columns, setting)
        corrected = self.setting_corrections_.correct(setting_key(setting), points, self.residual_models_)
        return centre + corrected.mean, corrected.half_width

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
            StoreError: `folder` has no surrogate, or one of another schema version.
        """
        return storage.load(cls, Path(folder))

    def _visible(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.feature_names_ == FEATURE_NAMES:
            return features
        return np.ascontiguousarray(features[:, [FEATURE_NAMES.index(name) for name in self.feature_names_]])

    @property
    def _make(self) -> Callable[[], Regressor]:
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


def throughput_noise(measurements: Sequence[Measurement], prior: float) -> Mapping[str, float]:
    """Returns the relative standard deviation of one trial's throughput, by the machine's fingerprint.

    The variance of the logarithms of a trial's replicates is pooled over a machine's trials and with the prior's, which
    dominates while replicates are few. A trial's throughput is the median of its windows. Disturbances outlast a
    window, so the median is assumed to scatter as much as a window.

    Args:
        measurements: Measurements of any machines; machines without a trial of several replicates are left out.
        prior: Relative standard deviation of one trial's throughput without measurements.
    """
    squares: dict[str, float] = {}
    degrees: dict[str, int] = {}
    for row in measurements:
        if row.metrics is None or len(row.metrics.throughput_replicates) < 2:
            continue
        machine, logs = row.setting.hardware.fingerprint, np.log(row.metrics.throughput_replicates)
        squares[machine] = squares.get(machine, 0.0) + float(np.sum((logs - logs.mean()) ** 2))
        degrees[machine] = degrees.get(machine, 0) + len(logs) - 1
    return {
        machine: float(np.sqrt((_PRIOR_DEGREES * prior**2 + squares[machine]) / (_PRIOR_DEGREES + degrees[machine])))
        for machine in squares
    }
