"""Pages for browsers: the studies, one study live, and the form that starts one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from a3gnn.errors import A3GNNError
from a3gnn.page.html import MEDIA_TYPES, static_file, study_html
from a3gnn.service import study_files
from a3gnn.service.answers import OBJECT, PROBLEMS, Asked, Number, form_of, json_answer
from a3gnn.service.code import study_code
from a3gnn.service.faults import named_faults
from a3gnn.service.frame import POLICY, for_people, render
from a3gnn.service.graph_shelf import KnownGraph
from a3gnn.service.home import JobFolder
from a3gnn.service.job import Job
from a3gnn.service.jobs import JobFilter
from a3gnn.service.orders import MOST, ResumeOrder, StudyOrder, Word
from a3gnn.service.problems import ProblemDetails
from a3gnn.service.routers.studies import add_training, resume_study, retry_study, start
from a3gnn.service.security import address_of
from a3gnn.service.service import Service
from a3gnn.service.study_head import study_head
from a3gnn.task import MODELS
from a3gnn.units import count, format_duration, parse_budget

router = APIRouter(tags=["pages"], responses=PROBLEMS)
_ON_A_PAGE = 50
#: Seconds after which a browser loads the list again. Guess.
_LIST_AGAIN_S = 10
#: Graphs that the form lists on one page.
_GRAPHS_IN_FORM = 200
#: Lengths of a number in the form. All valid numbers are shorter; Python parses up to 4,300 digits.
_LENGTHS = range(1, 201)
#: The actions of the buttons above a study's page, each with the number of the study and the fields of its form.
_ACTIONS: dict[str, Callable[[Service, int, Mapping[str, str]], object]] = {
    "stop": lambda service, study, form: service.stop("study", study),
    "resume": lambda service, study, form: resume_study(service, study, _resume(form)),
    "retry": lambda service, study, form: retry_study(service, study),
    "train": lambda service, study, form: add_training(service, study).headers["location"] + "/page",
    "delete": lambda service, study, form: (service.trash.put("study", study), f"/trash?kind=study&number={study}")[1],
}
#: Seconds for which a browser caches scripts and styles.
_KEPT_S = 3600
_PRIORITIES = {
    "time": "time: reaches the target accuracy soonest",
    "throughput": "throughput: the most epochs per second",
    "memory": "memory: the least memory",
    "accuracy": "accuracy: the best validation accuracy in the baseline's time",
    "balanced": "balanced: speed, memory and accuracy count equally",
}
#: The text fields of the form: name, label, help text and initial value.
_FIELDS = (
    ("memory_limit", "Memory limit", ("A size such as 4GiB, or baseline for the measured peak of the baseline. It "
                                      "limits GPU memory if there is a GPU. Empty sets no limit."), ""),
    ("budget", "Budget", "A duration such as 10min, or a number of trials.", "5min"),
    ("max_accuracy_drop", "Accuracy drop", "Most points of validation accuracy below the baseline.", "0.5"),
    ("name", "Name", "Name of the study. Default: the graph's name.", ""),
)  # fmt: skip


@router.get("/studies/{study}/views", summary="Show the content of a study's page", responses=OBJECT)
def get_views(service: Asked, study: Number) -> Response:
    """Returns the content of a study's page as JSON (docs/reference/study_views.md)."""
    return json_answer(_views(service, *service.job("study", study)))


@router.get("/studies/{study}/page", summary="Show a study in a browser", response_class=HTMLResponse)
def get_page(service: Asked, study: Number, request: Request) -> Response:
    """Returns the page of a study, which updates itself."""
    return _html(_study_page(service, study, request))


@router.get("/studies/{study}/head", include_in_schema=False)
def get_head(service: Asked, study: Number) -> Response:
    """Returns what the head of a study's page shows now, for its script."""
    return json_answer(_head(service, *service.job("study", study)))


@router.get("/studies/{study}/log", include_in_schema=False)
def get_log(service: Asked, study: Number, after: Annotated[int, Query(ge=0, le=2**62)] = 0) -> Response:
    """Returns the lines of a study's log after an event's id, for the page's script."""
    _, folder = service.job("study", study)
    return json_answer(study_files.log_lines(folder, after))


@router.post("/studies/{study}/page", include_in_schema=False)
async def act(service: Asked, request: Request, study: Number) -> Response:
    """Does what a button above the page says, and shows the page again."""
    form = await form_of(request, 4)
    asked = form.get("action", "")
    try:
        following = await to_thread.run_sync(_done, service, asked, study, form)
    except (ProblemDetails, A3GNNError) as error:
        problem = error if isinstance(error, ProblemDetails) else ProblemDetails.of(error)
        wrong = for_people(problem.detail)
        return _html(await to_thread.run_sync(_study_page, service, study, request, wrong), problem.status)
    return RedirectResponse(following, 303)


@router.get("/studies/{study}/tuned.html", summary="Download the page", response_class=HTMLResponse)
def get_report(service: Asked, study: Number) -> Response:
    """Returns the present page of a study as one file without links to others, as `a3gnn report` writes it."""
    shown = {"Content-Disposition": f'attachment; filename="study-{study}.html"'}
    return HTMLResponse(study_html(_views(service, *service.job("study", study))), headers=shown)


@router.get("/static/{name}", include_in_schema=False)
def get_static(name: str) -> Response:
    """Gives a script or a style of the pages."""
    if name not in MEDIA_TYPES:
        raise ProblemDetails(404, "not-found", f"static file {name} does not exist")
    headers = {"Cache-Control": f"max-age={_KEPT_S}"}
    return Response(static_file(name), media_type=MEDIA_TYPES[name], headers=headers)


@router.get("/", include_in_schema=False)
def list_page(service: Asked, before: Annotated[int | None, Query(ge=1, le=MOST)] = None) -> Response:
    """Shows the studies."""
    studies = service.jobs.newest(JobFilter("study", before=before, limit=_ON_A_PAGE))
    names = service.graphs.names({study.graph for study in studies})
    following = studies[-1].id if len(studies) == _ON_A_PAGE else None
    return _html(studies_page(studies, names, following, service.settings.token is not None))


@router.get("/start", include_in_schema=False)
def form_page(service: Asked, find: Word = "", before: Annotated[int | None, Query(ge=1, le=MOST)] = None) -> Response:
    """Shows the form, with the graphs whose name has `find` in it."""
    return _html(_form(service, {"find": find}, before=before))


@router.post("/start", include_in_schema=False)
async def start_by_form(service: Asked, request: Request) -> Response:
    """Starts the study of a filled form, and shows it; or says what is wrong with it."""
    form = await form_of(request, 50)
    given = {name: value.strip() for name, value in form.items() if value.strip()}
    try:
        order = StudyOrder(**_typed({name: value for name, value in given.items() if name != "find"}))
        job = await to_thread.run_sync(start, service, order)
    except ValidationError as error:
        wrong = named_faults(error.errors())[0]
    except (A3GNNError, ProblemDetails) as error:
        wrong = for_people(str(error))
    else:
        return RedirectResponse(f"/studies/{job.id}/page", 303)
    return _html(await to_thread.run_sync(_form, service, given, wrong), 422)


def _form(service: Service, given: dict[str, str], wrong: str = "", before: int | None = None) -> str:
    """Returns the form with its values, and one page of matching graphs: the newest, or those before a number."""
    graphs = service.graphs.newest(before, _GRAPHS_IN_FORM, given.get("find", "")[:200])
    older = graphs[-1].id if len(graphs) == _GRAPHS_IN_FORM else None
    chosen = _typed(given).get("graph")
    if isinstance(chosen, int) and 1 <= chosen <= MOST and all(graph.id != chosen for graph in graphs):
        with suppress(ProblemDetails):  # no such graph: the order reports that
            graphs.append(service.graphs.get(chosen))
    return start_page(graphs, given, wrong, older, has_token=service.settings.token is not None)


def _typed(given: dict[str, str]) -> dict[str, Any]:
    """Returns the form's values, typed as in a request. Text that is no number, or too long for one, stays text."""
    found: dict[str, Any] = dict(given)
    for name, kind in (("graph", int), ("max_accuracy_drop", float)):
        if len(given.get(name, "")) in _LENGTHS:
            try:
                found[name] = kind(found[name])
            except ValueError:
                continue  # the order reports that
    if given.get("budget", "").isdecimal() and len(given["budget"]) in _LENGTHS:
        found["budget"] = int(given["budget"])
    return found


def _resume(form: Mapping[str, str]) -> ResumeOrder:
    """Returns the order of a form whose budget may be empty."""
    budget = form.get("budget", "").strip()[:200]
    try:
        return ResumeOrder(budget=int(parse_budget(budget)) if budget.isdecimal() else budget or None)
    except ValidationError as error:
        raise ProblemDetails(422, "usage", named_faults(error.errors())[0]) from error


def _done(service: Service, asked: str, study: int, form: Mapping[str, str]) -> str:
    """Runs the action of a button, and returns the page to show then."""
    if asked not in _ACTIONS:
        raise ProblemDetails(422, "usage", f"action must be one of {', '.join(_ACTIONS)}, got {asked[:50]!r}")
    following = _ACTIONS[asked](service, study, form)
    return following if isinstance(following, str) else f"/studies/{study}/page"


def _views(service: Service, job: Job, folder: JobFolder) -> dict[str, Any]:
    return study_files.views(folder, service.graphs.get(job.graph).source)


def _head(service: Service, job: Job, folder: JobFolder, wrong: str = "") -> dict[str, Any]:
    ahead = sum(other.id < job.id for other in service.jobs.waiting()) if job.status == "queued" else 0
    return study_head(job, folder, service.jobs.newest(JobFilter("training", study=job.id)), wrong, ahead)


def _study_page(service: Service, study: int, request: Request, wrong: str = "") -> str:
    job, folder = service.job("study", study)
    head = _head(service, job, folder, wrong)
    shown = {"path": f"/studies/{study}", "head": head, "has_token": service.settings.token is not None}
    # Without views it waits, compiles kernels, or has failed: the page has its head and its log.
    begun = study_files.has_begun(folder)
    views = _views(service, job, folder) if begun else {"title": head["name"], "waiting": True}
    bars = {"before": render("navigation.html", **shown), "actions": render("bar.html", **shown)}
    code = study_code(job, service.graphs.get(job.graph), address_of(request.scope), service.settings.token is not None)
    after = render("code.html", code=code) if begun else ""
    return study_html(views, live=f"/studies/{study}", head=head, after=after, **bars)


def _html(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status, {"Content-Security-Policy": POLICY})


def studies_page(
    studies: Sequence[Job], graphs: Mapping[int, str], next_page: int | None, has_token: bool = False
) -> str:
    """Returns the page that lists studies.

    Args:
        studies: The studies of this page, newest first.
        graphs: The names of their graphs, by number.
        next_page: The next page's studies have smaller numbers than this; None on the last page.
        has_token: Whether people log in.
    """
    return render(
        "studies.html",
        title="Studies",
        heads=("Study", "Status", "Graph", "Goal", "Trials", "Result"),
        rows=[{"id": one.id, "name": one.name, "cells": _cells(one, graphs.get(one.graph, ""))} for one in studies],
        following=next_page,
        has_token=has_token,
        again_s=_LIST_AGAIN_S if any(study.active for study in studies) else None,
    )


def start_page(
    graphs: Sequence[KnownGraph],
    given: Mapping[str, str],
    wrong: str = "",
    older: int | None = None,
    has_token: bool = False,
) -> str:
    """Returns the page with the form that starts a study.

    Args:
        graphs: The graphs to choose from.
        given: Values filled in before, by field. `find` is a part of the graphs' names.
        wrong: Error text about these values; "" at first.
        older: Further graphs have smaller numbers than this; None if there are no more.
        has_token: Whether people log in.
    """
    find = given.get("find", "")
    named = f' with "{find}" in the name' if find else ""
    found = f"Choose from {count(len(graphs), 'graph')}{named} below{', or from older graphs' if older else ''}."
    return render(
        "start.html",
        title="Start a study",
        wrong=wrong,
        given=given,
        find=find,
        found=found,
        older=urlencode({"find": find, "before": older}) if older else "",
        graphs=[("", "another graph"), *((str(graph.id), graph.name) for graph in graphs)],
        priorities=list(_PRIORITIES.items()),
        models=[(name, name) for name in MODELS],
        fields=_FIELDS,
        has_token=has_token,
    )


def _cells(study: Job, graph: str) -> list[str]:
    """Returns the texts of a study in the list, after its name."""
    shown, arguments = study.to_dict(), study.arguments
    since = (
        "" if study.started is None else f", {format_duration(max(0.0, (study.ended or time.time()) - study.started))}"
    )
    error = (study.error or {}).get("detail", "")
    so_far = error or shown.get("chosen") or shown.get("line", "")
    return [
        f"{shown['status']}{since if study.status != 'queued' else ''}",
        graph,
        f"{arguments['priority']}, {arguments['budget']}{' trials' if isinstance(arguments['budget'], int) else ''}",
        str(shown.get("trials", "")),
        str(so_far),
    ]
