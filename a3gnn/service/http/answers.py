"""Answers of the routes: forms, JSON, and the descriptions of answers and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from anyio import to_thread
from fastapi import Depends, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from a3gnn.errors import A3GNNError
from a3gnn.service.http.problems import MEDIA_TYPE, ProblemDetails
from a3gnn.service.jobs.database import MOST
from a3gnn.service.service import Service

#: A job's or graph's number in a path.
Number = Annotated[int, InPath(ge=1, le=MOST)]
#: Whether a job is removed for good, as a parameter of a route.
Forever = Annotated[bool, Query(description="Whether to remove its files now, not after a week in the trash.")]
_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
#: Errors that every route may answer, for the description of the API.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request can't be read.", **_PROBLEM},
    401: {"description": "The token is missing.", **_PROBLEM},
    404: {"description": "The object does not exist.", **_PROBLEM},
    409: {"description": "The action is not possible now.", **_PROBLEM},
    413: {"description": "The request is too large.", **_PROBLEM},
    422: {"description": "A field of the request is not valid.", **_PROBLEM},
    429: {"description": "Too many requests or studies wait already.", **_PROBLEM},
    408: {"description": "The request's body takes too long.", **_PROBLEM},
    421: {"description": "The server is addressed by another name.", **_PROBLEM},
    403: {"description": "The request comes from a page of another site.", **_PROBLEM},
    500: {"description": "The server failed.", **_PROBLEM},
    501: {"description": "The server lacks a package.", **_PROBLEM},
    503: {"description": "The database does not answer, or the server is busy or ending.", **_PROBLEM},
    507: {"description": "The disk has no room.", **_PROBLEM},
}
#: The schema of a problem (RFC 9457).
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The rule, the value and the remedy."},
    },
}


def answers(model: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the description of a route's answers, whose content is the same for each status; 200 if none is given."""
    texts = {200: "Done.", 201: "Created; `Location` has its path.", 202: "Accepted: it is not done yet."}
    return {status: {"model": model, "description": texts[status]} for status in statuses or (200,)}


#: The description of an answer that is an object of a page of the docs.
OBJECT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Done.", "content": {"application/json": {"schema": {"type": "object"}}}}
}


def service_of(request: Request) -> Service:
    """Returns the service of the application that received `request`."""
    service: Service = request.app.state.service
    return service


#: The service, as a parameter of a route.
Asked = Annotated[Service, Depends(service_of)]


async def form_of(request: Request, most: int) -> dict[str, str]:
    """Returns the fields of the form in `request`, each with its first value.

    Raises:
        ProblemDetails: The form has more than `most` values.
    """
    text = (await request.body()).decode("utf-8", "replace")
    try:  # in a thread, because a megabyte of encoded characters takes .3 s
        fields = await to_thread.run_sync(partial(parse_qs, text, max_num_fields=most))
    except ValueError as error:
        raise ProblemDetails(422, "usage", f"the form must have at most {most} fields, got more") from error
    return {name: values[0] for name, values in fields.items()}


async def act_by_form(
    request: Request,
    number: int,
    actions: Mapping[str, Callable[[Service, int, Mapping[str, str]], object]],
    page: Callable[[ProblemDetails, Mapping[str, str]], Response],
) -> Response:
    """Does what the pressed button of a form says, and leads to the page that follows, or shows what is wrong.

    Args:
        request: The form, sent to the address of its page.
        number: The number of the page's job.
        actions: What each button does with the service, the job's number and the form's fields. A text that it returns
            is the path of the page that follows; it is the same page otherwise.
        page: Returns the page with a problem, for these fields. Called in a thread.
    """
    form = await form_of(request, 4)
    action = form.get("action", "")
    try:
        if action not in actions:
            raise ProblemDetails(422, "usage", f"action must be one of {', '.join(actions)}, got {action[:50]!r}")
        following = await to_thread.run_sync(actions[action], service_of(request), number, form)
    except (ProblemDetails, A3GNNError) as error:
        return await to_thread.run_sync(page, ProblemDetails.of(error), form)
    return RedirectResponse(following if isinstance(following, str) else request.url.path, 303)


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns `content` as JSON."""
    return Response(json.dumps(content), status, headers, media_type="application/json")


#: An object that another page of the docs describes.
Fields = dict[str, Any]


class GraphAnswer(BaseModel):
    """A registered graph."""

    id: int
    name: str
    origin: Literal["path", "upload", "synthetic"]
    source: str = Field(description="The dataset, as the user named it.")
    fingerprint: str = Field(description="Fingerprint of its content.")
    created: float = Field(description="Time of registration, in seconds since 1970.")
    about: Fields = Field(description="Its characteristics, and notes on what was changed as it was read.")


class GraphsAnswer(BaseModel):
    """Graphs, newest first."""

    graphs: list[GraphAnswer]


class _JobAnswer(BaseModel):
    id: int
    name: str
    graph: int = Field(description="The number of its graph.")
    arguments: Fields = Field(description="Its options.")
    status: Literal["queued", "running", "stopping", "finished", "stopped", "failed"]
    created: float = Field(description="Time of the request, in seconds since 1970.")
    started: float | None = Field(description="Time when it last began.")
    ended: float | None = Field(description="Time when it last ended.")
    deleted: float | None = Field(None, description="Time when it went to the trash.")
    error: Fields | None = Field(description="The problem that made it fail, as in RFC 9457.")
    line: str = Field("", description="The last line of output.")


class StudyAnswer(_JobAnswer):
    """A study."""

    kind: Literal["study"]
    study: None
    trials: int = Field(0, description="Trials so far.")
    chosen: str = Field("", description="The choice in words, once there is one.")
    against_default: Fields | None = Field(None, description="The choice compared with the baseline, as in tuned.json.")
    no_gain: Fields | None = Field(
        None, description="The best other configuration, if nothing gains over the baseline."
    )


class StudiesAnswer(BaseModel):
    """Studies, newest first."""

    studies: list[StudyAnswer]


class ComparedStudy(BaseModel):
    """A study of a comparison."""

    study: int = Field(description="The number of the study.")
    name: str
    letter: str = Field(description="Its name in the sentences of `caveats`.")
    folder: str
    finished: bool
    graph: str = Field(description="The name of its graph.")
    graph_fingerprint: str
    machine: str = Field(description="Fingerprint of the machine.")
    trained: str = Field(description="The task in words.")
    metric: str
    priority: str
    memory_limit: int | str | None
    host_memory_limit: int | None
    max_accuracy_drop: float
    target: float | None = Field(description="The validation quality to reach.")
    budget: float = Field(description="Trials, or seconds.")
    trials: int = Field(description="Trials after the baseline.")
    seconds: float
    version: str
    config: Fields | None = Field(description="The choice, or the best measured so far.")
    default: Fields | None = Field(description="Figures of the baseline.")
    choice: Fields | None = Field(description="Figures of `config`.")
    over_default: Fields | None = Field(
        description="The choice over the baseline: ratios with the ranges of their medians."
    )
    no_gain: Fields | None = Field(description="The best other configuration, if nothing gains over the baseline.")
    differs: bool | None = Field(description="Whether the choice is measurably better; null before the verification.")


class CompareAnswer(BaseModel):
    """Studies side by side, in the order of the request."""

    tunes: list[ComparedStudy]
    knobs: dict[str, list[Any]] = Field(description="The knobs that differ, each with its value per study.")
    caveats: list[str] = Field(description="What does not compare, a sentence each.")


class TrainingAnswer(_JobAnswer):
    """A training."""

    kind: Literal["training"]
    study: int = Field(description="The number of the study whose choice it trains.")


class TrainingsAnswer(BaseModel):
    """Trainings, newest first."""

    trainings: list[TrainingAnswer]


class TrialAnswer(BaseModel):
    """A trial as measured."""

    number: int
    reason: str = Field(description="Why it ran: default, best, front or smallest.")
    predicted: Fields = Field(description="Mean, low and high of each metric, predicted before it ran.")
    measurement: Fields = Field(description="Configuration, setting, and either metrics or a failure.")
    drift: float = Field(description="The machine's speed over its speed in the baseline's trial.")


class TrialsAnswer(BaseModel):
    """Trials of a study."""

    trials: list[TrialAnswer]
    total: int = Field(description="Number of trials that match, whatever the limit.")


class SuggestionAnswer(BaseModel):
    """A trial that waits for figures."""

    number: int
    config: Fields
    plan: Fields
    task: Fields


class SuggestedAnswer(BaseModel):
    """The next trial of a study whose trials the client runs."""

    suggestion: SuggestionAnswer | None = Field(description="null if none waits for figures.")
    status: str = Field(description="The study's status.")


class CompletedAnswer(BaseModel):
    """The trial whose figures were taken."""

    number: int


class FilesAnswer(BaseModel):
    """The files of a study."""

    files: dict[str, int] = Field(description="Bytes of each file.")


class ProfilesAnswer(BaseModel):
    """The stored measurements."""

    profiles: list[Fields] = Field(description="Counts by graph, model and machine.")
    rows: int


class AddedAnswer(BaseModel):
    """The measurements that were added."""

    added: int = Field(description="Rows that the store did not have.")
    rows: int = Field(description="Rows of the request.")


class MachinesAnswer(BaseModel):
    """Machines with measurements."""

    machines: list[Fields]


class HealthAnswer(BaseModel):
    """The server's health."""

    status: Literal["ok"]
    version: str
