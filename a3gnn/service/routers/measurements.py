"""The measurements that predictions rest on, and their machines."""

from __future__ import annotations

import shutil

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from a3gnn.errors import StoreError
from a3gnn.service.answers import PROBLEMS, Asked, json_answer
from a3gnn.service.problems import ProblemDetails
from a3gnn.service.routers.graphs import write_bounded

router = APIRouter(tags=["measurements"], responses=PROBLEMS)

#: Most bytes of measurements in one request. Guess: a row takes some 5 KB.
_MOST_BYTES = 64 << 20


@router.get("/profiles", summary="Count measurements")
def list_profiles(service: Asked) -> Response:
    """Counts measurements by graph, model and machine."""
    return json_answer({"profiles": service.profiles.held(), "rows": service.profiles.count()})


@router.post(
    "/profiles",
    summary="Add measurements of other machines",
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}
    },
)
async def add_profiles(service: Asked, request: Request) -> Response:
    """Adds the lines of a file that `a3gnn profiles export` wrote, all or none."""
    place = service.graphs.place_for_upload("profiles").with_suffix(".jsonl")
    try:
        await write_bounded(place, request.stream(), _MOST_BYTES)
        added, rows = await to_thread.run_sync(service.profiles.add, place)
    except StoreError as error:
        raise ProblemDetails(422, "rows", str(error).replace(f" {place}", "")) from error
    finally:
        shutil.rmtree(place.parent, ignore_errors=True)
    return json_answer({"added": added, "rows": rows})


@router.get("/machines", summary="List machines with measurements")
def list_machines(service: Asked) -> Response:
    """Lists machines with the figures of their probes."""
    return json_answer({"machines": service.profiles.machines()})
