"""The page of a training: its learning curve, and its figures beside those that the study promised, kept up to date."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
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
from a3gnn.service.pages.frame import for_people, page, render
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
    promise = promise_of(folder)
    return page(
        service,
        "training.html",
        200 if problem is None else problem.status,
        title=f"{job.name} (training {training})",
        id=training,
        study=job.study,
        config="" if promise is None else describe_config(promise.config),
        head=view["head"],
        view=view,
        code=training_code(job, address_of(request.scope), service.settings.has_token),
    )


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
    training = _Training(folder)
    metric, result = training.metric, training.result
    return {
        "epochs": len(training.epochs),
        "metric": {"label": metric.label, "unit": metric.unit, "larger": metric.larger_is_better},
        "curve": _shown(training.curve, metric),
        "promised": _shown(training.promised_curve(), metric),
        "target": training.target,
        "ended": None if result is None else result["ended"],
        "figures": [row._asdict() for row in training.figures()],
    }


def promise_of(folder: JobFolder) -> TunedConfig | None:
    """Returns the choice that is trained, as the study measured it; None before the training has begun."""
    path = folder.choice
    try:
        return _kept.get("choice", path, lambda: TunedConfig.read(path))
    except (FileNotFoundError, A3GNNError):
        return None


def _read(name: str, path: Path, parse: Callable[[bytes], Any]) -> Any:
    """Returns the parsed file; None if there is none, or if it is being written."""
    try:
        return _kept.get(name, path, lambda: parse(path.read_bytes()))
    except (FileNotFoundError, ValueError):
        return None


def _epochs(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.split(b"\n")[:-1]]  # without one that is being written


class _Training:
    """What is known of a training: what the study promised, the finished epochs, and the result once it has ended."""

    def __init__(self, folder: JobFolder) -> None:
        self.promise = promise_of(folder)
        self.measured = None if self.promise is None else self.promise.measured
        self.result: dict[str, Any] | None = _read("result", folder.run / "result.json", json.loads)
        self.epochs: list[dict[str, Any]] = _read("epochs", folder.run / "metrics.jsonl", _epochs) or []
        self.metric = ACCURACY if self.promise is None else self.promise.limits.metric
        if self.result is not None:
            self.metric = Metric(**self.result["metric"])
        self.curve = self._curve()
        self.target = self._target()

    def _of_result(self, name: str) -> Any:
        return None if self.result is None else self.result[name]

    def _promised(self, name: str) -> Any:
        return None if self.measured is None else getattr(self.measured, name)

    def _curve(self) -> list[tuple[float, float]]:
        """Returns seconds of training, set-up included, and validation quality after each epoch and at the end.

        The set-up is the training's once it has ended with an epoch, else the one that was promised.
        """
        seconds = 0.0 if self.measured is None else self.measured.pace.setup_s
        if self.result is not None and self.result["ended"] != "target":
            seconds = max(0.0, float(self.result["train_seconds"]) - sum(float(one["train_s"]) for one in self.epochs))
        found = []
        for epoch in self.epochs:
            seconds += epoch["train_s"]
            found.append((seconds, float(epoch["val_accuracy"])))
        if self.result is not None and self.result["ended"] == "target":
            found.append((self.result["train_seconds"], self.result["val_accuracy"]))
        return sorted(found)

    def promised_curve(self) -> list[tuple[float, float]]:
        """Returns seconds and quality of the study's own trial of the choice."""
        if self.measured is None or self.measured.curve is None:
            return []
        seconds = map(self.measured.pace.seconds, self.measured.curve.batches)
        return list(zip(seconds, self.measured.curve.val_accuracy, strict=True))

    def _target(self) -> dict[str, Any] | None:
        promise, result = self.promise, self.result
        target = promise.target_accuracy if result is None and promise else (result or {}).get("target_accuracy")
        if target is None:
            return None
        seconds = None if promise is None else promise.seconds_to_accuracy
        return {
            "value": self.metric.number(target),
            "shown": self.metric.show(target),
            "promised_s": None if seconds is None else [seconds[name] for name in ("median", "low", "high")],
            "reached_s": self._seconds_to(target),
        }

    def _seconds_to(self, target: float) -> Any:
        """Returns the seconds to the target: the result's, or the end of the first epoch that kept it so far."""
        if self.result is not None:
            return self.result["seconds_to_accuracy"]
        counts, qualities = range(1, len(self.curve) + 1), (quality for _, quality in self.curve)
        place = LearningCurve(tuple(counts), tuple(qualities), CurveEnd.BUDGET).place_reaching(target)
        return None if place is None else self.curve[place][0]

    def figures(self) -> Iterator[Figure]:
        """Yields the rows of the table."""
        metric, result = self.metric, self.result
        if self.target is not None:
            yield _seconds_row(self.target, result is not None)
        val_accuracy, test_accuracy = self._promised_quality()
        best = max((quality for _, quality in self.curve), default=None)
        yield Figure(
            f"validation {metric.label}",
            shown(val_accuracy, metric.show),
            shown(best if result is None else result["val_accuracy"], metric.show),
            "the best so far" if result is None and best is not None else "",
        )
        reached = self._of_result("test_accuracy")
        yield Figure(f"test {metric.label}", shown(test_accuracy, metric.show), shown(reached, metric.show))
        trained = None if self.promise is None else self.promise.trained
        spent = self.curve[-1][0] if self.curve else None
        yield Figure(
            "time of training",
            shown(None if trained is None else trained.seconds, format_seconds),
            shown(spent if result is None else result["train_seconds"], format_seconds),
            "" if result is None else count(len(self.epochs), "epoch"),
        )
        speeds = sorted(epoch["epochs_per_s"] for epoch in self.epochs)
        speed = speeds[len(speeds) // 2] if result is None and speeds else self._of_result("throughput_epochs_per_s")
        before = self._promised("throughput_epochs_per_s")
        yield Figure("epochs per second", shown(before, show_speed), shown(speed, show_speed), _over(speed, before))
        name = "peak_device_bytes" if self._promised("peak_device_bytes") else "peak_host_bytes"
        most, took = self._promised(name), self._of_result(name)
        yield Figure("peak memory", shown(most, format_size), shown(took, format_size), _over(took, most))

    def _promised_quality(self) -> tuple[float | None, float | None]:
        """Returns the choice's validation and test quality: trained to the end, or else as far as its trial went."""
        final = ((self.promise and self.promise.final) or {}).get("other")
        if final is not None:
            return final["val_accuracy"], final["test_accuracy"]
        if self.measured is None or self.measured.curve is None:
            return None, None
        return max(self.measured.curve.val_accuracy, default=None), self.measured.test_accuracy


def _shown(points: list[tuple[float, float]], metric: Metric) -> list[tuple[float, float]]:
    """Returns the points with the shown metric."""
    return [(round(seconds, 4), round(metric.number(quality), 6)) for seconds, quality in points]


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


def _over(found: float | None, before: float | None) -> str:
    return f"{show_ratio(found / before)} the study's" if found and before else ""
