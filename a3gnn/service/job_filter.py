"""`JobFilter`: which jobs are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from a3gnn.service.job import Kind
from a3gnn.service.tables import JOBS


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The newest jobs that match every field that is given.

    Attributes:
        kind: Which.
        statuses: Any of these; all where there is none.
        graph: Those of this graph.
        study: Those of this study.
        before: Those with a smaller number: the next page.
        limit: At most so many.
    """

    kind: Kind
    statuses: tuple[str, ...] = ()
    graph: int | None = None
    study: int | None = None
    before: int | None = None
    limit: int = 50

    def select(self) -> sa.Select[Any]:
        """Returns the query of their rows, newest first."""
        conditions = [JOBS.c.kind == self.kind]
        if self.statuses:
            conditions.append(JOBS.c.status.in_(self.statuses))
        same = (("graph", self.graph), ("study", self.study))
        conditions += [JOBS.c[name] == value for name, value in same if value is not None]
        if self.before is not None:
            conditions.append(JOBS.c.id < self.before)
        return sa.select(JOBS).where(*conditions).order_by(JOBS.c.id.desc()).limit(self.limit)
