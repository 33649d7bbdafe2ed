"""Errors as users see them: problem+json (RFC 9457), with the rule, the value and the remedy; and whose turn it is."""

from __future__ import annotations

import errno
import http
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from a3gnn import errors
from a3gnn.addresses import without_password

MEDIA_TYPE = "application/problem+json"
#: The status of an answer that nobody reads, because the client has left; nginx's.
LEFT = 499
#: Seconds after which a client is told to ask a busy server again, as in `a3gnn.service.http.sessions`.
_AGAIN_S = 5

#: Errors of a disk, or of a user's share of it, that is full.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

#: The HTTP status for each `A3GNNError.code`, which is the kind in the problem's type.
_STATUSES = {
    "graph": 422,
    "usage": 422,
    "infeasible": 409,
    "memory-limit": 409,
    "missing-package": 501,
    "device": 409,
    "store": 503,
    "failed": 500,
}


class ProblemDetails(Exception):  # noqa: N818 - the name that RFC 9457 gives it
    """An error answer.

    Attributes:
        status: The HTTP status.
        kind: The kind of error, in a word; the JSON type is `urn:a3gnn:` plus this.
        detail: The rule, the value and the remedy.
        more: Further members of the JSON object.
        headers: Headers of the answer beside its media type; None if there are none.
    """

    headers: Mapping[str, str] | None = None

    def __init__(self, status: int, kind: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.more = status, kind, detail, more

    @classmethod
    def of(cls, error: Exception) -> ProblemDetails:
        """Returns `error` as users see it. An error that a3gnn did not raise on purpose shows no details."""
        if isinstance(error, cls):
            return error
        if isinstance(error, errors.A3GNNError):
            smallest = getattr(error, "smallest_limit_bytes", None)
            more = {} if smallest is None else {"smallest_limit_bytes": smallest}
            return cls(_STATUSES[error.code], error.code, without_password(str(error)), **more)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            return no_room("the server's files")
        return cls(500, "internal", "the server failed at this request; its log has the details")

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ProblemDetails:
        """Returns the problem of `to_dict`."""
        more = {name: value for name, value in fields.items() if name not in ("type", "title", "status", "detail")}
        return cls(fields["status"], str(fields["type"]).rpartition(":")[2], fields["detail"], **more)

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON types."""
        title = http.HTTPStatus(self.status).phrase
        return {
            "type": f"urn:a3gnn:{self.kind}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def not_found(what: str, number: object) -> ProblemDetails:
    """Returns the problem for an object that does not exist."""
    plural = {"study": "studies"}.get(what, f"{what}s")
    return ProblemDetails(404, "not-found", f"{what} {number} does not exist; GET /{plural} lists the {plural}")


def in_trash(what: str, number: int) -> ProblemDetails:
    """Returns the problem for a job that was deleted and can be restored."""
    plural = {"study": "studies"}.get(what, f"{what}s")
    return ProblemDetails(
        404, "not-found", f"{what} {number} is in the trash; POST /{plural}/{number}/restore takes it out"
    )


def conflict(detail: str) -> ProblemDetails:
    """Returns the problem for an action that is not possible now."""
    return ProblemDetails(409, "conflict", detail)


def too_many(detail: str) -> ProblemDetails:
    """Returns the problem for a limit that is reached."""
    return ProblemDetails(429, "too-many", f"{detail}; wait until one has ended, or stop one")


def busy(detail: str) -> ProblemDetails:
    """Returns the problem for work that too many requests wait for."""
    problem = ProblemDetails(429, "too-many", f"{detail}; ask again in {_AGAIN_S} seconds, as in Retry-After")
    problem.headers = {"Retry-After": str(_AGAIN_S)}
    return problem


def leaving() -> ProblemDetails:
    """Returns the problem for a request that the end of the server cuts short."""
    problem = ProblemDetails(503, "ending", "the server is ending; ask again once it has been started again")
    problem.headers = {"Retry-After": str(_AGAIN_S)}
    return problem


def no_room(what: str) -> ProblemDetails:
    """Returns the problem for a full disk; `what` needs room there."""
    return ProblemDetails(
        507,
        "no-room",
        f"the disk has no room left for {what}, so nothing was changed; free space on the server's disk, or remove "
        "studies and graphs for good that are no longer needed",
    )


class Turns:
    """Runs at most `at_once` requests; `waiting` more may wait, and all others are refused.

    A waiting request holds one of the server's 40 threads. The three kinds of work together leave half of them.

    Args:
        what: The work, for the message, such as "look at graphs".
        at_once: Most requests that do the work.
        waiting: Most requests that wait.
    """

    def __init__(self, what: str, at_once: int = 1, waiting: int = 6) -> None:
        self._what, self._at_once, self._waiting = what, at_once, waiting
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._turns = threading.BoundedSemaphore(at_once)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Waits for a turn, which lasts as long as the context.

        Raises:
            ProblemDetails: Too many requests wait already.
        """
        if not self._places.acquire(blocking=False):
            raise busy(
                f"the server takes at most {self._at_once + self._waiting} requests at a time to {self._what}, of "
                f"which {self._waiting} wait"
            )
        try:
            with self._turns:
                yield
        finally:
            self._places.release()
