"""Graphs: registered by path or recipe, or uploaded; examined on arrival."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Annotated

from anyio import CancelScope, open_file, to_thread
from fastapi import APIRouter, Query, Request, Response

from a3gnn.notify import LOOK_S
from a3gnn.service.http.answers import PROBLEMS, Asked, GraphAnswer, GraphsAnswer, Number, answers, json_answer
from a3gnn.service.http.problems import NO_ROOM, ProblemDetails, no_room
from a3gnn.service.jobs.database import MOST
from a3gnn.service.jobs.jobs import MOST_ON_A_PAGE, ON_A_PAGE
from a3gnn.service.studies.orders import GraphOrder, Word

router = APIRouter(prefix="/graphs", tags=["graphs"], responses=PROBLEMS)


@router.get("", summary="List graphs, newest first", responses=answers(GraphsAnswer))
def list_graphs(
    service: Asked,
    before: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = ON_A_PAGE,
    called: Annotated[Word, Query(description="Part of the name.")] = "",
) -> Response:
    """Lists graphs; `before` is the last number of the previous page."""
    return json_answer({"graphs": [graph.to_dict() for graph in service.graphs.newest(before, limit, called)]})


@router.post(
    "",
    status_code=201,
    summary="Register a graph below the data root, or a synthetic one",
    responses=answers(GraphAnswer, 201),
)
def add_graph(service: Asked, order: GraphOrder) -> Response:
    """Registers a graph, which is validated and converted once. A known graph is returned unchanged."""
    graph = service.graphs.register(order.dataset, order.name)
    return json_answer(graph.to_dict(), 201, {"Location": f"/graphs/{graph.id}"})


@router.post(
    "/upload",
    status_code=201,
    summary="Upload an .npz file",
    responses=answers(GraphAnswer, 201),
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}
    },
)
async def upload_graph(
    service: Asked, request: Request, name: Annotated[Word, Query(description="Name of the graph.")] = "upload"
) -> Response:
    """Streams an .npz file from the request's body to disk, validates it, and converts it once."""
    async with in_threads(service.graphs.place_for_upload(name)) as place:
        await write_bounded(place, request.stream(), service.graphs.room)
        graph = await to_thread.run_sync(service.graphs.adopt, place, name)
    return json_answer(graph.to_dict(), 201, {"Location": f"/graphs/{graph.id}"})


@router.get("/{graph:int}", summary="Describe a graph", responses=answers(GraphAnswer))
def get_graph(service: Asked, graph: Number) -> Response:
    """Describes a graph."""
    return json_answer(service.graphs.get(graph).to_dict())


@router.delete("/{graph:int}", status_code=204, summary="Remove a graph")
def delete_graph(service: Asked, graph: Number) -> Response:
    """Removes a graph that no study uses, and its uploaded files."""
    service.graphs.delete(graph)
    return Response(status_code=204)


@asynccontextmanager
async def in_threads(context: AbstractContextManager[Path]) -> AsyncIterator[Path]:
    """Enters and leaves `context` in threads, because to remove a large file takes a while."""
    stack = ExitStack()
    try:
        yield await to_thread.run_sync(stack.enter_context, context)
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(stack.close)


async def write_bounded(path: Path, pieces: AsyncIterator[bytes], room: Callable[[], int]) -> None:
    """Writes a request's body to the file at `path`.

    Args:
        path: The file.
        pieces: The body.
        room: Returns how many more bytes all uploads may have, or raises an error if none. Called in a thread.

    Raises:
        ProblemDetails: There is no room for it.
    """
    await to_thread.run_sync(room)
    due = monotonic() + LOOK_S
    try:
        async with await open_file(path, "wb") as file:
            async for piece in pieces:
                await file.write(piece)
                if monotonic() > due:
                    await to_thread.run_sync(room)
                    due = monotonic() + LOOK_S
    except OSError as error:
        if error.errno in NO_ROOM:
            raise no_room("the upload") from error
        raise ProblemDetails(
            507, "no-room", f"the upload can't be stored: {error.strerror}; ask the server's operator to correct that"
        ) from error
