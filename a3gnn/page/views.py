"""A study as one page: its views as JSON, and `write_report`, the HTML file with them that can be mailed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from a3gnn.errors import UsageError
from a3gnn.limits import MEMORY_NAMES
from a3gnn.objectives import PRESETS, Priority
from a3gnn.option_names import option
from a3gnn.page.html import study_html
from a3gnn.page.rows import knob_views, law_view, row_views
from a3gnn.page.stored_study import Measured, StoredStudy
from a3gnn.page.summary import (
    asked,
    importance_view,
    predicted_front,
    regret_views,
    step_views,
    summary_view,
    time_view,
)
from a3gnn.report.rows import UNCOMPARED
from a3gnn.storage.atomic import write_text
from a3gnn.task import MODEL_LABELS
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.tell.intro import place
from a3gnn.units import printable
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
    return {
        "version": VIEWS_VERSION,
        "title": printable(f"{name}, {MODEL_LABELS.get(request.task.model, request.task.model)}"),
        "folder": str(folder),
        "status": "finished" if finished else "unfinished",
        "request": request.to_dict() | {"spec": spec},
        "asked": [list(pair) for pair in asked(request)],
        "time": time_view(study),
        "summary": summary_view(measured, study.state.problem),
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
        "steps": step_views(measured),
        "place": [" ".join(line.split()) for line in place(setting)],
        "knobs": knob_views(measured),
        "rows": row_views(measured),
        "predicted_front": predicted_front(measured),
        "regret": regret_views(measured),
        "importance": importance_view(measured),
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
