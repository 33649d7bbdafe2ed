"""Pages for browsers: the studies, one study live, and the form that starts one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from a3gnn.errors import A3GNNError
from a3gnn.page.html import MEDIA_TYPES, static_file, study_html
from a3gnn.service import study_files
from a3gnn.service.answers import PROBLEMS, Asked, Number, form_of, json_answer
from a3gnn.service.home import JobFolder
from a3gnn.service.job import Job
from a3gnn.service.jobs import JobFilter
from a3gnn.service.list_pages import start_page, studies_page, study_bar, waiting_page
from a3gnn.service.orders import MOST, StudyOrder, Word
from a3gnn.service.problems import ProblemDetails, not_found
from a3gnn.service.routers.studies import add_training, resume_study, start
from a3gnn.service.service import Service

router = APIRouter(tags=["pages"], responses=PROBLEMS)

#: A page may run this server's scripts and send requests to this server only.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_ON_A_PAGE = 50
#: Graphs that the form lists on one page.
_GRAPHS_IN_FORM = 200
#: Lengths of a number in the form. All valid numbers are shorter; Python parses up to 4,300 digits.
_LENGTHS = range(1, 201)
#: The actions of the buttons above a study's page.
_ACTIONS: dict[str, Callable[[Service, int], object]] = {
    "stop": lambda service, study: service.stop("study", study),
    "resume": lambda service, study: resume_study(service, study),
    "train": lambda service, study: add_training(service, study),
    "delete": lambda service, study: service.delete("study", study),
}
#: Seconds for which a browser caches scripts and styles.
_KEPT_S = 3600


@router.get("/studies/{study}/views", summary="Show what there is to see of a study")
def get_views(service: Asked, study: Number) -> Response:
    """Gives everything that the page of a study shows, as JSON (docs/reference/study_views.md)."""
    return json_answer(_views(service, *service.job("study", study)))


@router.get("/studies/{study}/page", summary="Show a study in a browser", response_class=HTMLResponse)
def get_page(service: Asked, study: Number) -> Response:
    """Gives the page of a study, which keeps itself up to date."""
    return _html(_study_page(service, study))


@router.post("/studies/{study}/page", include_in_schema=False)
async def act(service: Asked, request: Request, study: Number) -> Response:
    """Does what a button above the page says, and shows the page again."""
    asked = (await form_of(request, 4)).get("action", "")
    try:
        await to_thread.run_sync(_done, service, asked, study)
    except ProblemDetails as problem:
        wrong = problem.detail
        return _html(await to_thread.run_sync(_study_page, service, study, wrong), problem.status)
    return RedirectResponse("/" if asked == "delete" else f"/studies/{study}/page", 303)


@router.get("/studies/{study}/tuned.html", summary="Take away the page", response_class=HTMLResponse)
def get_report(service: Asked, study: Number) -> Response:
    """Gives the page of a study as it is now, as one file that needs nothing else: what `a3gnn report` writes."""
    shown = {"Content-Disposition": f'attachment; filename="study-{study}.html"'}
    return HTMLResponse(study_html(_views(service, *service.job("study", study))), headers=shown)


@router.get("/static/{name}", include_in_schema=False)
def get_static(name: str) -> Response:
    """Gives a script or a style of the pages."""
    if name not in MEDIA_TYPES:
        raise not_found("static file", name)
    headers = {"Cache-Control": f"max-age={_KEPT_S}"}
    return Response(static_file(name), media_type=MEDIA_TYPES[name], headers=headers)


@router.get("/", include_in_schema=False)
def list_page(service: Asked, before: Annotated[int | None, Query(ge=1, le=MOST)] = None) -> Response:
    """Shows the studies."""
    studies = service.jobs.newest(JobFilter("study", before=before, limit=_ON_A_PAGE))
    names = service.graphs.names({study.graph for study in studies})
    return _html(studies_page(studies, names, studies[-1].id if len(studies) == _ON_A_PAGE else None))


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
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    except (A3GNNError, ProblemDetails) as error:
        wrong = str(error)
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
    return start_page(graphs, given, wrong, older)


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


def _done(service: Service, asked: str, study: int) -> None:
    """Runs the action of a button."""
    if asked not in _ACTIONS:
        raise ProblemDetails(422, "usage", f"action must be one of {', '.join(_ACTIONS)}, got {asked[:50]!r}")
    _ACTIONS[asked](service, study)


def _views(service: Service, job: Job, folder: JobFolder) -> dict[str, Any]:
    return study_files.views(folder, service.graphs.get(job.graph).source)


def _study_page(service: Service, study: int, wrong: str = "") -> str:
    job, folder = service.job("study", study)
    trainings = service.jobs.newest(JobFilter("training", study=study))
    bar = study_bar(job, trainings, (folder.run / "tuned.json").exists(), wrong)
    if not study_files.has_begun(folder):
        return waiting_page(job, bar)
    return study_html(_views(service, job, folder), live=f"/studies/{study}", before=bar)


def _html(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY})
