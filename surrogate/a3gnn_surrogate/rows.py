"""Measurements as training rows, calibrated without any graphs that are held out."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.figures import Reference
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind, Measurement, Metrics
from a3gnn.prediction import log_points
from a3gnn.setting import Setting, setting_key, task_graph_key
from a3gnn.task import Values
from a3gnn_surrogate.columns import Array, as_columns
from a3gnn_surrogate.features import (
    FEATURE_NAMES,
    LEARNING_POINTS,
    PLAIN_FEATURES,
    POINT_NAMES,
    feature_matrix,
    kernel_points,
)
from a3gnn_surrogate.known_curves import KnownCurves, Learnt
from a3gnn_surrogate.physics.accuracy import is_reference
from a3gnn_surrogate.physics.analytic import Work, analytic_metrics, expected_work
from a3gnn_surrogate.physics.memory import memory_terms, training_peak
from a3gnn_surrogate.physics.stage_seconds import UNCALIBRATED, Calibration, Calibrations, stage_seconds, train_terms
from a3gnn_surrogate.search_points import NO_SEARCH, SearchPoints, costly, costly_values

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


def relevant_inputs(points: Array) -> NDArray[np.bool_]:
    """Returns `RELEVANT` for `points`, bool, shape (n_outputs, n_points): a search's inputs affect all outputs."""
    return np.hstack([RELEVANT, np.ones((len(OUTPUTS), points.shape[1] - len(POINT_NAMES)), dtype=np.bool_)])


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Measured rows as arrays."""

    features: NDArray[np.float32]  # float32, shape (n, n_features), columns `FEATURE_NAMES`
    points: Array  # inputs of the Gaussian process, float64, shape (n, n_points), columns `POINT_NAMES`
    analytic: Array  # what the analytic model predicts for each of `OUTPUTS`, float64, shape (n, n_outputs)
    measured: Array  # what was measured, in the same units, NaN where an output does not apply; same shape
    graphs: NDArray[np.str_]  # fingerprints of the graphs, shape (n,)
    settings: NDArray[np.str_]  # `setting_key` of each row, shape (n,)
    reference: NDArray[np.bool_]  # whether the row trains on the default configuration's mini-batches, bool, shape (n,)

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


def no_rows(width: int = len(POINT_NAMES)) -> TrainingRows:
    """Returns empty training rows with points of `width` inputs."""
    none = np.empty((0, len(OUTPUTS)))
    names = np.empty(0, dtype=np.str_)
    features = np.empty((0, len(FEATURE_NAMES)), dtype=np.float32)
    return TrainingRows(features, np.empty((0, width)), none, none, names, names, np.empty(0, dtype=np.bool_))


class ReferenceKey(NamedTuple):
    """Key that two accuracies after a fixed number of epochs must share to be compared."""

    task_and_graph: str  # their `task_graph_key`
    accuracy_budget: int  # epochs requested for the trials


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """Measurements of one setting by one probe of its machine: all with metrics, or all beyond the host's limit.

    Attributes:
        setting: What was trained, on which graph and machine, with a search's values that change the cost of a step.
        asked: The same without a search's values, by which rows are found.
        columns: The configurations, canonical.
        work: Their expected work.
        stages: Measured seconds per mini-batch of sampling, gathering and training, float64, shape (n, 3).
        terms: Expected terms of these three and of memory, uncalibrated, float64, shape (n, n_terms) each. A tune fits
            after every trial, and these stay.
    """

    setting: Setting
    asked: Setting
    columns: dict[str, NDArray[Any]]
    work: Work
    measured: Array
    stages: Array
    terms: tuple[Array, ...] = field(init=False)

    def __post_init__(self) -> None:
        expected = stage_seconds(self.columns, *self.work, self.setting)
        train = train_terms(self.work.cost, self.setting.hardware)
        terms = train, memory_terms(self.columns, *self.work, self.setting)
        object.__setattr__(self, "terms", (expected.sample[:, None], expected.gather[:, None], *terms))

    @classmethod
    def of(cls, rows: Sequence[Measurement], curves: KnownCurves, references: Mapping[ReferenceKey, float]) -> Self:
        """Returns the measured setting of `rows`, which all have metrics.

        Args:
            rows: Measurements of one setting by one probe.
            curves: Known curves of the setting, from all probes.
            references: Accuracies from which drops after a fixed number of epochs are counted.
        """
        setting, columns = costly_setting(rows[0]), as_columns([row.config for row in rows])
        found = [(row, row.metrics) for row in rows if row.metrics is not None]
        measured = [
            _measured(row, metrics, learned, curves, references.get(_reference_key(row), np.nan))
            for (row, metrics), learned in zip(found, curves.learned(rows), strict=True)
        ]
        stages = [metrics.stage_seconds for _, metrics in found]
        return cls(
            setting=setting,
            asked=rows[0].setting,
            columns=columns,
            work=expected_work(columns, setting),
            measured=np.array(measured),
            stages=np.array([[stage.sample, stage.gather, stage.train] for stage in stages]),
        )

    @classmethod
    def of_failures(cls, rows: Sequence[Measurement]) -> Self:
        """Returns `rows` of one setting by one probe that broke the host's memory limit, with lower bounds of peaks."""
        setting, columns = costly_setting(rows[0]), as_columns([row.config for row in rows])
        measured = np.full((len(rows), len(OUTPUTS)), np.nan)
        for place, row in enumerate(rows):
            assert isinstance(row.outcome, Failure)
            above_idle = row.outcome.limit - setting.hardware.profile.idle_host_bytes
            measured[place, HOST_BYTES] = np.log(above_idle) if above_idle > 0 else np.nan
        work, stages = expected_work(columns, setting), np.full((len(rows), 3), np.nan)
        return cls(setting, rows[0].setting, columns, work, measured, stages)

    def __len__(self) -> int:
        return len(self.measured)

    def training_rows(self, calibration: Calibration, search: SearchPoints = NO_SEARCH) -> TrainingRows:
        """Returns the rows with the analytic model's predictions under `calibration`, and points of a `search`."""
        setting, count = self.setting, len(self)
        analytic = analytic_metrics(self.columns, setting, calibration, self.work)
        return TrainingRows(
            features=feature_matrix(self.columns, setting, analytic),
            points=kernel_points(self.columns, self.asked, search),
            analytic=analytic_outputs(analytic),
            measured=self.measured,
            graphs=np.full(count, setting.graph.fingerprint),
            settings=np.full(count, setting_key(self.asked)),
            reference=is_reference(self.columns, setting.graph),
        )


def _reference_key(row: Measurement) -> ReferenceKey:
    return ReferenceKey(task_graph_key(row.setting.task, row.setting.graph), row.accuracy_budget)


def _measured(
    row: Measurement, metrics: Metrics, learned: Learnt, curves: KnownCurves, fixed_epochs: float
) -> list[float]:
    """Returns the measured `OUTPUTS` of a row; a device peak of 0 means that there is no device.

    Args:
        row: The measurement.
        metrics: The metrics of the row.
        learned: What the row learned; a curve that ended early counts with its expectation.
        curves: The curves of its setting.
        fixed_epochs: The reference for its accuracy after a fixed number of epochs.
    """
    hardware = row.setting.hardware
    above_idle = training_peak(metrics, hardware) - hardware.profile.idle_host_bytes
    sizes = (metrics.throughput_epochs_per_s, metrics.peak_device_bytes, above_idle)
    logs = [float(np.log(value)) if value > 0 else np.nan for value in sizes]
    if metrics.val_accuracy is not None:  # measurement version 2
        return [*logs, float(log_points(fixed_epochs - metrics.val_accuracy)), np.nan]
    seconds = curves.default_seconds()
    if curves.reference is None or seconds is None:
        return [*logs, np.nan, np.nan]
    ratio = learned.expected_s * metrics.throughput_epochs_per_s / (seconds * curves.throughput)
    drop = curves.reference.val_accuracy - learned.expected_accuracy
    return [*logs, float(log_points(drop)), float(np.log(ratio))]


def by_setting(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Returns the measurements of each setting, by `setting_key`, in their order."""
    groups: dict[str, list[Measurement]] = {}
    for row in measurements:
        groups.setdefault(setting_key(row.setting), []).append(row)
    return groups


def reference_accuracies(measurements: Iterable[Measurement]) -> dict[ReferenceKey, float]:
    """Returns the validation accuracies from which drops after a fixed number of epochs are counted.

    Each is the mean of the rows that train on the default configuration's mini-batches, or if there are none, the
    median of all rows. Rows of measurement version 3 have no such accuracy: their curves are in `KnownCurves`.
    """
    default: dict[ReferenceKey, list[float]] = {}
    every: dict[ReferenceKey, list[float]] = {}
    for row in measurements:
        if row.metrics is None or row.metrics.val_accuracy is None or not np.isfinite(row.metrics.val_accuracy):
            continue
        key = _reference_key(row)
        every.setdefault(key, []).append(row.metrics.val_accuracy)
        if is_reference(as_columns([row.config]), row.setting.graph)[0]:
            default.setdefault(key, []).append(row.metrics.val_accuracy)
    return {key: float(np.mean(default[key])) if key in default else float(np.median(every[key])) for key in every}


def latest_reference_accuracies(
    measurements: Sequence[Measurement], known: Mapping[str, KnownCurves] = MappingProxyType({})
) -> dict[str, float]:
    """Returns the default's validation accuracy by `task_graph_key`.

    It comes from a learning curve if there is one, otherwise from the trials with the most epochs.

    Args:
        measurements: Measurements of any settings.
        known: `KnownCurves.of` some settings' measurements, by `setting_key`.
    """
    by_budget = sorted(reference_accuracies(measurements).items(), key=lambda item: item[0].accuracy_budget)
    found = {key.task_and_graph: accuracy for key, accuracy in by_budget}
    for key, group in by_setting(measurements).items():
        reference = (known.get(key) or KnownCurves.of(group)).reference
        if reference is not None:
            found[task_graph_key(group[0].setting.task, group[0].setting.graph)] = reference.val_accuracy
    return found


#: Weight of a factor's squared distance from its prior against a setting's mean squared relative error. It is enough to
#: settle terms that the rows can't tell apart. On 351 rows of six graphs, each graph left out in turn, 1e-6 to 3e-4 do
#: about as well, 1e-3 worse.
_PRIOR_WEIGHT = 1e-4
#: Solutions after the first one. Each measures errors relative to the geometric mean of the measurement and the
#: previous solution, as a logarithm does. Relative to the measurement alone, too small a prediction costs less than too
#: large a one.
_REPETITIONS = 3
#: Rows from which a setting's own calibration is fitted. It assumes a relative error of each row, and a relative
#: deviation of its factors from those of other settings. Guesses.
_MIN_OWN_ROWS = 4
_OWN_ROW_ERROR, _OWN_DEVIATION = 0.1, 0.3
#: The same deviation for a user's model, whose operations are counted but whose speed is unknown before its first row.
#: Guess: its factors lie within four times those of built-in models either way.
_USERS_DEVIATION = 3.0


class _MeasuredTerms(NamedTuple):
    """Terms of one stage's seconds or of memory, shape (n, n_terms), and what was measured of it, shape (n,)."""

    terms: Array
    total: Array


def general_calibrations(settings: Sequence[MeasuredSetting]) -> Calibrations:
    """Returns the calibrations that fit `settings` best, by kind of machine; all settings weigh the same.

    A kind without rows keeps the factors of the equations.
    """
    kinds = [[one for one in settings if one.setting.hardware.has_device == has_device] for has_device in (False, True)]
    host, device = (_fit(kind, UNCALIBRATED) for kind in kinds)
    return Calibrations(host, device)


def own_calibration(
    settings: Sequence[MeasuredSetting], general: Calibration, kept: NDArray[np.bool_] | None = None
) -> Calibration | None:
    """Returns the calibration of a setting by its own rows, or None if they are too few.

    It is the maximum a posteriori. Rows err by a tenth. Factors deviate from the general ones by three tenths, or by
    more for a user's model.

    Args:
        settings: The setting, once per probe of its machine.
        general: The calibration of other settings.
        kept: Which of its rows count, bool, shape (n,); all by default.
    """
    ends = np.cumsum([len(one) for one in settings])
    rows = np.ones(ends[-1], dtype=np.bool_) if kept is None else kept
    users = settings[0].setting.task.is_own
    if rows.sum() < (1 if users else _MIN_OWN_ROWS):
        return None
    deviation = _USERS_DEVIATION if users else _OWN_DEVIATION
    weight = (_OWN_ROW_ERROR / deviation) ** 2 / int(rows.sum())
    return _fit(settings, general, weight, np.split(rows, ends[:-1]))


def _fit(
    settings: Sequence[MeasuredSetting],
    prior: Calibration,
    weight: float = _PRIOR_WEIGHT,
    kept: Sequence[NDArray[np.bool_]] | None = None,
) -> Calibration:
    """Returns the factors for the `kept` rows of `settings`, all by default."""
    found: list[list[_MeasuredTerms]] = [[], [], [], []]
    for number, one in enumerate(settings):
        totals = [*one.stages.T, np.exp(one.measured[:, HOST_BYTES])]
        for part, (own, total) in enumerate(zip(one.terms, totals, strict=True)):
            rows = total > 0  # NaN is not
            if kept is not None:
                rows &= kept[number]
            if rows.any():
                found[part].append(_MeasuredTerms(own[rows], total[rows]))
    sample = _factors(found[0], np.array([prior.sample]), weight)
    gather = _factors(found[1], np.array([prior.gather]), weight)
    trained = _factors(found[2], np.array(prior.train), weight)
    held = _factors(found[3], np.array(prior.memory), weight)
    return Calibration(tuple(trained.tolist()), float(sample[0]), float(gather[0]), tuple(held.tolist()))


def _factors(settings: Sequence[_MeasuredTerms], prior: Array, weight: float) -> Array:
    """Returns the factors >= 0 with which the terms of `settings` add up to their totals, shape (n_terms,).

    Args:
        settings: Terms and totals of the settings, which all weigh the same.
        prior: The factors without rows.
        weight: Weight of the squared distance from the prior, which is relative to the prior if that exceeds 1.
    """
    from scipy.optimize import nnls

    if not settings:
        return prior
    pull = np.sqrt(weight) * np.diag(1 / np.maximum(prior, 1.0))
    factors = prior
    for repetition in range(1 + _REPETITIONS):
        left, right = [pull], [pull @ prior]
        for terms, total in settings:
            scale = np.sqrt(total * np.maximum(terms @ factors, 1e-12)) if repetition else total
            scale = scale * np.sqrt(len(total))
            left.append(terms / scale[:, None])
            right.append(total / scale)
        factors = nnls(np.concatenate(left), np.concatenate(right))[0]
    return factors


class RowSource:
    """Measurements, as training rows.

    Args:
        measurements: Measurements of any settings.
        physics: Whether rows carry the analytic model.
        judged_by: Known references by `setting_key` (`KnownCurves.of`).
        search: The search whose values are inputs of the Gaussian process.

    Attributes:
        settings: The rows of each setting, one entry per probe of its machine, by `setting_key`; with a search, one
            entry per cost of a step, too.
        curves: Known curves by `setting_key`.
        physics: Whether rows carry the analytic model; without it, it predicts 0.
    """

    def __init__(
        self,
        measurements: Sequence[Measurement],
        physics: bool = True,
        judged_by: Mapping[str, Reference] | None = None,
        search: SearchPoints = NO_SEARCH,
    ) -> None:
        self._search = search
        done = [row for row in measurements if row.metrics is not None]
        references, groups = reference_accuracies(done), by_setting(done)
        learned = {
            key: _learned(_SameRows(rows), (judged_by or {}).get(key), frozenset(references.items()))
            for key, rows in groups.items()
        }
        self.curves = {key: curves for key, (curves, _) in learned.items()}
        self.settings = {key: settings for key, (_, settings) in learned.items()}
        self._failed = {
            key: [MeasuredSetting.of_failures(probed) for probed in _by_probe(rows)]
            for key, rows in by_setting(filter(_broke_the_hosts_limit, measurements)).items()
        }
        self.physics = physics
        self._calibrations: dict[frozenset[str], Calibrations] = {}
        self._rows: dict[frozenset[str], TrainingRows] = {}
        self._setting_rows: dict[tuple[str, tuple[Calibration, ...]], TrainingRows] = {}

    def calibrations(self, without: frozenset[str] = frozenset()) -> Calibrations:
        """Returns the general calibrations by all graphs except the fingerprints `without`."""
        if not self.physics:
            return Calibrations()
        if without not in self._calibrations:
            every = (one for settings in self.settings.values() for one in settings)
            kept = [one for one in every if one.setting.graph.fingerprint not in without]
            self._calibrations[without] = general_calibrations(kept)
        return self._calibrations[without]

    def rows(self, without: frozenset[str] = frozenset()) -> TrainingRows:
        """Returns all rows, always in the same order, calibrated by all graphs except `without`."""
        if without not in self._rows:
            calibrations = self.calibrations(without)
            parts = [self.setting_rows(key, calibrations) for key in self.settings]
            self._rows[without] = _joined(parts) if parts else no_rows(len(POINT_NAMES) + self._search.width)
        return self._rows[without]

    def setting_rows(self, key: str, calibrations: Calibrations) -> TrainingRows:
        """Returns the rows of the setting `key` under `calibrations`."""
        settings = self.settings[key]
        calibrated = key, tuple(calibrations.of(one.asked) for one in settings)
        if calibrated not in self._setting_rows:
            self._setting_rows[calibrated] = self._training_rows(settings, calibrations)
        return self._setting_rows[calibrated]

    def failed_rows(self, key: str, calibrations: Calibrations) -> TrainingRows:
        """Returns the trials of the setting `key` that broke the host's limit; `measured` has lower bounds of peaks."""
        return self._training_rows(self._failed.get(key, []), calibrations)

    def _training_rows(self, settings: Sequence[MeasuredSetting], calibrations: Calibrations) -> TrainingRows:
        none = no_rows(len(POINT_NAMES) + self._search.width)
        rows = _joined([none, *(one.training_rows(calibrations.of(one.asked), self._search) for one in settings)])
        return rows if self.physics else rows.without_analytic(len(PLAIN_FEATURES))


class _SameRows(tuple[Measurement, ...]):
    """Measurements that equal others if they are the same objects: to compare their curves would take long."""

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameRows) and len(self) == len(other) and all(map(operator.is_, self, other))


@lru_cache(maxsize=1024)  # a tune fits after every trial, and only the trial is new
def _learned(
    rows: _SameRows, reference: Reference | None, references: frozenset[tuple[ReferenceKey, float]]
) -> tuple[KnownCurves, list[MeasuredSetting]]:
    """Returns the curves of the rows of one setting, and the setting by each probe of its machine."""
    curves = KnownCurves.of(rows, reference)
    return curves, [MeasuredSetting.of(probed, curves, dict(references)) for probed in _by_probe(rows)]


def _broke_the_hosts_limit(row: Measurement) -> bool:
    """Returns whether a trial broke the host's memory limit; with a device, the limit may be that of the device."""
    outcome = row.outcome
    if row.setting.hardware.has_device or not isinstance(outcome, Failure):
        return False
    return outcome.kind is FailureKind.OUT_OF_MEMORY and outcome.limit > 0


def costly_setting(row: Measurement) -> Setting:
    """Returns the setting of `row` with the values of its search that change the cost of a step."""
    return costly(row.config.searched, row.setting) if row.config.searched else row.setting


def _by_probe(rows: Sequence[Measurement]) -> list[list[Measurement]]:
    groups: dict[tuple[Hardware, Values], list[Measurement]] = {}
    for row in rows:
        costly = costly_values(row.config.searched, row.setting.task)
        groups.setdefault((row.setting.hardware, costly), []).append(row)
    return list(groups.values())


def _joined(parts: Sequence[TrainingRows]) -> TrainingRows:
    return TrainingRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in TrainingRows.__slots__))
