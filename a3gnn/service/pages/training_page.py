"""The page of a training, which updates itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from a3gnn.report.text import describe_config
from a3gnn.service.http.answers import OBJECT, PROBLEMS, Asked, Number, act_by_form, json_answer
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.routes.trainings import resume_training
from a3gnn.service.http.security import address_of
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.pages.code import training_code
from a3gnn.service.pages.frame import for_people, page_answer, render
from a3gnn.service.pages.training_view import promise_of, training_view
from a3gnn.service.service import Service
from a3gnn.service.studies import study_files
from a3gnn.service.studies.orders import TrainOnOrder, named_faults
from a3gnn.units import count, format_duration, format_size

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
