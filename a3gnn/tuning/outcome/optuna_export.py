"""`export_to_optuna`: writes the trials of a tune into an Optuna storage, which optuna-dashboard opens."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from a3gnn.checks import Real, WholeOrTask
from a3gnn.errors import StoreError, UsageError
from a3gnn.figures import Figures
from a3gnn.knobs import Knob
from a3gnn.learning_curve import NO_CURVE, CurveEnd
from a3gnn.measurement import Failure
from a3gnn.notify import ConversionProgress
from a3gnn.objectives import Objectives
from a3gnn.option_names import option
from a3gnn.report.ratios import describe_figures
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.tuning.engines.samplers import quiet_optuna
from a3gnn.tuning.outcome.kept_tune import KeptTune, limits_of
from a3gnn.tuning.study.trial import JudgedTrial, Trial
from a3gnn.units import count, printable

#: Limits that are exported as constraints, in their order.
_LIMITS = ("host_bytes", "device_bytes", "least_accuracy")
#: The system attribute of a trial's constraints. Every version of Optuna reads a list there. Optuna 5 has named
#: constraints as well, but optuna-dashboard 0.21 does not read them.
_CONSTRAINTS = "constraints"
#: Why the training of a curve ended early, in the cases that Optuna calls pruned.
_PRUNED = {
    CurveEnd.SLOWER: "its configuration could no longer beat the best so far, or reach the target in time",
    CurveEnd.LOST: "it could no longer keep the least accuracy",
}
#: The user attribute that marks a study as an export; its value is the tune's folder.
_MARK = "a3gnn_tune"


class Exported(NamedTuple):
    """An export of a tune.

    Attributes:
        url: URL of the storage.
        study_name: The study in it.
        complete: Number of trials with values.
        pruned: Number of trials whose training ended early, or that missed the target.
        failed: Number of failed trials.
    """

    url: str
    study_name: str
    complete: int
    pruned: int
    failed: int

    def describe(self) -> str:
        """Returns the counts, the study and the storage as text."""
        trials = count(self.complete + self.pruned + self.failed, "trial")
        return f"{trials} ({self.pruned} pruned, {self.failed} failed) in the study {self.study_name!r} of {self.url}"


def export_to_optuna(
    folder: str | Path,
    url: str,
    *,
    study_name: str | None = None,
    replace: bool = False,
    notify: Callable[[str], None] | None = None,
) -> Exported:
    """Writes the trials of the tune in `folder` into a new study, and returns a summary.

    Trials of the verification are not exported one by one: their results are the attribute `play_off` of their
    configurations' trials.

    Args:
        folder: The --out of a tune, finished or not.
        url: An SQLAlchemy URL such as sqlite:///optuna.db; the database is created if it does not exist.
        study_name: By default the names of the graph and the folder.
        replace: Whether to replace an earlier export of that name; other studies are never replaced.
        notify: Takes lines of progress.

    Raises:
        UsageError: The folder holds no tune, the URL is invalid, or a study of that name exists.
        StoreError: The database can't be opened or written.
    """
    tune = KeptTune.read(folder)
    name = study_name or printable(f"{tune.setting.graph.name} {tune.folder.resolve().name}")
    with quiet_optuna():
        try:
            storage = optuna.storages.RDBStorage(url)
            _make_room(storage, name, replace)
            return _written(tune, storage, url, name, ConversionProgress(notify))
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise UsageError(
                f"{option('optuna')} must be the SQLAlchemy URL of a database such as sqlite:///optuna.db, whose "
                f"driver is installed, got {url!r}: {error}"
            ) from error
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            raise StoreError(f"the Optuna storage {url!r} can't be opened or written: {error}") from error


def _make_room(storage: optuna.storages.RDBStorage, name: str, replace: bool) -> None:
    """Deletes an earlier export called `name`; raises a `UsageError` without `replace`, or for another study."""
    try:
        study = storage.get_study_id_from_name(name)
    except KeyError:
        return
    attributes = storage.get_study_user_attrs(study)
    if _MARK not in attributes:
        raise UsageError(
            f"the storage holds a study {name!r} that is no export of a3gnn: choose another {option('study_name')}"
        )
    if not replace:
        raise UsageError(
            f"the storage holds the study {name!r} already, of the tune in {attributes[_MARK]}: choose another "
            f"{option('study_name')}, or {option('replace', True)} to write it anew"
        )
    storage.delete_study(study)


def _written(
    tune: KeptTune, storage: optuna.storages.RDBStorage, url: str, name: str, progress: ConversionProgress
) -> Exported:
    objectives, known = tune.history.objectives, distributions(tune)
    study = optuna.create_study(storage=storage, study_name=name, directions=directions(objectives))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(objective_names(objectives))
        for key, value in _attributes(tune).items():
            study.set_user_attr(key, value)
        states = []
        for done, trial in enumerate(tune.history.trials):
            found = optuna_trial(tune, trial, known)
            study.add_trial(found)
            states.append(found.state)
            progress("writing trials", done + 1, len(tune.history.trials))
    except BaseException:
        optuna.delete_study(study_name=name, storage=storage)  # whole or not at all
        raise
    return Exported(
        url,
        study_name=name,
        complete=states.count(TrialState.COMPLETE),
        pruned=states.count(TrialState.PRUNED),
        failed=states.count(TrialState.FAIL),
    )


def _attributes(tune: KeptTune) -> dict[str, Any]:
    """Returns the user attributes of the study."""
    request, limits = tune.history.study.request, tune.history.objectives.limits
    return {
        _MARK: printable(str(tune.folder.resolve())),
        "finished": tune.tuned is not None,
        "graph": tune.setting.graph.name,
        "model": tune.setting.task.model,
        "machine": f"{tune.setting.hardware.cpu}, {count(tune.setting.hardware.num_cores, 'core')}",
        "priority": request.priority.text,
        "limits": limits.to_dict(),
        "constraints": constraint_names(tune.history.objectives),
        "max_accuracy_drop_points": request.max_accuracy_drop,
        "intermediate_values": f"validation {limits.metric.label} as a share of 1, after so many mini-batches",
        "choice": None if tune.tuned is None else tune.tuned.config.to_dict(),
        "versions": {} if tune.tuned is None else dict(tune.tuned.versions),
    }


def distributions(tune: KeptTune) -> dict[str, BaseDistribution]:
    """Returns the knobs' distributions: names as categories, numbers on their scale, over space and trials."""
    space = tune.history.study.space
    configs = [space.values(trial.measurement.config) for trial in tune.history.trials]
    return {
        knob.name: _distribution(knob, [*knob.values, *(config[knob.name] for config in configs)])
        for knob in space.knobs
    }


def objective_names(objectives: Objectives) -> list[str]:
    """Returns the names of a trial's values, with their units."""
    # An error is exported as a quality, so larger is better.
    quality = "validation" if objectives.metric.larger_is_better else "validation_quality_by"
    return [objectives.speed, objectives.memory, f"{quality}_{objectives.metric.name}"]


def directions(objectives: Objectives) -> list[StudyDirection]:
    """Returns the direction in which each value is optimized."""
    speed = StudyDirection.MINIMIZE if objectives.priority.time else StudyDirection.MAXIMIZE
    return [speed, StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE]


def optuna_trial(tune: KeptTune, trial: Trial, known: dict[str, BaseDistribution]) -> FrozenTrial:
    """Returns `trial` as an Optuna trial.

    A failed trial is FAIL. A trial is PRUNED if its training ended because it could no longer win or keep the least
    accuracy. So is one that did not reach the target in a tune for seconds, because it has no value for them. The
    attributes of pruned trials contain their figures, and the reason why they have no values.
    """
    measurement = trial.measurement
    fields = _failed(measurement.outcome) if isinstance(measurement.outcome, Failure) else _measured(tune, trial)
    attributes = {
        "reason": trial.reason,
        "configuration": describe_config(measurement.config),
        "drift": trial.drift,
        "measurement_id": measurement.id,
        **fields.pop("user_attrs"),
    }
    if (row := tune.played_off.get(measurement.config.key())) is not None:
        attributes["play_off"] = dataclasses.asdict(row.measured) | {"labels": list(row.labels), "note": row.note}
    values = tune.history.study.space.values(measurement.config)
    texts = {one.name: one.text(values[one.name]) for one in tune.history.study.space.knobs}
    params = {name: value for name, value in texts.items() if name in known}
    found = create_trial(params=params, distributions=known, user_attrs=attributes, **fields)
    found.datetime_start = datetime.fromisoformat(measurement.created).astimezone().replace(tzinfo=None)
    found.datetime_complete = found.datetime_start + timedelta(seconds=measurement.seconds)
    return found


def _failed(failure: Failure) -> dict[str, Any]:
    """Returns the fields of a trial that failed."""
    why = {"failure": str(failure.kind), "failure_detail": failure.detail, "tries": failure.tries}
    return {"state": TrialState.FAIL, "user_attrs": why | {"peak_host_bytes": failure.peak_host_bytes}}


def _measured(tune: KeptTune, trial: Trial) -> dict[str, Any]:
    """Returns the fields of a trial that did not fail."""
    objectives, metrics, figures = tune.history.objectives, trial.metrics, tune.history.figures(trial)
    assert metrics is not None, "it did not fail"
    assert figures is not None, "it has metrics"
    judged, curve = JudgedTrial(trial, metrics, figures), metrics.curve or NO_CURVE
    stages = dataclasses.asdict(metrics.stage_seconds)
    target = objectives.limits.least_accuracy
    attributes = dataclasses.asdict(figures) | {
        "setup_seconds": metrics.setup_seconds,
        "batches_per_epoch": metrics.batches_per_epoch,
        **{f"stage_{name}_seconds": seconds for name, seconds in stages.items()},
        "figures": describe_figures(figures, objectives.memory, objectives.speed, objectives.metric, target),
        "breaks": describe_breaches(limits_of(tune.history, judged).broken_by(figures)),
    }
    why = _why_pruned(judged, objectives)
    return {
        "state": TrialState.COMPLETE if why is None else TrialState.PRUNED,
        "values": _values(figures, objectives) if why is None else None,
        "user_attrs": attributes if why is None else attributes | {"pruned": why},
        "intermediate_values": dict(zip(curve.batches, curve.val_accuracy, strict=True)),
        "system_attrs": {_CONSTRAINTS: _constraints(tune, judged)},
    }


def _distribution(knob: Knob, values: Sequence[Any]) -> BaseDistribution:
    distinct = list(dict.fromkeys(map(knob.text, values)))
    named = knob.scale == "choice" or any(isinstance(value, str) for value in distinct)
    if named or isinstance(knob.domain, WholeOrTask):
        return CategoricalDistribution(distinct)
    log = knob.scale == "log2" and min(distinct) > 0
    if isinstance(knob.domain, Real) or any(isinstance(value, float) for value in distinct):
        return FloatDistribution(min(distinct), max(distinct), log=log)
    return IntDistribution(min(distinct), max(distinct), log=log)


def _values(figures: Figures, objectives: Objectives) -> list[float]:
    speed = getattr(figures, objectives.speed)
    return [float(speed), float(getattr(figures, objectives.memory)), float(figures.val_accuracy or 0.0)]


def _why_pruned(judged: JudgedTrial, objectives: Objectives) -> str | None:
    curve, figures = judged.metrics.curve, judged.figures
    if curve is not None and curve.ended in _PRUNED and not figures.complete:
        return _PRUNED[curve.ended]
    if figures.val_accuracy is None:
        return f"its {objectives.metric.label} was not evaluated within the time"
    return "it did not reach the target" if getattr(figures, objectives.speed) is None else None


def constraint_names(objectives: Objectives) -> list[str]:
    """Returns the names of the limits that are set, in the order of a trial's constraints."""
    return [name for name in _LIMITS if getattr(objectives.limits, name) is not None]


def _constraints(tune: KeptTune, judged: JudgedTrial) -> list[float]:
    """Returns by how much each limit is broken, in bytes or quality; a limit is kept at 0 or less.

    If the default sets the memory limit, a repetition of it may exceed that. This counts as kept.
    """
    figures, own = judged.figures, limits_of(tune.history, judged)
    return [
        0.0
        if getattr(own, name) is None
        else own.least_accuracy - (figures.val_accuracy or 0.0)
        if name == "least_accuracy" and own.least_accuracy is not None
        else float(getattr(figures, f"peak_{name}") - getattr(own, name))
        for name in constraint_names(tune.history.objectives)
    ]
