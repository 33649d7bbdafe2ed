"""The surrogate: an analytic model, corrections by measurements, and intervals that hold on unseen graphs.

On disk it is a manifest in JSON and boosters in UBJ. No pickles, so loading executes no code. The manifest has the
boosters' hashes, and a booster is read only if its hash matches. Otherwise xgboost would trust the lengths in a damaged
file, and take all memory or read past the file's end.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from a3gnn.config import SEARCHED, TrainConfig
from a3gnn.errors import StoreError, UsageError
from a3gnn.figures import Reference
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement, distinct
from a3gnn.prediction import Prediction
from a3gnn.setting import Setting, setting_key, task_graph_key
from a3gnn.version import __version__
from a3gnn_surrogate import residual
from a3gnn_surrogate.assemble import default_epochs, metrics_of, with_known_curves
from a3gnn_surrogate.columns import Array, Columns, as_columns
from a3gnn_surrogate.corrections import CorrectionFit, SettingCorrections, general_scales
from a3gnn_surrogate.features import FEATURE_NAMES, PLAIN_FEATURES, feature_matrix, kernel_points
from a3gnn_surrogate.known_curves import KnownCurves, KnownDefault
from a3gnn_surrogate.local import KindFactors, LocalCorrection, VarianceComponents
from a3gnn_surrogate.physics.analytic import analytic_metrics
from a3gnn_surrogate.physics.stage_seconds import Calibrations
from a3gnn_surrogate.rows import (
    LEARNED,
    OUTPUTS,
    THROUGHPUT,
    RowSource,
    analytic_outputs,
    latest_reference_accuracies,
    relevant_inputs,
)
from a3gnn_surrogate.search_points import NO_SEARCH, SearchPoints, by_task

#: Degrees of freedom of the prior's variance: those of five trials of three windows, 5 (3 - 1).
_PRIOR_DEGREES = 10.0
#: Configurations per chunk of a prediction: their features take 10 MiB.
_CHUNK = 32_768
S = TypeVar("S", bound="Surrogate")
#: Goes up when the manifest, the features, the kernel's points or the analytic model change.
SCHEMA_VERSION = 12
_FORMAT = "a3gnn-surrogate"
_MANIFEST = "manifest.json"
_REMEDY = "fit one and save it with Surrogate.save"
#: Fields of a `ResidualModel` that scale intervals.
SCALES = ("scale_unseen", "scale_default_known", "scale_beside_default")


class Surrogate(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Predicts throughput, memory, validation accuracy and seconds to accuracy of configurations, with intervals.

    A scikit-learn estimator.

    Args:
        learner: Model of the residual: xgboost; a baseline, linear or tree; or none, for the analytic model alone.
        physics: Whether the residual is over the analytic model. If not, the learner predicts the metrics from knobs,
            graph and machine.
        coverage: Share of measurements that the intervals should cover.
        target_weight: Sample weight of a row of the target graph; other graphs' rows weigh 1.
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
        search_: The search of the tuned setting.
        feature_names_: Names of the learner's columns.
    """

    def __init__(
        self,
        learner: str = "xgboost",
        physics: bool = True,
        coverage: float = 0.9,
        target_weight: float = 1.0,
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
        search: SearchPoints = NO_SEARCH,
    ) -> Self:
        """Fits to `measurements` and returns itself.

        Failed trials are left out. Only those that broke the limit of a host without a device correct the peaks of
        their setting, if it has other rows (`expected_beyond`). Copies of a row, which have equal ids, count once;
        repetitions of a trial all count.

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

            search: The search of the tuned setting: a Gaussian process learns from its values, too. Measurements of
                other searches are left out. It is not saved.

        Raises:
            UsageError: A parameter is out of range, or differs from that of `like`.
        """
        self._check_parameters()
        if like is not None and like.get_params() != self.get_params():
            raise UsageError(
                f"like must have been fitted with the same parameters, {self.get_params()}, got {like.get_params()}; "
                "leave out like to fit everything anew"
            )
        measurements = [row for row in distinct(measurements) if search.covers(row)]
        self.search_ = search
        source = RowSource(measurements, self.physics, judged_by, search)
        rows = source.rows()
        weights = np.where(rows.graphs == target, self.target_weight, 1.0)
        self.residual_models_: list[residual.ResidualModel] = [
            residual.fit_residual_model(source, output, weights, self._make, self.coverage, self.seed)
            if like is None
            else residual.refit(like.residual_models_[output], rows, output, weights)
            for output in range(len(OUTPUTS))
        ]
        prior = self.residual_models_[THROUGHPUT].variances.noise ** 0.5
        self.noise_ = throughput_noise(measurements, prior)
        fit = CorrectionFit(source, self.residual_models_, weights, self.noise_, self.coverage, self.seed)
        self.calibrations_ = fit.own_calibrations(target)
        self.setting_corrections_ = fit.corrections(self.calibrations_, target)
        self.known_curves_ = {key: curves for key, curves in source.curves.items() if curves.curves}
        by_themselves = {key: curves for key, curves in source.curves.items() if key not in (judged_by or ())}
        self.reference_accuracies_ = latest_reference_accuracies(measurements, by_themselves)
        self.num_rows_ = len(rows)
        self.num_graphs_ = len(np.unique(rows.graphs))
        self.feature_names_ = FEATURE_NAMES if self.physics else PLAIN_FEATURES
        return self

    def predict(
        self, configs: Sequence[TrainConfig] | Columns, setting: Setting, reference: KnownDefault | None = None
    ) -> Prediction:
        """Returns the predicted metrics of `configs`, in their order.

        Throughput, memory and seconds are positive and accuracy is in [0, 1]; the device's peak is 0 without a device.
        Whatever a known learning curve determines is taken from it.

        Args:
            configs: Configurations, or their columns as `SearchSpace.columns` gives them.
            setting: The task, the graph and the machine.
            reference: What the default configuration reached. Missing values are taken from the setting's rows. If
                these lack them too, the accuracy has the interval [0, 1], and seconds to accuracy are
                ratios to the default's (`Prediction.budget_s` is None).

        Raises:
            NotFittedError: `fit` was not called.
            UsageError: A column is missing.
        """
        self._check_fitted()
        own, default_columns = as_columns(configs), as_columns([TrainConfig()])
        default_columns[SEARCHED] = np.zeros(1, dtype=np.int64)
        columns = {name: np.concatenate([default_columns[name], values]) for name, values in own.items()}
        center = np.empty((len(columns["batch_size"]), len(OUTPUTS)))
        widths = np.empty_like(center)
        for start in range(0, len(center), _CHUNK):
            rows = slice(start, start + _CHUNK)
            part = {name: values[rows] for name, values in columns.items()}
            center[rows], widths[rows] = self.intervals(part, setting)
        curves, default = self._curves(setting), self.known_default(setting, reference)
        epochs = default_epochs(curves, default, float(np.exp(center[0, THROUGHPUT])))
        found = metrics_of(center[1:], widths[1:], default, epochs, setting)
        return with_known_curves(found, own, curves, default)

    def knows_curve(self, configs: Sequence[TrainConfig] | Columns, setting: Setting) -> NDArray[np.bool_]:
        """Returns for which of `configs` a learning curve is known, bool, shape (n_configs,).

        Raises:
            NotFittedError: `fit` was not called.
        """
        self._check_fitted()
        return self._curves(setting).positions(as_columns(configs)) >= 0

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
        """Returns centers and half-widths of `OUTPUTS` for canonical `columns`, float64, (n_configs, n_outputs) each.

        Raises:
            NotFittedError: `fit` was not called.
        """
        self._check_fitted()
        calibration, center = self.calibrations_.of(setting), np.empty((len(columns["batch_size"]), len(OUTPUTS)))
        for own, rows in by_task(columns, setting):
            part = {name: values[rows] for name, values in columns.items()}
            analytic = analytic_metrics(part, own, calibration)
            features = self._visible(feature_matrix(part, own, analytic))
            found = analytic_outputs(analytic) if self.physics else np.zeros((len(features), len(OUTPUTS)))
            for output, model in enumerate(self.residual_models_):
                found[:, output] += model.predict(features)
            center[rows] = found
        points = kernel_points(columns, setting, self.search_)
        corrected = self.setting_corrections_.correct(setting_key(setting), points, self.residual_models_)
        return center + corrected.mean, corrected.half_width

    def save(self, folder: str | Path) -> Path:
        """Writes the fitted surrogate into `folder` (boosters as UBJ, the rest as JSON) and returns it.

        Raises:
            NotFittedError: `fit` was not called.
            UsageError: The learner is a baseline, which can't be saved.
            StoreError: The folder can't be written.
        """
        self._check_fitted()
        return _save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Returns the surrogate that `save` wrote into `folder`.

        Raises:
            StoreError: `folder` has no surrogate, or one of another schema version.
        """
        return _load(cls, Path(folder))

    def _visible(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.feature_names_ == FEATURE_NAMES:
            return features
        return np.ascontiguousarray(features[:, [FEATURE_NAMES.index(name) for name in self.feature_names_]])

    @property
    def _make(self) -> Callable[[], residual.Regressor]:
        return lambda: residual.make_learner(self.learner, self.seed)

    def _check_parameters(self) -> None:
        self._make()
        if not 0 < self.coverage < 1:
            raise UsageError(f"coverage must be in (0, 1), got {self.coverage}; 0.9 is the default")
        if not self.target_weight > 0:
            raise UsageError(f"target_weight must be positive, got {self.target_weight}; 1 gives all rows equal weight")

    def _check_fitted(self) -> None:
        if not hasattr(self, "residual_models_"):
            raise NotFittedError(
                "this Surrogate is not fitted; call fit(measurements), or fit([]) for the analytic model"
            )


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


def _save(surrogate: Surrogate, folder: Path) -> Path:
    """Writes `surrogate` into `folder`, the manifest last, and returns the folder."""
    if surrogate.learner not in ("xgboost", "none"):
        raise UsageError(f"learner must be xgboost or none to be saved, got {surrogate.learner!r}, which is a baseline")
    outputs = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MANIFEST).unlink(missing_ok=True)
        for output, model in zip(OUTPUTS, surrogate.residual_models_, strict=True):
            outputs[output] = _model_fields(model)
            if isinstance(model.learner, residual.BoostedTrees) and model.learner.booster is not None:
                content = model.learner.booster.save_raw("ubj")
                (folder / f"{output}.ubj").write_bytes(content)
                outputs[output]["hash"] = _hash(content)
        manifest = _manifest(surrogate) | {"channels": outputs}
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    except (OSError, xgboost.core.XGBoostError) as error:
        raise StoreError(f"the surrogate can't be written to {folder}: {error}") from error
    return folder


def _load(cls: type[S], folder: Path) -> S:
    """Returns the surrogate in `folder` as an instance of `cls`."""
    manifest = _read_manifest(folder)
    try:
        surrogate = cls(**manifest["parameters"])
        surrogate.calibrations_ = Calibrations.from_dict(manifest["calibrations"])
        surrogate.residual_models_ = [
            _read_model(folder, output, manifest["channels"][output], surrogate.seed) for output in OUTPUTS
        ]
        surrogate.setting_corrections_ = SettingCorrections.from_dict(manifest["settings"])
        surrogate.known_curves_ = {key: KnownCurves.from_dict(found) for key, found in manifest["curves"].items()}
        surrogate.noise_ = dict(manifest["noise"])
        surrogate.reference_accuracies_ = dict(manifest["references"])
        surrogate.num_rows_ = int(manifest["num_rows"])
        surrogate.num_graphs_ = int(manifest["num_graphs"])
        surrogate.search_ = NO_SEARCH
        surrogate.feature_names_ = tuple(manifest["feature_names"])
    except (OSError, KeyError, TypeError, ValueError) as error:  # XGBoostError is a ValueError
        raise StoreError(f"the surrogate in {folder} is damaged ({error!r}); {_REMEDY}") from error
    return surrogate


def _manifest(surrogate: Surrogate) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "versions": {"a3gnn": __version__, "xgboost": xgboost.__version__},
        "parameters": surrogate.get_params(),
        "feature_names": list(surrogate.feature_names_),
        "num_rows": surrogate.num_rows_,
        "num_graphs": surrogate.num_graphs_,
        "references": surrogate.reference_accuracies_,
        "settings": surrogate.setting_corrections_.to_dict(),
        "calibrations": surrogate.calibrations_.to_dict(),
        "curves": {key: found.to_dict() for key, found in surrogate.known_curves_.items()},
        "noise": dict(surrogate.noise_),
    }


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder} has no surrogate: {_MANIFEST} can't be read ({error}); {_REMEDY}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise StoreError(f"{folder} has no surrogate: {_MANIFEST} has another format; {_REMEDY}")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise StoreError(
            f"the surrogate in {folder} must have schema version {SCHEMA_VERSION}, got "
            f"{manifest.get('schema_version')!r}, which another version of a3gnn wrote; {_REMEDY}"
        )
    if manifest.get("feature_names") not in (list(FEATURE_NAMES), list(PLAIN_FEATURES)):
        raise StoreError(
            f"the surrogate in {folder} must have the columns of this version, got other columns; {_REMEDY}"
        )
    return manifest


def _model_fields(model: residual.ResidualModel) -> dict[str, Any]:
    """Returns the JSON fields of a model."""
    return {
        "intercept": model.intercept,
        **{name: getattr(model, name) for name in SCALES},
        "kinds": model.kinds._asdict(),
        "trees": model.learner.trees if isinstance(model.learner, residual.BoostedTrees) else None,
        "variances": dataclasses.asdict(model.variances),
    }


def _read_model(folder: Path, output: str, fields: dict[str, Any], seed: int) -> residual.ResidualModel:
    learner: residual.Regressor = residual.NoLearner()
    if fields["trees"] is not None:
        learner = residual.BoostedTrees(seed, fields["trees"])
        if fields["trees"]:
            learner.booster = xgboost.Booster(model_file=_read_booster(folder / f"{output}.ubj", fields["hash"]))
            learner.booster.set_param(residual.THREADS)  # files hold no number of threads
    variances = VarianceComponents(**fields["variances"])
    scales = {name: fields[name] for name in SCALES}
    return residual.ResidualModel(
        learner, fields["intercept"], variances, **scales, kinds=KindFactors(**fields["kinds"])
    )


def _read_booster(file: Path, expected: str) -> bytearray:
    content = bytearray(file.read_bytes())
    if (found := _hash(content)) != expected:
        raise ValueError(f"{file.name} must have the hash {expected}, got {found}")
    return content


def _hash(content: bytearray) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def given_default(surrogate: S, setting: Setting, *, as_predicted: bool = False) -> S:
    """Returns `surrogate` with a row of the default configuration in `setting`, which has none of its own.

    The accuracy drop and the epochs of other configurations then get the intervals of settings whose default is
    measured. If the setting has rows, these say more, and `surrogate` itself is returned. `surrogate` is not changed.

    Args:
        surrogate: A fitted surrogate.
        setting: The task, the graph and the machine.
        as_predicted: Whether the default's speed and memory count as measured too, at their predictions. Intervals are
            then those of results relative to the default's (`scores_beside_default`). They exclude errors that both
            share, and the noise of a trial of the default.

    Raises:
        NotFittedError: `surrogate` is not fitted.
    """
    key, columns = setting_key(setting), as_columns([TrainConfig()])
    center, _ = surrogate.intervals(columns, setting)
    known = surrogate.setting_corrections_
    if key in known.corrections:
        return surrogate
    residuals = np.full((1, len(OUTPUTS)), 0.0 if as_predicted else np.nan)
    residuals[0, LEARNED] = -center[0, LEARNED]  # against itself the default loses nothing, and needs as many epochs
    variances = [model.variances for model in surrogate.residual_models_]  # the scales were found by these
    points = kernel_points(columns, setting, surrogate.search_)
    own = LocalCorrection.fit(points, residuals, variances, relevant_inputs(points))
    scales = dict(known.own_scales)
    if as_predicted:
        scales[key] = np.array([model.scale_beside_default for model in surrogate.residual_models_])
        scales[key][LEARNED] = general_scales(own, surrogate.residual_models_)[LEARNED]
    found = copy.copy(surrogate)
    found.setting_corrections_ = dataclasses.replace(
        known, corrections={**known.corrections, key: own}, own_scales=scales
    )
    return found
