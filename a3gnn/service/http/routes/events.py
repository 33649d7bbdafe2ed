"""Events of a study or a training, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, aclosing
from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from a3gnn.service.http.answers import PROBLEMS, Asked, Number
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.security import SESSION
from a3gnn.service.jobs.job import JobKind
from a3gnn.service.service import Service

router = APIRouter(responses=PROBLEMS)
LastId = Annotated[str, Header(alias="Last-Event-ID", description="The id of the last event that was read.")]
After = Annotated[int, Query(ge=0, lt=10**18, description="As Last-Event-ID, for readers that can't set a header.")]

#: The schema of an event; its data is a JSON object as text.
_EVENT = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "enum": ["line", "trial", "phase", "status"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": _EVENT}}},
    204: {"description": "No more events follow."},
}


@router.get(
    "/studies/{study}/events",
    tags=["studies"],
    summary="Follow a study",
    responses=_STREAM,
    response_class=StreamingResponse,
)
async def follow_study(
    service: Asked, request: Request, study: Number, last_event_id: LastId = "", after: After = 0
) -> Response:
    """Sends every event of a study, from the first or from `Last-Event-ID` on, until it ends.

    The events are line, trial, phase and status.
    """
    return await _follow(service, request, "study", study, last_event_id or str(after))


@router.get(
    "/trainings/{training}/events",
    tags=["trainings"],
    summary="Follow a training",
    responses=_STREAM,
    response_class=StreamingResponse,
)
async def follow_training(
    service: Asked, request: Request, training: Number, last_event_id: LastId = "", after: After = 0
) -> Response:
    """Sends every event of a training, as for a study."""
    return await _follow(service, request, "training", training, last_event_id or str(after))


async def _follow(service: Service, request: Request, kind: JobKind, number: int, last: str) -> Response:
    secret, sessions = request.scope.get(SESSION), service.sessions

    async def may_read() -> bool:
        return secret is None or sessions.is_fresh(secret) or await to_thread.run_sync(sessions.holds, secret)

    if not (last.isascii() and last.isdecimal() and len(last) < 19):
        raise ProblemDetails(422, "usage", f"Last-Event-ID must be the id of an event, got {last[:50]!r}")
    with ExitStack() as given_up:
        given_up.enter_context(service.streams.reader())  # before the database is asked: many may come at once
        job, folder = await to_thread.run_sync(service.job, kind, number)
        place, log = int(last), folder.events
        if place and place >= log.size and not job.active:
            return Response(status_code=204)
        events = service.streams.follow(log, place, lambda: service.jobs.get(number, kind).active, may_read)
        return _Stream(events, given_up.pop_all())


class _Stream(StreamingResponse):
    """A stream that is closed at once when its reader leaves, and not when memory is next cleaned."""

    def __init__(self, events: AsyncIterator[bytes], stack: ExitStack) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream, or only its head."""
        with self._stack:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Sends the stream."""
        async with aclosing(cast(AsyncGenerator[bytes, None], self.body_iterator)):
            await super().stream_response(send)
