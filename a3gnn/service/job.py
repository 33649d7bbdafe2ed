"""`Job`: a study or a training in the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

JobKind = Literal["study", "training"]
#: queued: waits for its turn, or to go on; running; finished: by itself; stopped: asked to, with the best so far where
#: anything was measured; failed: its error says why.
Status = Literal["queued", "running", "finished", "stopped", "failed"]
STATUSES: tuple[Status, ...] = ("queued", "running", "finished", "stopped", "failed")
#: Those from which a job leaves by itself.
ACTIVE: tuple[Status, ...] = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the queue.

    Attributes:
        id: Its number; none is given twice.
        kind: study or training.
        name: What people call it.
        graph: The number of its graph.
        study: Of a training, the number of the study whose choice it trains.
        arguments: What `tune` or `train` is called with, as JSON types.
        status: How far it is.
        stop_asked: Whether someone has asked it to stop, which it has not done yet.
        home: The home folder that its files are in, or has to be; None where any server may begin it.
        created: When it was asked for: seconds since 1970.
        started: When it last began; None before.
        ended: When it last ended; None before.
        error: Why it failed, as a problem (`a3gnn.service.problems`); None where it did not.
        summary: Its last line, and of a study how many trials it has.
    """

    id: int
    kind: JobKind
    name: str
    graph: int
    study: int | None
    arguments: Mapping[str, Any]
    status: Status
    stop_asked: bool
    home: str | None
    created: float
    started: float | None
    ended: float | None
    error: Mapping[str, Any] | None
    summary: Mapping[str, Any]

    @property
    def active(self) -> bool:
        """Whether it waits or runs."""
        return self.status in ACTIVE

    @property
    def is_told(self) -> bool:
        """Whether someone else runs its trials, and tells what they reached."""
        return self.arguments.get("trainer") == "client"

    @classmethod
    def of_row(cls, row: RowMapping) -> Self:
        """Returns the job of a row of the table."""
        parsed = {
            name: None if row[name] is None else json.loads(row[name]) for name in ("arguments", "error", "summary")
        }
        return cls(**{**{str(name): value for name, value in row.items()}, **parsed})

    @staticmethod
    def json_of_row(row: RowMapping) -> str:
        """Returns `to_dict` of a row's job as JSON, of which the row has most: ten times as fast."""
        own = {name: row[name] for name in ("id", "kind", "name", "graph", "study", "created", "started", "ended")}
        own["status"] = _shown(row["status"], row["stop_asked"])
        summary = row["summary"][1:-1]
        texts = f'"arguments": {row["arguments"]}, "error": {row["error"] or "null"}{", " if summary else ""}{summary}'
        return f"{json.dumps(own)[:-1]}, {texts}}}"

    def to_dict(self) -> dict[str, Any]:
        """Returns what people see of it, as JSON types."""
        own = ("id", "kind", "name", "graph", "study", "arguments", "created", "started", "ended", "error")
        fields = {name: getattr(self, name) for name in own}
        return {**fields, "status": _shown(self.status, self.stop_asked), **self.summary}


def _shown(status: str, stop_asked: bool) -> str:
    """Returns what people are told of a status: one that runs and was asked to stop is stopping."""
    return "stopping" if stop_asked and status == "running" else status
