"""Pages of several studies: the list, and a comparison."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from a3gnn.service.http.answers import PROBLEMS, Asked, answers, json_answer
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.schemas import CompareAnswer
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.pages.frame import page_answer, render
from a3gnn.service.pages.study_comparison import LEAST, as_json, compared, page_values
from a3gnn.service.pages.study_comparison import MOST as MOST_COMPARED
from a3gnn.service.pages.study_list import ON_A_PAGE, ORDERS, STATES, ListQuery, Order, State, listed, row_of
from a3gnn.service.service import Service
from a3gnn.service.studies.orders import MOST, Word

router = APIRouter(tags=["studies"], responses=PROBLEMS)
#: Seconds between two looks of the list at the server, while a study waits or runs and otherwise. Guesses.
_LOOK_S, _QUIET_S = 2, 10
#: Most pages of the list that an address may name.
_MOST_PAGE = 100_000
_ID = Annotated[int, Query(ge=1, le=MOST)]
Compare = Annotated[
    list[_ID],
    Query(
        min_length=LEAST,
        max_length=MOST_COMPARED,
        description="The number of a study; repeat it.",
        json_schema_extra={"uniqueItems": True},
    ),
]


@router.get("/", include_in_schema=False)
def list_page(
    service: Asked,
    find: Word = "",
    state: State = "",
    graph: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    sort: Order = "newest",
    page: Annotated[int, Query(ge=1, le=_MOST_PAGE)] = 1,
) -> Response:
    """Shows the studies."""
    asked = ListQuery(find.strip(), state, graph, sort, page)
    studies, total = listed(service.jobs, asked)
    names = service.graphs.names({study.graph for study in studies} | ({graph} if graph else set()))
    counts = {status: found for (kind, status), found in service.jobs.counts().items() if kind == "study"}
    rows = [row_of(study, names.get(study.graph, ""), service.home) for study in studies]
    last = max(1, -(-total // ON_A_PAGE))
    text = render(
        "studies.html",
        title="Studies",
        here="/",
        has_script=True,
        asked=asked,
        least=LEAST,
        most=MOST_COMPARED,
        rows=rows,
        total=total,
        all=sum(counts.values()),
        counts=counts,
        first=(page - 1) * ON_A_PAGE + 1,
        graph_name=names.get(graph or 0, ""),
        earlier=_address(asked, page=min(page - 1, last)) if page > 1 else "",
        later=_address(asked, page=page + 1) if page < last else "",
        sorted_by={order: _address(asked, sort=order, page=1) for order in ORDERS},
        without_graph=_address(asked, graph=None, page=1),
        orders=ORDERS,
        states=STATES,
        again_s=_LOOK_S if any(study.active for study in studies) else _QUIET_S,
        has_token=service.settings.has_token,
    )
    return page_answer(text)


def _address(asked: ListQuery, **changes: object) -> str:
    """Returns the address of the list after `changes` of its query."""
    fields = urlencode(asked.given(**changes))
    return f"/?{fields}" if fields else "/"


@router.get("/comparison", summary="Compare studies", responses=answers(CompareAnswer))
def compare_studies(service: Asked, study: Compare) -> Response:
    """Compares two to four studies, as `a3gnn compare --json` does: `/comparison?study=1&study=4`.

    A study that has not finished shows its best trial so far.
    """
    studies = _chosen(service, study)
    return json_answer(as_json(compared(studies), studies))


@router.get("/compare", include_in_schema=False)
def compare_page(service: Asked, study: Annotated[list[_ID] | None, Query(max_length=50)] = None) -> Response:
    """Shows two to four studies side by side."""
    studies = _chosen(service, study or [])
    names = service.graphs.names({job.graph for job, _ in studies})
    json_path = "/comparison?" + urlencode([("study", job.id) for job, _ in studies])
    values = page_values(compared(studies), studies, names)
    token = service.settings.has_token
    return page_answer(render("compare.html", title="Compare studies", json_path=json_path, has_token=token, **values))


def _chosen(service: Service, numbers: list[int]) -> list[tuple[Job, JobFolder]]:
    """Returns the studies of a comparison, each once.

    Raises:
        ProblemDetails: There are too few or too many, or one does not exist.
    """
    distinct = list(dict.fromkeys(numbers))
    if not LEAST <= len(distinct) <= MOST_COMPARED:
        raise ProblemDetails(
            422,
            "usage",
            f"a comparison must have {LEAST} to {MOST_COMPARED} different studies, got {len(distinct)}; choose them in "
            "the list",
        )
    return [service.job("study", number) for number in distinct]
