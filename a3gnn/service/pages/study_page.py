"""Pages for browsers: the studies, one study live, and the form that starts one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from a3gnn.page.html import MEDIA_TYPES, static_file, study_html
from a3gnn.service.http.answers import OBJECT, PROBLEMS, Asked, Number, act_by_form, json_answer
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.routes.studies import add_training, resume_study, retry_study
from a3gnn.service.http.security import address_of
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.jobs.jobs import JobFilter
from a3gnn.service.pages.code import study_code
from a3gnn.service.pages.frame import for_people, page_answer, render
from a3gnn.service.pages.study_head import study_head
from a3gnn.service.service import Service
from a3gnn.service.studies import study_files
from a3gnn.service.studies.orders import ResumeOrder, named_faults
from a3gnn.units import parse_budget

router = APIRouter(tags=["pages"], responses=PROBLEMS)
#: The actions of the buttons above a study's page, each with the number of the study and the fields of its form.
_ACTIONS: dict[str, Callable[[Service, int, Mapping[str, str]], object]] = {
    "stop": lambda service, study, form: service.stop("study", study),
    "resume": lambda service, study, form: resume_study(service, study, _resume(form)),
    "retry": lambda service, study, form: retry_study(service, study),
    # The same form again, as by a double click, starts no other training.
    "train": lambda service, study, form: (
        add_training(service, study, None, form.get("idempotency-key", "")).headers["location"] + "/page"
    ),
    "delete": lambda service, study, form: (service.trash.put("study", study), f"/trash?kind=study&number={study}")[1],
}


@router.get("/studies/{study}/views", summary="Show the content of a study's page", responses=OBJECT)
def get_views(service: Asked, study: Number) -> Response:
    """Returns the content of a study's page as JSON (docs/reference/study_views.md)."""
    return json_answer(_views(service, *service.job("study", study)))


@router.get("/studies/{study}/page", summary="Show a study in a browser", response_class=HTMLResponse)
def get_page(service: Asked, study: Number, request: Request) -> Response:
    """Returns the page of a study, which updates itself."""
    return page_answer(_study_page(service, study, request))


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

    def wrong(problem: ProblemDetails, form: Mapping[str, str]) -> Response:
        return page_answer(_study_page(service, study, request, for_people(problem.detail)), problem.status)

    return await act_by_form(request, study, _ACTIONS, wrong)


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
    headers = {"Cache-Control": "no-cache"}  # browsers ask by its tag whether it has changed, such as by an upgrade
    return Response(static_file(name), media_type=MEDIA_TYPES[name], headers=headers)


def _resume(form: Mapping[str, str]) -> ResumeOrder:
    """Returns the order of a form whose budget may be empty."""
    budget = form.get("budget", "").strip()[:200]
    try:
        return ResumeOrder(budget=int(parse_budget(budget)) if budget.isdecimal() else budget or None)
    except ValidationError as error:
        raise ProblemDetails(422, "usage", named_faults(error.errors())[0]) from error


def _key_of_page(service: Service, study: int) -> str:
    """Returns the key of a study's page, another one for each training that there is, be it in the trash."""
    queries = (JobFilter("training", study=study, limit=1, deleted=deleted) for deleted in (False, True))
    newest = max((one.id for query in queries for one in service.jobs.newest(query)), default=0)
    return f"training of study {study} after {newest}"


def _views(service: Service, job: Job, folder: JobFolder) -> dict[str, Any]:
    return study_files.views(folder, service.graphs.get(job.graph).source)


def _head(service: Service, job: Job, folder: JobFolder, wrong: str = "") -> dict[str, Any]:
    ahead = service.jobs.ahead(job) if job.status == "queued" else 0
    return study_head(job, folder, service.jobs.newest(JobFilter("training", study=job.id)), wrong, ahead)


def _study_page(service: Service, study: int, request: Request, wrong: str = "") -> str:
    job, folder = service.job("study", study)
    head = _head(service, job, folder, wrong)
    shown = {"path": f"/studies/{study}", "head": head, "has_token": service.settings.has_token}
    shown["key"] = _key_of_page(service, study)
    # Without views it waits, compiles kernels, or has failed: the page has its head and its log.
    begun = study_files.has_begun(folder)
    graph = service.graphs.get(job.graph)
    views = study_files.views(folder, graph.source) if begun else {"title": head["name"], "waiting": True}
    bars = {"before": render("navigation.html", **shown), "actions": render("bar.html", **shown)}
    code = study_code(job, graph, address_of(request.scope), service.settings.has_token)
    bars["after"] = render("code.html", code=code)
    return study_html(views, live=f"/studies/{study}", head=head, **bars)
