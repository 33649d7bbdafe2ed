"""The trials of a tune as Optuna has them: parameters with distributions, values, constraints, states and dates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from a3gnn.domains import OneOf, Real, WholeOrTask
from a3gnn.figures import Figures
from a3gnn.knobs import TASKS, Knob
from a3gnn.learning_curve import CurveEnd
from a3gnn.measurement import Failure
from a3gnn.objectives import Objectives
from a3gnn.report.text import describe_breaches, describe_config, describe_figures
from a3gnn.tuning.outcome.candidates import limits_of
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.trial import JudgedTrial, Trial

#: Why a curve was trained no further, where that is what Optuna calls pruned.
_PRUNED = {
    CurveEnd.SLOWER: "its configuration could no longer beat the best so far",
    CurveEnd.LOST: "it could no longer keep the least accuracy",
}


def distributions(tune: KeptTune) -> dict[str, BaseDistribution]:
    """Returns the knobs' distributions: names as categories, numbers on their scale, over all that was tried."""
    configs = [trial.measurement.config.to_dict() for trial in tune.history.trials]
    return {
        knob.name: _distribution(knob, [*knob.values, *(config[knob.name] for config in configs)])
        for knob in tune.history.study.space.knobs
    }


def objective_names(objectives: Objectives) -> list[str]:
    """Returns what the values of a trial are, with their units in their names."""
    return [objectives.speed, objectives.memory, _quality_name(objectives)]


def directions(objectives: Objectives) -> list[str]:
    """Returns whether each value is to be small or large."""
    return ["minimize" if objectives.priority.time else "maximize", "minimize", "maximize"]


def optuna_trial(tune: KeptTune, trial: Trial, known: dict[str, BaseDistribution]) -> FrozenTrial:
    """Returns `trial` as Optuna has it.

    Failed ones are FAIL. PRUNED are those whose training ended because they could no longer win or keep the least
    accuracy, and those of a tune for seconds that did not reach the target: they have no value for that. What they
    reached is in their attributes, as why they have no values is.

    Args:
        tune: Its tune.
        trial: Of its history.
        known: What `distributions` returns.
    """
    history, objectives = tune.history, tune.history.objectives
    measurement, metrics, figures = trial.measurement, trial.metrics, history.figures(trial)
    params = {name: _coded(value) for name, value in measurement.config.to_dict().items() if name in known}
    attributes: dict[str, Any] = {
        "reason": trial.reason,
        "configuration": describe_config(measurement.config),
        "drift": trial.drift,
        "measurement_id": measurement.id,
    }
    state, values, constraints, curve = TrialState.FAIL, None, {}, {}
    if isinstance(measurement.outcome, Failure):
        failure = measurement.outcome
        attributes |= {"failure": str(failure.kind), "failure_detail": failure.detail, "tries": failure.tries}
        attributes["peak_host_bytes"] = failure.peak_host_bytes
    elif metrics is not None and figures is not None:
        judged = JudgedTrial(trial, metrics, figures)
        breaches = limits_of(history, judged).broken_by(figures)
        constraints = _constraints(tune, judged)
        curve = (
            {} if metrics.curve is None else dict(zip(metrics.curve.batches, metrics.curve.val_accuracy, strict=True))
        )
        why = _why_pruned(judged, objectives)
        state = TrialState.COMPLETE if why is None else TrialState.PRUNED
        values = _values(figures, objectives) if why is None else None
        attributes |= dataclasses.asdict(figures) | {
            "setup_seconds": metrics.setup_seconds,
            "batches_per_epoch": metrics.batches_per_epoch,
            **{f"stage_{name}_seconds": taken for name, taken in dataclasses.asdict(metrics.stage_seconds).items()},
            "figures": describe_figures(
                figures, objectives.memory, objectives.speed, objectives.metric, objectives.limits.least_accuracy
            ),
            "breaks": describe_breaches(breaches),
        }
        attributes |= {} if why is None else {"pruned": why}
    if (row := tune.played_off.get(measurement.config.key())) is not None:
        attributes["play_off"] = dataclasses.asdict(row.measured) | {"labels": list(row.labels), "note": row.note}
    found = create_trial(
        state=state,
        values=values,
        params=params,
        distributions=known,
        user_attrs=attributes,
        intermediate_values=curve,
        constraints=constraints,
    )
    found.datetime_start = datetime.fromisoformat(measurement.created).astimezone().replace(tzinfo=None)
    found.datetime_complete = found.datetime_start + timedelta(seconds=measurement.seconds)
    return found


def _distribution(knob: Knob, values: Sequence[Any]) -> BaseDistribution:
    distinct = list(dict.fromkeys(map(_coded, values)))
    if isinstance(knob.domain, OneOf | WholeOrTask):
        return CategoricalDistribution(distinct)
    log = knob.scale == "log2" and min(distinct) > 0
    if isinstance(knob.domain, Real):
        return FloatDistribution(min(distinct), max(distinct), log=log)
    return IntDistribution(min(distinct), max(distinct), log=log)


def _coded(value: Any) -> Any:
    """Returns a knob's value; None, which stands for what the task has, as the command line writes it."""
    return TASKS if value is None else value


def _quality_name(objectives: Objectives) -> str:
    """Returns the name of the validation quality; of an error it is a quality, of which larger is better."""
    name = objectives.metric.name
    return f"validation_{name}" if objectives.metric.larger_is_better else f"validation_quality_by_{name}"


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


def _constraints(tune: KeptTune, judged: JudgedTrial) -> dict[str, float]:
    """Returns by how much each limit is broken, in bytes or quality: kept where that is 0 or less."""
    limits, figures = limits_of(tune.history, judged), judged.figures
    found = {
        name: float(getattr(figures, f"peak_{name}") - getattr(limits, name))
        for name in ("host_bytes", "device_bytes")
        if getattr(limits, name) is not None
    }
    if limits.least_accuracy is not None:
        found["least_accuracy"] = limits.least_accuracy - (figures.val_accuracy or 0.0)
    return found
