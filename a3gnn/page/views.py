"""A study as one page: its views as JSON, and `write_report`, the HTML file with them that can be mailed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from a3gnn.checks import Size
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.knobs import TASKS, Knob
from a3gnn.learning_curve import FOLLOWING, CurveEnd
from a3gnn.limits import MEMORY_NAMES
from a3gnn.measurement import Failure
from a3gnn.objectives import DOUBLINGS, MAY_BE_LATE, MIN_WEIGHT, PRESETS, Priority
from a3gnn.option_names import option
from a3gnn.page import summary
from a3gnn.page.html import study_html
from a3gnn.page.stored_study import Measured, StoredStudy
from a3gnn.report.rows import UNCOMPARED
from a3gnn.report.text import describe_config
from a3gnn.storage.atomic import write_text
from a3gnn.task import MODEL_LABELS
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.kept_tune import limits_of, reference_among
from a3gnn.tuning.study.limits import training_limits
from a3gnn.tuning.study.trial import JudgedTrial
from a3gnn.tuning.tell.intro import place
from a3gnn.units import format_size, printable
from a3gnn.version import versions

#: Raised when a view's keys change, so that a page does not read what it can't.
VIEWS_VERSION = 5
#: The views of trials before the first one.
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("objectives", "law", "tuned", "default", "best", "steps", "predicted_front", "importance")),
    **{name: [] for name in ("place", "knobs", "rows", "regret")},
}


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Writes the study in `folder` to the HTML file `out`, whole or not at all, and returns its path.

    Args:
        folder: The --out folder of a tune, finished or not.
        out: The file, which is replaced if it exists; report.html in `folder` by default.

    Raises:
        UsageError: No tune was started in `folder`, or `out` is a folder.
        ConfigError: The tune's files are not from this version.
    """
    file = Path(folder) / "report.html" if out is None else Path(out)
    if file.is_dir():
        raise UsageError(f"{option('out')} must be a file, got the folder {file}; such as {file / 'report.html'}")
    page = study_html(study_views(Path(folder)))
    write_text(file, page)
    return file


def study_views(folder: Path, graph: str | None = None) -> dict[str, Any]:
    """Returns the views of the study in `folder`, running or finished; `docs/reference/study_views.md` describes them.

    It does not change the folder, and does not import a user's model.

    Args:
        folder: The tune's folder.
        graph: The graph's name in the views, in place of its spec, which may be a path; the spec by default.

    Raises:
        UsageError: No tune was started there.
        ConfigError: The tune's files are not from this version.
    """
    study = StoredStudy.read(folder)
    request, measured = study.request, study.measured
    spec = request.spec if graph is None else graph
    finished = measured is not None and measured.tune.tuned is not None
    name = Path(request.spec).stem if measured is None else measured.history.study.setting.graph.name
    searches_model = any(one.name == "model" for one in request.search)
    model = "" if searches_model else f", {MODEL_LABELS.get(request.task.model, request.task.model)}"
    return {
        "version": VIEWS_VERSION,
        "title": printable(f"{name}{model}"),
        "folder": str(folder),
        "status": "finished" if finished else "unfinished",
        "request": request.to_dict() | {"spec": spec},
        "asked": [list(pair) for pair in summary.asked(request)],
        "time": summary.time_view(study),
        "summary": summary.summary_view(measured, study.state.problem),
        **(_NOTHING if measured is None else _of_trials(measured, spec)),
    }


def _of_trials(measured: Measured, spec: str) -> dict[str, Any]:
    setting = measured.history.study.setting
    return {
        "objectives": _objectives(measured),
        "law": law_view(measured),
        "tuned": _tuned(measured, spec),
        "default": measured.default,
        "best": measured.best,
        "steps": summary.step_views(measured),
        "place": [" ".join(line.split()) for line in place(setting)],
        "knobs": knob_views(measured),
        "rows": [_row(measured, index) for index in range(len(measured.trials))],
        "predicted_front": summary.predicted_front(measured),
        "regret": summary.regret_views(measured),
        "importance": summary.importance_view(measured),
    }


def _objectives(measured: Measured) -> dict[str, Any]:
    """Returns the objectives by which rows are judged, with their display names."""
    wanted, front, reference = measured.history.objectives, measured.front, measured.tune.reference(measured.history)
    metric = front.metric
    return {
        "memory": front.memory,
        "memory_name": MEMORY_NAMES["device_bytes" if wanted.has_device else "host_bytes"],
        "memory_limit": wanted.memory_limit_bytes,
        "speed": front.speed,
        "seconds_heading": front.seconds_heading,
        "times_accuracy": front.times_accuracy,
        "uncompared": UNCOMPARED,
        "presets": {name: dataclasses.asdict(Priority.parse(name)) for name in PRESETS},
        "default_budget_s": None if reference is None else reference.budget_s,
        "metric": {
            **metric.to_dict(),
            "label": metric.label,
            "unit": metric.unit,
            "larger_is_better": metric.larger_is_better,
            "target": None if front.target is None else metric.number(front.target),
        },
    }


def _tuned(measured: Measured, spec: str) -> dict[str, Any] | None:
    """Returns the fields of a tuned.json, from which the page makes that of a picked configuration.

    They are the choice's, or before a choice the default's, without the fields that only a finished tune has.
    """
    if measured.tune.tuned is not None:
        return dataclasses.replace(measured.tune.tuned, spec=spec).to_dict()
    history, beside = measured.history, measured.history.reference_trial
    reference = history.reference
    if beside is None or beside.metrics is None:
        return None
    request = history.study.request
    return TunedConfig(
        config=beside.measurement.config,
        setting=history.study.setting,
        spec=spec,
        limits=history.objectives.limits,
        predicted=beside.predicted,
        measured=beside.metrics,
        default=beside.metrics,
        seeds={"tune": request.seed, "task": request.task.seed},
        versions=versions(),
        target_accuracy=history.objectives.limits.least_accuracy,
        default_budget_s=None if reference is None else reference.budget_s,
        drift=1.0,
        still_rising=history.still_rising,
        settling_budget_s=history.settling_budget_s,
    ).to_dict()


#: Trials whose training ended early: they miss the target, but broke no limit.
_STOPPED = {CurveEnd.SLOWER: "stopped: too late", CurveEnd.LOST: "stopped: too inaccurate"}


def _row(measured: Measured, index: int) -> dict[str, Any]:
    trial = measured.trials[index]
    measurement = trial.measurement
    outcome = measurement.outcome
    found: dict[str, Any] = {
        "index": index,
        "name": measured.names[index],
        "reason": trial.reason,
        "config": measurement.config.to_dict(),
        "values": measured.history.space.values(measurement.config),
        "describe": describe_config(measurement.config),
        "took_s": measurement.seconds,
        "created": measurement.created,
        "failure": None,
    }
    if isinstance(outcome, Failure):
        return found | {"failure": {"kind": outcome.kind, "said": outcome.describe(), "detail": outcome.detail}}
    return found | _figures(measured, index) | {"curve": _curve(measured, index)}


def _figures(measured: Measured, index: int) -> dict[str, Any]:
    """Returns the figures of a successful trial in numbers and in words, with its labels and notes."""
    front, row = measured.front, measured.rows[index]
    figures = row.measured
    shown = None if figures.val_accuracy is None else front.metric.number(figures.val_accuracy)
    curve = measured.judged[index].metrics.curve
    stopped = "" if row.feasible or curve is None else _STOPPED.get(curve.ended, "")
    missed = [breach.limit == "least_accuracy" and bool(stopped) for breach in row.broken]
    return {
        "figures": dataclasses.asdict(figures),
        "shown_quality": shown,
        "text": front.texts(figures)._asdict(),
        "feasible": row.feasible,
        "on_front": row.on_front,
        "compared": row.compared,
        "labels": list(row.labels),
        "broken": [stopped if late else one.describe() for one, late in zip(row.broken, missed, strict=True)],
        "broken_limits": [stopped if late else one.name for one, late in zip(row.broken, missed, strict=True)],
        "stopped": stopped if all(missed) else "",
        "note": row.note,
        "in_play_off": row.in_play_off,
    }


def _curve(measured: Measured, index: int) -> dict[str, Any] | None:
    """Returns the known learning curve of a trial's configuration at the trial's own pace, or None."""
    config, metrics = measured.rows[index].config, measured.judged[index].metrics
    known = [curve for curve in (measured.history.curve(config), metrics.curve) if curve is not None]
    if not known:
        return None
    curve = max(known, key=lambda one: one.trained)
    return {
        "seconds": [metrics.pace.seconds(batches) for batches in curve.batches],
        "shown": [measured.front.metric.number(quality) for quality in curve.val_accuracy],
        "ended": curve.ended,
    }


def knob_views(measured: Measured) -> list[dict[str, Any]]:
    """Returns a dict per knob: its values in the trials, sorted, the text of each, and whether they differ."""
    space = measured.history.space
    values = [space.values(trial.measurement.config) for trial in measured.trials]
    return [_knob(knob, [one[knob.name] for one in values]) for knob in (*KNOBS, *space.searched)]


def _knob(knob: Knob, found: list[Any]) -> dict[str, Any]:
    values = sorted(set(found), key=lambda value: _order(knob, value))
    return {
        "name": knob.name,
        "help": knob.help,
        "default": knob.default,
        "values": values,
        "texts": [_knob_text(knob, value) for value in values],
        "differs": len(values) > 1,
    }


def _order(knob: Knob, value: Any) -> Any:
    """Returns the sort key of a value: choices in declared order, and None, the task's value, last."""
    if isinstance(value, str) or (knob.scale == "choice" and value is not None):
        return knob.values.index(value) if value in knob.values else len(knob.values)
    return float("inf") if value is None else value


def _knob_text(knob: Knob, value: Any) -> str:
    """Returns a knob's value as text."""
    if value is None:
        return f"the {TASKS}'s"
    if isinstance(knob.domain, Size):
        return format_size(value) if value else "none"
    value = knob.text(value)
    if knob.scale == "choice":
        return str(value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def law_view(measured: Measured) -> dict[str, Any]:
    """Returns the study's priority, limits and choice, the law's constants, and the candidates; sizes are in bytes."""
    tune, history = measured.tune, measured.history
    wanted, reference, request = history.objectives, history.reference, history.study.request
    beside = history.reference_trial
    found = [_candidate(measured, index, one) for index, one in measured.candidates.items()]
    return {
        "priority": dataclasses.asdict(wanted.priority),
        "memory": wanted.memory,
        "has_device": wanted.has_device,
        "host_memory_limit": request.host_memory_limit,
        "least": wanted.limits.least_accuracy,
        "reference_quality": None if reference is None else reference.val_accuracy,
        "metric": wanted.metric.to_dict(),
        "larger_is_better": wanted.metric.larger_is_better,
        "doublings": DOUBLINGS.tolist(),
        "min_weight": MIN_WEIGHT,
        "may_be_late": [dataclasses.asdict(Priority.parse(name)) for name in MAY_BE_LATE],
        "following": FOLLOWING,
        "reference": _reference(measured),
        "sets_target": _of(measured, None if beside is None else beside.measurement.config),
        "target_was_asked": history.study.target is not None,
        "choice": _of(measured, None if tune.tuned is None else tune.tuned.config),
        "candidates": found,
    }


def _of(measured: Measured, config: TrainConfig | None) -> int | None:
    """Returns the index of the candidate with `config`."""
    return next((i for i in measured.candidates if measured.trials[i].measurement.config == config), None)


def _reference(measured: Measured) -> int | None:
    """Returns the index of the reference among the candidates; if speed decides, no pick may be later than it.

    It may break a limit: `latest` in law.js checks it against the limits that the user asks for.
    """
    found = measured.candidates
    reference = reference_among(measured.tune, measured.history, list(found.values()))
    return next((i for i, one in found.items() if one is reference), None)


def _candidate(measured: Measured, index: int, one: JudgedTrial) -> dict[str, Any]:
    history, (trial, metrics, figures) = measured.history, one
    config = trial.measurement.config
    curve = history.curve(config) if metrics.curve is None else metrics.curve
    kept = training_limits(history, config, figures)
    return {
        "index": index,
        "may_be_chosen": history.row(config) is not None and config.key() not in measured.tune.rejected,
        "throughput_epochs_per_s": figures.throughput_epochs_per_s,
        "peak_host_bytes": figures.peak_host_bytes,
        "peak_device_bytes": figures.peak_device_bytes,
        "quality": figures.val_accuracy,
        "seconds": figures.seconds_to_accuracy,
        "seconds_range": None if figures.seconds is None else figures.seconds.to_dict(),
        "setup_s": metrics.pace.setup_s,
        "batches_per_s": metrics.pace.batches_per_s,
        "batches": [] if curve is None else list(curve.batches),
        "qualities": [] if curve is None else list(curve.val_accuracy),
        "limits": _sizes(limits_of(history, one)),
        "training_limits": _sizes(kept),
        "predicted": trial.predicted,
        "measured": metrics.to_dict(),
    }


def _sizes(limits: Any) -> dict[str, int | None]:
    return {"host_bytes": limits.host_bytes, "device_bytes": limits.device_bytes}
