"""`Job`: a study or a training in the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

JobKind = Literal["study", "training"]
#: queued: waits for its turn, or to continue. running. finished: ended by itself. stopped: ended on request, with the
#: best so far if anything was measured. failed: `error` says why.
Status = Literal["queued", "running", "finished", "stopped", "failed"]
#: The argument of a study in the queue whose failed trials are to be forgotten. Its process does not get it.
RETRY = "retry"
#: Fields that users see as the database has them.
_SHOWN = ("id", "kind", "name", "graph", "study", "created", "started", "ended", "deleted")
#: Statuses that a job leaves by itself.
ACTIVE: tuple[Status, ...] = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the queue."""

    id: int  # its number, never reused
    kind: JobKind  # study or training
    name: str  # a name for people
    graph: int
    study: int | None  # for a training, the number of the study whose choice it trains
    arguments: Mapping[str, Any]  # arguments of `tune` or `train`, as JSON types
    status: Status  # where it is in its life; see `Status`
    stop_asked: bool  # whether it was asked to stop and has not stopped yet
    home: str | None  # the home folder that its files are in or must be in; None if any server may begin it
    created: float  # time of the request, in seconds since 1970
    started: float | None  # time when it last began; None before
    ended: float | None  # time when it last ended; None before
    error: Mapping[str, Any] | None  # the problem that made it fail (`a3gnn.service.http.problems`); None if it did not
    summary: Mapping[str, Any]  # its last line and, for a study, the number of trials
    deleted: float | None = None  # time when it went to the trash; None if it is not there

    @property
    def active(self) -> bool:
        """Whether it waits or runs."""
        return self.status in ACTIVE

    @property
    def is_told(self) -> bool:
        """Whether the client runs its trials, and reports their figures."""
        return self.arguments.get("trainer") == "client"

    @classmethod
    def of_row(cls, row: RowMapping) -> Self:
        """Returns the job of a row of the table."""
        parsed = {
            name: None if row[name] is None else json.loads(row[name]) for name in ("arguments", "error", "summary")
        }
        return cls(**{**{name: row[name] for name in cls.__dataclass_fields__}, **parsed})

    @staticmethod
    def json_of_row(row: RowMapping) -> str:
        """Returns `to_dict` of a row's job as JSON, ten times as fast, because the row contains most of that JSON."""
        own = {name: row[name] for name in _SHOWN}
        own["status"] = _shown(row["status"], row["stop_asked"])
        summary = row["summary"][1:-1]
        texts = f'"arguments": {row["arguments"]}, "error": {row["error"] or "null"}{", " if summary else ""}{summary}'
        return f"{json.dumps(own)[:-1]}, {texts}}}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields that users see, as JSON types."""
        fields = {name: getattr(self, name) for name in (*_SHOWN, "arguments", "error")}
        return {**fields, "status": _shown(self.status, self.stop_asked), **self.summary}


def _shown(status: str, stop_asked: bool) -> str:
    """Returns the status that users see: a running job that was asked to stop is `stopping`."""
    return "stopping" if stop_asked and status == "running" else status
