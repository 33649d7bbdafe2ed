"""The page of a training: its learning curve, and its figures beside those that the study promised, kept up to date."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from a3gnn.errors import A3GNNError
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.metric import ACCURACY, Metric
from a3gnn.report.ratios import show_ratio, show_speed, shown
from a3gnn.report.text import describe_config
from a3gnn.service.http.answers import OBJECT, PROBLEMS, Asked, Number, act_by_form, json_answer
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.routes.trainings import resume_training
from a3gnn.service.http.security import address_of
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.pages.code import training_code
from a3gnn.service.pages.frame import for_people, page_answer, render
from a3gnn.service.service import Service
from a3gnn.service.studies import study_files
from a3gnn.service.studies.orders import TrainOnOrder, named_faults
from a3gnn.service.studies.study_files import FileCache
from a3gnn.training.tuned import TunedConfig
from a3gnn.units import count, format_duration, format_seconds, format_size

_kept = FileCache()
router = APIRouter(prefix="/trainings", tags=["pages"], responses=PROBLEMS)
#: Why a training ended, after the number of its epochs.
_ENDS = {
    "epochs": "the number of epochs asked for",
    "patience": "no better within the patience",
    "no better": "validation stopped improving",
    "target": "the target is reached",
}
_FILES = ("model.pt", "metrics.jsonl", "result.json")
_ACTIONS: dict[str, Callable[[Service, int, Mapping[str, str]], object]] = {
    "stop": lambda service, training, form: service.stop("training", training),
    "resume": lambda service, training, form: resume_training(service, training, _train_on(form)),
    "delete": lambda service, job, form: (service.trash.put("training", job), f"/trash?kind=training&number={job}")[1],
}


@router.get("/{training}/view", summary="Show the content of a training's page", responses=OBJECT)
def get_training_view(service: Asked, training: Number) -> Response:
    """Returns the learning curve, the promised and reached figures, and the head of a training's page as JSON."""
    return json_answer(_view(*service.job("training", training)))


@router.get("/{training}/page", summary="Show a training in a browser", response_class=HTMLResponse)
def get_training_page(service: Asked, training: Number, request: Request) -> Response:
    """Returns the page of a training, which updates itself."""
    return _page(service, training, request)


@router.post("/{training}/page", include_in_schema=False)
async def act(service: Asked, request: Request, training: Number) -> Response:
    """Does what a button says, and shows the page again."""

    def wrong(problem: ProblemDetails, form: Mapping[str, str]) -> Response:
        return _page(service, training, request, problem, form.get("epochs", ""))

    return await act_by_form(request, training, _ACTIONS, wrong)


def _page(
    service: Service, training: int, request: Request, problem: ProblemDetails | None = None, wanted: str = ""
) -> Response:
    job, folder = service.job("training", training)
    view = _view(job, folder, "" if problem is None else for_people(problem.detail), wanted)
    promise, has_token = promise_of(folder), service.settings.has_token
    text = render(
        "training.html",
        title=f"{job.name} (training {training})",
        id=training,
        study=job.study,
        config="" if promise is None else describe_config(promise.config),
        head=view["head"],
        view=view,
        code=training_code(job, address_of(request.scope), has_token),
        has_token=has_token,
    )
    return page_answer(text, 200 if problem is None else problem.status)


def _view(job: Job, folder: JobFolder, wrong: str = "", wanted: str = "") -> dict[str, Any]:
    view = training_view(folder)
    state = str(job.to_dict()["status"])
    said = wrong or for_people(str((job.error or {}).get("detail", "")))
    head = {
        "name": f"{job.name} (training {job.id})",
        "state": state,
        "status": _status(job, state, view),
        "line": str(study_files.summary(folder)["line"]) if job.active else "",
        "active": job.active,
        "events": folder.events.size,
        "alert": render("alert.html", said=said),
        "actions": render(
            "training_actions.html",
            path=f"/trainings/{job.id}",
            active=job.active,
            goes_on=_goes_on(job, view),
            epochs=job.arguments.get("epochs"),
            wanted=wanted,
            files=_files(job, folder),
        ),
        "figures": render("figures.html", figures=view.pop("figures")),
    }
    return {**view, "head": head}


def _status(job: Job, state: str, view: Mapping[str, Any]) -> str:
    parts = [count(view["epochs"], "epoch")] if view["epochs"] else []
    if job.status == "finished" and view["ended"] in _ENDS:
        parts.append(_ENDS[view["ended"]])
    if job.started is not None and job.ended is not None and not job.active:
        parts.append(f"in {format_duration(max(0.0, job.ended - job.started))}")
    return f"{state}: {', '.join(parts)}" if parts else state


def _goes_on(job: Job, view: Mapping[str, Any]) -> str:
    """Returns the button that continues an ended training; "" if nothing is left to train."""
    if job.status == "finished":
        return "Train on" if view["ended"] == "epochs" else ""
    return "Try again" if job.status == "failed" else "Continue"


def _files(job: Job, folder: JobFolder) -> dict[str, str]:
    """Returns the files to download with their sizes."""
    names = _FILES if job.status == "finished" else ("metrics.jsonl",)
    paths = {name: folder.run / name for name in names}
    return {name: format_size(path.stat().st_size) for name, path in paths.items() if path.is_file()}


def _train_on(form: Mapping[str, str]) -> TrainOnOrder:
    """Returns the order of a form whose number may be empty."""
    text = form.get("epochs", "").strip()[:20]
    try:
        return TrainOnOrder(epochs=int(text) if text.isdecimal() else text or None)  # type: ignore[arg-type]  # checked
    except ValidationError as error:
        raise ProblemDetails(422, "usage", named_faults(error.errors())[0]) from error


class Figure(NamedTuple):
    """A row of the table.

    Attributes:
        name: The figure.
        promised: The study's value as text; "" if it has none.
        reached: The training's value as text; "" before it is known.
        note: A text below it.
        range: A text below the promise.
    """

    name: str
    promised: str = ""
    reached: str = ""
    note: str = ""
    range: str = ""


def training_view(folder: JobFolder) -> dict[str, Any]:
    """Returns the content of a training's page as JSON types.

    Returns:
        epochs (finished ones); curve and promised (points of seconds and the shown metric); target (the shown metric,
        the seconds promised to it as median, low and high, and the seconds it took), or None; metric (label, unit and
        whether larger is better); and figures, the rows of the table.
    """
    promise = promise_of(folder)
    result = _result(folder)
    epochs = _epochs(folder)
    metric = _metric(promise, result)
    setup_s = _setup_s(promise, result, epochs)
    curve = _curve(epochs, setup_s, result)
    target = _target(promise, result, curve, metric)
    return {
        "epochs": len(epochs),
        "metric": {"label": metric.label, "unit": metric.unit, "larger": metric.larger_is_better},
        "curve": _shown(curve, metric),
        "promised": [] if promise is None else _shown(_promised_curve(promise), metric),
        "target": target,
        "ended": None if result is None else result["ended"],
        "figures": [row._asdict() for row in _figures(promise, result, epochs, curve, metric, target)],
    }


def promise_of(folder: JobFolder) -> TunedConfig | None:
    """Returns the choice that is trained, as the study measured it; None before the training has begun."""
    path = folder.choice
    try:
        return _kept.get("choice", path, lambda: TunedConfig.read(path))
    except (FileNotFoundError, A3GNNError):
        return None


def _result(folder: JobFolder) -> dict[str, Any] | None:
    path = folder.run / "result.json"
    try:
        found: dict[str, Any] = _kept.get("result", path, lambda: json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError):
        return None
    return found


def _epochs(folder: JobFolder) -> list[dict[str, Any]]:
    """Returns the finished epochs, as metrics.jsonl has them."""
    path = folder.run / "metrics.jsonl"

    def read() -> list[dict[str, Any]]:
        lines = path.read_bytes().split(b"\n")[:-1]  # without one that is being written
        return [json.loads(line) for line in lines]

    try:
        return _kept.get("epochs", path, read)
    except (FileNotFoundError, ValueError):
        return []


def _metric(promise: TunedConfig | None, result: dict[str, Any] | None) -> Metric:
    if result is not None:
        return Metric(**result["metric"])
    return ACCURACY if promise is None else promise.limits.metric


def _setup_s(promise: TunedConfig | None, result: dict[str, Any] | None, epochs: list[dict[str, Any]]) -> float:
    """Returns the seconds of set-up: the training's once it has ended with an epoch, else those that were promised."""
    if result is not None and result["ended"] != "target":
        return max(0.0, float(result["train_seconds"]) - sum(float(epoch["train_s"]) for epoch in epochs))
    return 0.0 if promise is None or promise.measured is None else promise.measured.pace.setup_s


def _curve(epochs: list[dict[str, Any]], setup_s: float, result: dict[str, Any] | None) -> list[tuple[float, float]]:
    """Returns seconds of training, set-up included, and validation quality after each epoch and at the end."""
    found, seconds = [], setup_s
    for epoch in epochs:
        seconds += epoch["train_s"]
        found.append((seconds, float(epoch["val_accuracy"])))
    if result is not None and result["ended"] == "target":
        found.append((result["train_seconds"], result["val_accuracy"]))
    return sorted(found)


def _promised_curve(promise: TunedConfig) -> list[tuple[float, float]]:
    """Returns seconds and quality of the study's own trial of the choice."""
    measured = promise.measured
    if measured is None or measured.curve is None:
        return []
    seconds = map(measured.pace.seconds, measured.curve.batches)
    return list(zip(seconds, measured.curve.val_accuracy, strict=True))


def _shown(points: list[tuple[float, float]], metric: Metric) -> list[tuple[float, float]]:
    """Returns the points with the shown metric."""
    return [(round(seconds, 4), round(metric.number(quality), 6)) for seconds, quality in points]


def _target(
    promise: TunedConfig | None, result: dict[str, Any] | None, curve: list[tuple[float, float]], metric: Metric
) -> dict[str, Any] | None:
    target = (
        promise.target_accuracy if result is None and promise is not None else (result or {}).get("target_accuracy")
    )
    if target is None:
        return None
    seconds = None if promise is None else promise.seconds_to_accuracy
    return {
        "value": metric.number(target),
        "shown": metric.show(target),
        "promised_s": None if seconds is None else [seconds[name] for name in ("median", "low", "high")],
        "reached_s": _seconds_to(target, result, curve),
    }


def _seconds_to(target: float, result: dict[str, Any] | None, curve: list[tuple[float, float]]) -> float | None:
    """Returns the seconds to the target: as the result has them, or the end of the first epoch that kept it so far."""
    if result is not None:
        found: float | None = result["seconds_to_accuracy"]
        return found
    epochs = LearningCurve(tuple(range(1, len(curve) + 1)), tuple(quality for _, quality in curve), CurveEnd.BUDGET)
    place = epochs.place_reaching(target)
    return None if place is None else curve[place][0]


def _figures(
    promise: TunedConfig | None,
    result: dict[str, Any] | None,
    epochs: list[dict[str, Any]],
    curve: list[tuple[float, float]],
    metric: Metric,
    target: dict[str, Any] | None,
) -> Iterator[Figure]:
    if target is not None:
        yield _seconds_row(target, result is not None)
    val_accuracy, test_accuracy = _promised_quality(promise)
    best = max((quality for _, quality in curve), default=None)
    yield Figure(
        f"validation {metric.label}",
        shown(val_accuracy, metric.show),
        shown(best if result is None else result["val_accuracy"], metric.show),
        "the best so far" if result is None and best is not None else "",
    )
    yield Figure(
        f"test {metric.label}",
        shown(test_accuracy, metric.show),
        shown(None if result is None else result["test_accuracy"], metric.show),
    )
    trained = None if promise is None else promise.trained
    spent = curve[-1][0] if curve else None
    yield Figure(
        "time of training",
        shown(None if trained is None else trained.seconds, format_seconds),
        shown(spent if result is None else result["train_seconds"], format_seconds),
        "" if result is None else f"{count(len(epochs), 'epoch')}",
    )
    yield from _measured(promise, result, epochs)


def _promised_quality(promise: TunedConfig | None) -> tuple[float | None, float | None]:
    """Returns the choice's validation and test quality: trained to the end, or else as far as its trial went."""
    if promise is None:
        return None, None
    final = (promise.final or {}).get("other")
    if final is not None:
        return final["val_accuracy"], final["test_accuracy"]
    measured = promise.measured
    if measured is None or measured.curve is None:
        return None, None
    return max(measured.curve.val_accuracy, default=None), measured.test_accuracy


def _seconds_row(target: dict[str, Any], has_ended: bool) -> Figure:
    promised = between = ""
    if target["promised_s"] is not None:
        promised, low, high = map(format_seconds, target["promised_s"])
        between = f"{low} to {high}"
    reached, note = target["reached_s"], ""
    if reached is not None and target["promised_s"] is not None:
        over = reached / target["promised_s"][0]
        note = f"{show_ratio(over)} the promise" if has_ended else "by the end of its epoch"
    return Figure(
        f"time to {target['shown']}",
        promised,
        format_seconds(reached) if reached is not None else "not reached" if has_ended else "not yet",
        note,
        between,
    )


def _measured(
    promise: TunedConfig | None, result: dict[str, Any] | None, epochs: list[dict[str, Any]]
) -> Iterator[Figure]:
    """Yields speed and memory, beside what the study measured."""
    before = None if promise is None else promise.measured
    speeds = sorted(epoch["epochs_per_s"] for epoch in epochs)
    speed = result["throughput_epochs_per_s"] if result is not None else speeds[len(speeds) // 2] if speeds else None
    yield Figure(
        "epochs per second",
        shown(None if before is None else before.throughput_epochs_per_s, show_speed),
        shown(speed, show_speed),
        _over(speed, None if before is None else before.throughput_epochs_per_s),
    )
    name = "peak_device_bytes" if before is not None and before.peak_device_bytes else "peak_host_bytes"
    most = None if before is None else getattr(before, name)
    took = None if result is None else result[name]
    yield Figure("peak memory", shown(most, format_size), shown(took, format_size), _over(took, most))


def _over(found: float | None, before: float | None) -> str:
    return f"{show_ratio(found / before)} the study's" if found and before else ""
