"""Trainings of studies' choices; POST /studies/{study}/train starts one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse

from a3gnn.errors import UsageError
from a3gnn.service.http.answers import (
    OBJECT,
    PROBLEMS,
    Asked,
    Forever,
    Number,
    TrainingAnswer,
    TrainingsAnswer,
    answers,
    json_answer,
)
from a3gnn.service.http.problems import conflict
from a3gnn.service.jobs.database import MOST
from a3gnn.service.jobs.jobs import MOST_ON_A_PAGE, ON_A_PAGE, JobFilter
from a3gnn.service.service import Service
from a3gnn.service.studies.orders import TrainOnOrder

router = APIRouter(prefix="/trainings", tags=["trainings"], responses=PROBLEMS)


@router.get("", summary="List trainings, newest first", responses=answers(TrainingsAnswer))
def list_trainings(
    service: Asked,
    study: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    before: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = ON_A_PAGE,
    deleted: Annotated[bool, Query(description="Whether to list the trash instead.")] = False,
) -> Response:
    """Lists trainings."""
    found = service.jobs.newest_json(JobFilter("training", study=study, before=before, limit=limit, deleted=deleted))
    return Response(f'{{"trainings": {found}}}', media_type="application/json")


@router.get("/{training}", summary="Show a training", responses=answers(TrainingAnswer))
def get_training(service: Asked, training: Number) -> Response:
    """Shows the progress of a training."""
    return json_answer(service.jobs.get(training, "training").to_dict())


@router.get("/{training}/result.json", summary="Download the result of a training", responses=OBJECT)
def get_result(service: Asked, training: Number) -> Response:
    """Returns the training's result.json."""
    content = _file(service, training, "result.json").read_bytes()
    return json_answer(service.home.places.shown_in(json.loads(content)))


@router.get(
    "/{training}/metrics.jsonl",
    summary="Download the epochs of a training",
    response_class=Response,
    responses={200: {"content": {"application/jsonl": {"schema": {}}}}},
)
def get_metrics(service: Asked, training: Number) -> Response:
    """Returns a line per finished epoch, also of a training that runs."""
    folder = service.job("training", training)[1]
    try:
        content = (folder.run / "metrics.jsonl").read_bytes()
    except FileNotFoundError:
        raise conflict("the training has no metrics before its first epoch; its events follow it") from None
    shown = f'attachment; filename="training-{training}-metrics.jsonl"'
    return Response(content, media_type="application/jsonl", headers={"Content-Disposition": shown})


@router.get("/{training}/model.pt", summary="Download the weights", response_class=FileResponse)
def get_model(service: Asked, training: Number) -> Response:
    """Returns the training's model.pt for `a3gnn predict`."""
    shown = f"training-{training}-model.pt"
    return FileResponse(_file(service, training, "model.pt"), media_type="application/octet-stream", filename=shown)


@router.post("/{training}/stop", summary="Stop a training", responses=answers(TrainingAnswer, 200, 202))
def stop_training(service: Asked, training: Number) -> Response:
    """Stops a training at a checkpoint, from which it can continue."""
    job = service.stop("training", training)
    return json_answer(job.to_dict(), 202 if job.active else 200)


@router.post(
    "/{training}/resume", status_code=202, summary="Continue a training", responses=answers(TrainingAnswer, 202)
)
def resume_training(service: Asked, training: Number, order: TrainOnOrder | None = None) -> Response:
    """Continues a training from its last checkpoint, up to more epochs if the request has a number."""
    job = service.jobs.get(training, "training")
    more = {} if order is None or order.epochs is None else {"epochs": order.epochs}
    service.settings.check_epochs(**more)
    if (least := job.arguments.get("epochs") or 0) > more.get("epochs", least):
        raise UsageError(f"epochs must be at least the training's {least:,}, got {more['epochs']:,}; leave them out")
    return json_answer(service.resume(job, {**job.arguments, **more}).to_dict(), 202)


@router.post("/{training}/restore", summary="Take a training out of the trash", responses=answers(TrainingAnswer))
def restore_training(service: Asked, training: Number) -> Response:
    """Takes a deleted training out of the trash, where it stays for a week."""
    return json_answer(service.trash.restore("training", training).to_dict())


@router.delete("/{training}", status_code=204, summary="Delete a training")
def delete_training(service: Asked, training: Number, forever: Forever = False) -> Response:
    """Puts a training that has ended into the trash, or removes it with its files."""
    (service.trash.remove if forever else service.trash.put)("training", training)
    return Response(status_code=204)


def _file(service: Service, training: int, name: str) -> Path:
    job, folder = service.job("training", training)
    if job.status != "finished":
        raise conflict(f"only a finished training has a {name}, but training {training} is {job.status}")
    return folder.run / name
