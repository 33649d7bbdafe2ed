"""The measurements that predictions rest on, and their machines."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from a3gnn.service.http.answers import (
    PROBLEMS,
    AddedAnswer,
    Asked,
    MachinesAnswer,
    ProfilesAnswer,
    answers,
    json_answer,
)
from a3gnn.service.http.routes.graphs import in_threads, write_bounded

router = APIRouter(tags=["measurements"], responses=PROBLEMS)


@router.get("/profiles", summary="Count measurements", responses=answers(ProfilesAnswer))
def list_profiles(service: Asked) -> Response:
    """Counts measurements by graph, model and machine."""
    return json_answer({"profiles": service.profiles.held(), "rows": service.profiles.count()})


@router.post(
    "/profiles",
    summary="Add measurements of other machines",
    responses=answers(AddedAnswer),
    openapi_extra={
        "requestBody": {"required": False, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}
    },
)
async def add_profiles(service: Asked, request: Request) -> Response:
    """Adds the lines of a file that `a3gnn profiles export` wrote, all or none."""
    async with in_threads(service.graphs.place_for_upload("profiles")) as place:
        file = place.with_suffix(".jsonl")
        await write_bounded(file, request.stream(), service.graphs.room)
        return json_answer(await to_thread.run_sync(service.profiles.add, file))


@router.get("/machines", summary="List machines with measurements", responses=answers(MachinesAnswer))
def list_machines(service: Asked) -> Response:
    """Lists machines with the figures of their probes."""
    return json_answer({"machines": service.profiles.machines()})
