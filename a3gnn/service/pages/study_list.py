"""The page with the list of studies: which studies it has, in which order, and what each row shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode

import sqlalchemy as sa
from fastapi import APIRouter, Query, Response

from a3gnn.errors import UsageError
from a3gnn.notify import PATIENCE_S
from a3gnn.objectives import Priority
from a3gnn.service.http.answers import PROBLEMS, Asked
from a3gnn.service.jobs.database import JOBS, MOST
from a3gnn.service.jobs.home import Home
from a3gnn.service.jobs.job import ACTIVE, Job
from a3gnn.service.jobs.jobs import ON_A_PAGE, JobFilter, Jobs
from a3gnn.service.pages.frame import page as answer_page
from a3gnn.service.pages.study_head import used_budget
from a3gnn.service.studies.orders import Word
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.units import count, format_duration

router = APIRouter(tags=["studies"], responses=PROBLEMS)
#: Fewest and most studies of a comparison: more do not fit side by side.
LEAST_COMPARED, MOST_COMPARED = 2, 4
Order = Literal["newest", "oldest", "name", "gain", "longest"]
State = Literal["", "active", "finished", "stopped", "failed"]
#: The newest matching studies that are sorted by gain, which only their summaries have. Guess.
_SORTED = 2000
#: Seconds between two looks of the list at the server, while a study waits or runs; without one it is `PATIENCE_S`.
_LOOK_S = 2
#: Most pages of the list that an address may name.
_MOST_PAGE = 100_000
#: The words of the list for each order and each state.
ORDERS: dict[Order, str] = {
    "newest": "newest first",
    "oldest": "oldest first",
    "name": "by name",
    "gain": "largest gain first",
    "longest": "longest first",
}
STATES: dict[State, str] = {
    "": "all",
    "active": "waiting or running",
    "finished": "finished",
    "stopped": "stopped",
    "failed": "failed",
}
assert tuple(ORDERS) == get_args(Order)
_SQL_ORDERS: dict[str, tuple[sa.ColumnElement[Any], ...]] = {
    "newest": (JOBS.c.id.desc(),),
    "oldest": (JOBS.c.id.asc(),),
    "name": (sa.func.lower(JOBS.c.name), JOBS.c.id.desc()),
    "longest": (
        (sa.func.coalesce(JOBS.c.ended, sa.literal(1e12)) - JOBS.c.started).desc().nulls_last(),
        JOBS.c.id.desc(),
    ),
}


class ListQuery(NamedTuple):
    """What the list shows."""

    find: str = ""  # part of the name of a study or of its graph, or a study's number; "" for all
    state: State = ""  # studies in this state; "" for all
    graph: int | None = None  # studies of the graph with this number; None for all
    sort: Order = "newest"
    page: int = 1  # the page, from 1

    def given(self, **changes: Any) -> dict[str, Any]:
        """Returns the fields that differ from their defaults, after `changes`, as in the page's address."""
        fields = self._replace(**changes)._asdict()
        return {name: value for name, value in fields.items() if value != self._field_defaults[name]}


class Gain(NamedTuple):
    """What a study gains over the baseline, by its priority.

    Attributes:
        size: The natural logarithm of the ratio, or points of accuracy over 100, to sort by.
        words: The same as text.
        is_sure: Whether the gain is measurable.
    """

    size: float
    words: str
    is_sure: bool

    @classmethod
    def of(cls, study: Job) -> Gain | None:
        """Returns the gain of `study`; None before it has chosen, or without a comparison."""
        if study.summary.get("no_gain"):
            return cls(0.0, "no measurable gain", False)
        against = study.summary.get("against_default")
        if not against:
            return None
        try:
            found = Comparison.from_dict(against)
            return cls._of(found, Priority.parse(study.arguments["priority"]))
        except (TypeError, KeyError, UsageError):  # from an older version
            return None

    @classmethod
    def _of(cls, found: Comparison, priority: Priority) -> Gain | None:
        sure = bool(found.better_by(priority))
        if priority.name == "memory":
            return cls(-math.log(found.memory), f"{found.memory:.3g}x the memory", sure)
        if priority.name == "accuracy" and found.accuracy is not None:
            points = found.accuracy
            return cls(points.median / 100, points.describe("+.1f", " points"), sure)
        speed = found.time_again if priority.time else found.throughput_again
        if speed is None or speed.median <= 0:
            return None
        words = found.sooner(".3g") if priority.time else speed.describe(".3g", "x faster")
        return cls(math.log(speed.median), words, sure)


def listed(jobs: Jobs, asked: ListQuery) -> tuple[list[Job], int]:
    """Returns the studies of a page, and the number of studies that match in all."""
    statuses = ACTIVE if asked.state == "active" else (asked.state,) if asked.state else ()
    wanted = JobFilter("study", statuses, asked.graph, words=asked.find)
    skipped = (asked.page - 1) * ON_A_PAGE
    if asked.sort != "gain":
        return jobs.sorted(wanted, _SQL_ORDERS[asked.sort], skipped)
    newest = JobFilter("study", statuses, asked.graph, words=asked.find, limit=_SORTED)
    found, total = jobs.sorted(newest, _SQL_ORDERS["newest"])
    found.sort(key=lambda study: math.inf if (gain := Gain.of(study)) is None else -gain.size)
    return found[skipped : skipped + ON_A_PAGE], total


def row_of(study: Job, graph: str, home: Home) -> dict[str, Any]:
    """Returns what the list shows of a study, as texts by name, with the used share of its budget."""
    shown, arguments = study.to_dict(), study.arguments
    used, words = None, count(int(shown["trials"]), "trial") if shown.get("trials") else ""
    if study.status == "running" and study.home == home.id:
        used, words = used_budget(study, home.of(study))
    elif study.started is not None and study.ended is not None:
        words += f"{' in ' if words else ''}{format_duration(max(0.0, study.ended - study.started))}"
    budget = arguments["budget"]
    return {
        "id": study.id,
        "name": study.name,
        "state": str(shown["status"]),
        "goal": f"{arguments['priority']}, {budget}{' trials' if isinstance(budget, int) else ''}",
        "graph": graph,
        "graph_id": study.graph,
        "used": used,
        "progress": words,
        "gain": Gain.of(study),
        "when": when(study.started or study.created),
        "result": str((study.error or {}).get("detail", "") or shown.get("chosen") or shown.get("line", "")),
        "is_failure": study.error is not None,
    }


def when(seconds: float) -> Mapping[str, str]:
    """Returns a time since 1970 for machines, and for people in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return {"machine": moment.isoformat(timespec="seconds"), "people": moment.strftime("%Y-%m-%d %H:%M UTC")}


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
    return answer_page(
        service,
        "studies.html",
        title="Studies",
        asked=asked,
        least=LEAST_COMPARED,
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
        again_s=_LOOK_S if any(study.active for study in studies) else int(PATIENCE_S),
    )


def _address(asked: ListQuery, **changes: object) -> str:
    """Returns the address of the list after `changes` of its query."""
    fields = urlencode(asked.given(**changes))
    return f"/?{fields}" if fields else "/"
