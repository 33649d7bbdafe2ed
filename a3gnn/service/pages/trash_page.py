"""The page of deleted studies and trainings."""

from __future__ import annotations

import time
from typing import Annotated, get_args

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from a3gnn.service.http.answers import PROBLEMS, Asked, form_of
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs.database import MOST, number_in
from a3gnn.service.jobs.job import Job, JobKind
from a3gnn.service.jobs.jobs import MOST_ON_A_PAGE, TRASH_S, JobFilter
from a3gnn.service.pages.frame import page
from a3gnn.service.service import Service
from a3gnn.service.studies.orders import Word
from a3gnn.units import count, format_duration

router = APIRouter(tags=["pages"], responses=PROBLEMS)


@router.get("/trash", include_in_schema=False)
def trash_page(service: Asked, kind: Word = "", number: Annotated[int | None, Query(ge=1, le=MOST)] = None) -> Response:
    """Shows the trash, and above it the job that was just deleted."""
    found = [
        job
        for one in get_args(JobKind)
        for job in service.jobs.newest(JobFilter(one, limit=MOST_ON_A_PAGE, deleted=True))
    ]
    found.sort(key=lambda job: -(job.deleted or 0.0))
    undone = next((job for job in found if (job.kind, job.id) == (kind, number)), None)
    rows = [{"kind": job.kind, "id": job.id, "name": job.name, "said": _said(job)} for job in found if job != undone]
    return page(service, "trash.html", title="Trash", rows=rows, undone=undone, days=round(TRASH_S / 86_400))


@router.post("/trash", include_in_schema=False)
async def act(service: Asked, request: Request) -> Response:
    """Restores a job and shows it, or asks whether to remove it, or removes it."""
    form = await form_of(request, 4)
    kind, number = _job(form.get("kind", ""), form.get("number", ""))
    if form.get("action") == "restore":
        await to_thread.run_sync(service.trash.restore, kind, number)
        return RedirectResponse(f"/{'studies' if kind == 'study' else 'trainings'}/{number}/page", 303)
    if form.get("action") != "remove":
        raise ProblemDetails(422, "usage", "action must be restore or remove")
    if form.get("sure") != "yes":
        return await to_thread.run_sync(_asking, service, kind, number)
    await to_thread.run_sync(service.trash.remove, kind, number)
    return RedirectResponse("/trash", 303)


def _asking(service: Service, kind: JobKind, number: int) -> Response:
    job = service.jobs.get(number, kind, deleted=True)
    trials = job.to_dict().get("trials")
    measured = f" and its {count(trials, 'trial')}" if trials else ""
    title = f"Delete {job.name} ({kind} {number}) for good?"
    return page(service, "delete.html", title=title, kind=kind, id=number, measured=measured)


def _job(kind: str, number: str) -> tuple[JobKind, int]:
    found = number_in(number)
    if kind not in get_args(JobKind) or found is None:
        raise ProblemDetails(422, "usage", "kind must be study or training, and number that of a job in the trash")
    return ("study" if kind == "study" else "training"), found


def _said(job: Job) -> str:
    left = max(0.0, (job.deleted or 0.0) + TRASH_S - time.time())
    return f"deleted {format_duration(max(0.0, time.time() - (job.deleted or 0.0)))} ago, {format_duration(left)} left"
