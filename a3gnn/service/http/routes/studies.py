"""Studies: started, watched, stopped and taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from a3gnn.errors import UsageError
from a3gnn.service.graphs.shelf import KnownGraph
from a3gnn.service.http.answers import (
    OBJECT,
    PROBLEMS,
    Asked,
    FilesAnswer,
    Forever,
    Number,
    StudiesAnswer,
    StudyAnswer,
    TrainingAnswer,
    TrialsAnswer,
    answers,
    json_answer,
)
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs.database import MOST
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import RETRY, Job
from a3gnn.service.jobs.jobs import MOST_ON_A_PAGE, ON_A_PAGE, JobFilter
from a3gnn.service.pages.study_head import budget_of
from a3gnn.service.service import Service
from a3gnn.service.studies import study_files
from a3gnn.service.studies.orders import PickOrder, Question, ResumeOrder, StudyOrder, TrainOrder, Word
from a3gnn.service.studies.study_files import FileName, pieces, sizes, with_places
from a3gnn.task import Task
from a3gnn.tuning.study.arguments import make_request
from a3gnn.units import count, format_duration

router = APIRouter(tags=["studies"], responses=PROBLEMS)
Page = Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)]
Before = Annotated[int | None, Query(ge=1, le=MOST, description="The last number of the previous page.")]
Key = Annotated[
    Word, Header(description="A text of the client's own. A repeated request with the same one makes nothing new.")
]
StatusName = Literal["queued", "running", "finished", "stopped", "failed"]


@router.get("/studies", summary="List studies, newest first", responses=answers(StudiesAnswer))
def list_studies(
    service: Asked,
    status: Annotated[list[StatusName] | None, Query(description="Any of these statuses.")] = None,
    graph: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    before: Before = None,
    limit: Page = ON_A_PAGE,
    called: Annotated[Word, Query(description="Part of the name, or of the graph's; or the number.")] = "",
    deleted: Annotated[bool, Query(description="Whether to list the trash instead.")] = False,
) -> Response:
    """Lists studies."""
    asked = JobFilter("study", tuple(status or ()), graph, before=before, limit=limit, words=called, deleted=deleted)
    found = service.jobs.newest_json(asked)
    return Response(f'{{"studies": {found}}}', media_type="application/json")


@router.post("/studies", status_code=201, summary="Start a study", responses=answers(StudyAnswer, 201))
def add_study(service: Asked, order: StudyOrder, idempotency_key: Key = "") -> Response:
    """Puts a study into the queue, which tunes as `a3gnn tune` does, with the same options."""
    job = start(service, order, idempotency_key)
    return json_answer(job.to_dict(), 201, {"Location": f"/studies/{job.id}"})


def start(service: Service, order: StudyOrder, key: str = "") -> Job:
    """Puts the study of `order` into the queue, and returns it; or the one that the request with `key` has made before.

    Raises:
        A3GNNError: An option is not valid.
        ProblemDetails: An option is not valid, or the queue is full.
    """
    arguments = order.arguments(service.settings)
    graph = _graph(service, order)
    return service.begin("study", order.name or graph.name, graph, arguments, key=key)


@router.get("/studies/{study}", summary="Show a study", responses=answers(StudyAnswer))
def get_study(service: Asked, study: Number) -> Response:
    """Shows the request and the progress of a study."""
    return json_answer(service.jobs.get(study, "study").to_dict())


@router.delete("/studies/{study}", status_code=204, summary="Delete a study")
def delete_study(service: Asked, study: Number, forever: Forever = False) -> Response:
    """Puts a study that has ended into the trash, or removes it with its files. Measurements stay in any case."""
    (service.trash.remove if forever else service.trash.put)("study", study)
    return Response(status_code=204)


@router.post("/studies/{study}/restore", summary="Take a study out of the trash", responses=answers(StudyAnswer))
def restore_study(service: Asked, study: Number) -> Response:
    """Takes a deleted study out of the trash, where it stays for a week."""
    return json_answer(service.trash.restore("study", study).to_dict())


@router.post(
    "/studies/{study}/stop", summary="Finish a study with the best so far", responses=answers(StudyAnswer, 200, 202)
)
def stop_study(service: Asked, study: Number) -> Response:
    """Ends a study with its best measured configuration. Answers 202 if that takes more than two seconds."""
    job = service.stop("study", study)
    return json_answer(job.to_dict(), 202 if job.active else 200)


@router.post(
    "/studies/{study}/resume", status_code=202, summary="Continue a study", responses=answers(StudyAnswer, 202)
)
def resume_study(service: Asked, study: Number, order: ResumeOrder | None = None) -> Response:
    """Continues a stopped or failed study, or a finished study under a larger budget."""
    job = service.jobs.get(study, "study")
    arguments = dict(job.arguments)
    if order is not None and order.budget is not None:
        arguments["budget"] = order.budget
        others = ("task", "metric", "trainer", RETRY)
        asked = {name: value for name, value in arguments.items() if name not in others}
        request = make_request(**asked, task=Task())
        service.settings.check(request)
        _check_larger(request.budget, *service.job("study", study))
    return json_answer(service.resume(job, arguments).to_dict(), 202)


@router.post(
    "/studies/{study}/retry",
    status_code=202,
    summary="Continue a study, and forget its failed trials",
    responses=answers(StudyAnswer, 202),
)
def retry_study(service: Asked, study: Number) -> Response:
    """Continues an ended study without its failed trials, which may be chosen again."""
    job = service.jobs.get(study, "study")
    return json_answer(service.resume(job, job.arguments, forget=True).to_dict(), 202)


@router.get("/studies/{study}/trials", summary="List the trials of a study", responses=answers(TrialsAnswer))
def list_trials(
    service: Asked,
    study: Number,
    after: Annotated[int, Query(ge=-1, le=MOST, description="Only trials with larger numbers.")] = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    outcome: Annotated[Literal["measured", "failed"] | None, Query()] = None,
    reason: Annotated[str | None, Query(max_length=50)] = None,
    sort: Annotated[Literal["number", "throughput", "memory", "seconds"], Query()] = "number",
) -> Response:
    """Lists trials as measured; sorted by a figure, the best come first and those without it last.

    The drift of each is the machine's as it is known by now.
    """
    found = [one for one in study_files.trials(service.job("study", study)[1]) if one["number"] > after]
    if outcome is not None:
        found = [one for one in found if ("failure" in one["measurement"]) == (outcome == "failed")]
    if reason is not None:
        found = [one for one in found if one["reason"] == reason]
    if sort != "number":
        found.sort(key=lambda one: _figure(one, sort))
    return json_answer({"trials": found[:limit], "total": len(found)})


@router.get("/studies/{study}/front", summary="Show the front of a study", responses=OBJECT)
def get_front(service: Asked, study: Number) -> Response:
    """Shows every measured configuration, and the Pareto front among them, which may still change."""
    return Response(study_files.front_json(service.job("study", study)[1]), media_type="application/json")


@router.get("/studies/{study}/tuned.json", summary="Download the choice", responses=OBJECT)
def get_tuned(service: Asked, study: Number) -> Response:
    """Returns the file for `a3gnn train --config`."""
    job, folder = service.job("study", study)
    content = with_places(folder, study_files.chosen_file(folder, "tuned.json"), service.graphs.get(job.graph).source)
    return _taken_away(content, study, "tuned.json", "application/json")


@router.post("/studies/{study}/pick", summary="Pick another configuration, without a trial", responses=OBJECT)
def pick_configuration(service: Asked, study: Number, order: PickOrder | None = None) -> Response:
    """Returns the file for `a3gnn train --config` of the best measured configuration under other limits."""
    job, folder = service.job("study", study)
    content = with_places(
        folder, study_files.picked(folder, order or PickOrder()), service.graphs.get(job.graph).source
    )
    return _taken_away(content, study, "picked.json", "application/json")


@router.get(
    "/studies/{study}/tuned.csv",
    summary="Download the front as CSV",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def get_csv(service: Asked, study: Number) -> Response:
    """Returns the front, a row per measured configuration."""
    folder = service.job("study", study)[1]
    content = folder.places.shown(study_files.chosen_file(folder, "front.csv").decode())
    return _taken_away(content.encode(), study, "front.csv", "text/csv; charset=utf-8")


@router.get("/studies/{study}/files", summary="List the files of a study", responses=answers(FilesAnswer))
def list_files(service: Asked, study: Number) -> Response:
    """Lists the files of a study that can be downloaded, with their bytes. `a3gnn report` and `pick` need them."""
    return json_answer({"files": sizes(service.job("study", study)[1])})


@router.get(
    "/studies/{study}/files/{name}",
    summary="Download a file of a study",
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": {}}, "application/jsonl": {"schema": {}}}}},
)
def get_file(service: Asked, study: Number, name: FileName) -> Response:
    """Streams a file of a study's folder, with paths of the server shortened."""
    job, folder = service.job("study", study)
    content = pieces(folder, name, service.graphs.get(job.graph).source)
    return StreamingResponse(content, media_type=f"application/{name.rpartition('.')[2]}")


@router.post(
    "/studies/{study}/train",
    status_code=201,
    summary="Train with the choice",
    tags=["trainings"],
    responses=answers(TrainingAnswer, 201),
)
def add_training(service: Asked, study: Number, order: TrainOrder | None = None, idempotency_key: Key = "") -> Response:
    """Puts a training with the study's choice into the queue."""
    job, folder = service.job("study", study)
    study_files.chosen_file(folder, "tuned.json")
    order = order or TrainOrder()
    service.settings.check_epochs(epochs=order.epochs, patience=order.patience)
    asked = {"epochs": order.epochs, "patience": order.patience, "until_target": order.until_target}
    arguments = {name: value for name, value in asked.items() if value is not None}  # else: until nothing improves
    graph = service.graphs.get(job.graph)
    training = service.begin("training", order.name or job.name, graph, arguments, job.id, idempotency_key)
    return json_answer(training.to_dict(), 201, {"Location": f"/trainings/{training.id}"})


@router.post("/recommend", summary="Recommend by predictions alone", responses=OBJECT)
def recommend(service: Asked, question: Question) -> Response:
    """Recommends a configuration without a trial. The first answer takes seconds, a repeated one milliseconds."""
    return json_answer(recommended(service, question))


def recommended(service: Service, question: Question) -> dict[str, Any]:
    """Returns the recommendation as `a3gnn recommend --json` prints it.

    Raises:
        A3GNNError: A field is not valid.
        ProblemDetails: Nothing can be recommended, or too many requests wait for an answer.
    """
    arguments = question.arguments(service.settings)
    graph = _graph(service, question)
    for name in ("budget", "engine"):
        arguments.pop(name)
    return service.recommender.ask(graph.spec, arguments, service.profiles.stand())


def _check_larger(budget: float | int, job: Job, folder: JobFolder) -> None:
    """Raises a `UsageError` unless `budget` is at least the study's, or of another kind and more than it has used."""
    before, (counted, elapsed_s) = budget_of(job), study_files.used(folder, job)
    in_trials = isinstance(budget, int)
    least = before if isinstance(before, int) == in_trials else counted if in_trials else elapsed_s or 0.0
    if budget < least:
        least_text, text = (count(int(one), "trial") if in_trials else format_duration(one) for one in (least, budget))
        raise UsageError(f"budget must be at least the study's {least_text}, got {text}; without one, the rest is used")


def _graph(service: Service, order: Question) -> KnownGraph:
    if (order.graph is None) == (order.dataset is None):
        raise ProblemDetails(
            422, "usage", "a request must have either graph, a number, or dataset; GET /graphs lists the graphs"
        )
    return service.graphs.register(order.dataset) if order.dataset is not None else service.graphs.get(order.graph or 0)


def _taken_away(content: bytes, study: int, name: str, media_type: str) -> Response:
    shown = f'attachment; filename="study-{study}-{name}"'
    return Response(content, media_type=media_type, headers={"Content-Disposition": shown})


def _figure(trial: Mapping[str, Any], sort: str) -> tuple[bool, float]:
    """Returns the sort key of a trial; trials without the figure come last."""
    measurement = trial["measurement"]
    metrics = measurement.get("metrics")
    if sort == "seconds":
        return False, measurement["seconds"]
    if metrics is None:
        return True, 0.0
    if sort == "throughput":
        return False, -metrics["throughput_epochs_per_s"]
    return False, metrics["peak_device_bytes"] or metrics["peak_host_bytes"]
