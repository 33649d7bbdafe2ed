"""`Jobs`: the queue, a table that any number of servers read and write."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from a3gnn.profiling.store.database import writing
from a3gnn.service.database import JOBS, inserted_id
from a3gnn.service.job import Job, JobKind
from a3gnn.service.problems import conflict, not_found, too_many


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

    kind: JobKind
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


#: Seconds for which a list is answered again as it was, where this server changed nothing; and lists that are kept.
_FRESH_S, _PAGES = 0.2, 64


class Jobs:
    """Reads and writes jobs; each call is a transaction of its own.

    Args:
        engine: The service's database.
        home: The home folder of this server, by its mark: jobs of others are not begun here.
        max_queued: So many may wait.
    """

    def __init__(self, engine: sa.Engine, home: str, max_queued: int) -> None:
        self._engine, self._home, self._max_queued = engine, home, max_queued
        self._changes = 0
        self._pages: dict[JobFilter, tuple[float, int, str]] = {}

    def add(
        self,
        kind: JobKind,
        name: str,
        graph: int,
        arguments: Mapping[str, Any],
        home: str | None,
        study: int | None = None,
    ) -> Job:
        """Returns a new job at the end of the queue.

        Raises:
            Problem: Too many wait already.
        """
        values = {
            "kind": kind,
            "name": name,
            "graph": graph,
            "study": study,
            "arguments": json.dumps(arguments),
            "status": "queued",
            "stop_asked": False,
            "home": home,
            "created": time.time(),
            "summary": "{}",
        }
        with self._changing() as connection:
            waiting = connection.execute(
                sa.select(sa.func.count()).select_from(JOBS).where(JOBS.c.status == "queued")
            ).scalar_one()
            if waiting >= self._max_queued:
                raise too_many(f"at most {self._max_queued} jobs may wait, and {waiting} do")
            number = inserted_id(connection.execute(sa.insert(JOBS).values(values)))
        return self.get(number)

    def get(self, number: int, kind: JobKind | None = None) -> Job:
        """Returns the job with this number, of the kind if one is given.

        Raises:
            Problem: There is none.
        """
        condition = JOBS.c.id == number if kind is None else sa.and_(JOBS.c.id == number, JOBS.c.kind == kind)
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(JOBS).where(condition)).mappings().first()
        if row is None:
            raise not_found(kind or "job", number)
        return Job.of_row(row)

    def newest(self, asked: JobFilter) -> list[Job]:
        """Returns the jobs that are asked for, newest first."""
        with self._engine.connect() as connection:
            return [Job.of_row(row) for row in connection.execute(asked.select()).mappings()]

    def newest_json(self, asked: JobFilter) -> str:
        """Returns the same as a JSON list of what people see of them, which many may ask for at once.

        What this server changed is in it, what others did within `_FRESH_S` seconds.
        """
        begun, changes = time.monotonic(), self._changes
        kept = self._pages.get(asked)
        if kept is not None and kept[1] == changes and begun < kept[0] + _FRESH_S:
            return kept[2]
        with self._engine.connect() as connection:
            text = f"[{', '.join(map(Job.json_of_row, connection.execute(asked.select()).mappings()))}]"
        if len(self._pages) >= _PAGES:
            self._pages.clear()
        self._pages[asked] = begun, changes, text
        return text

    def counts(self) -> dict[tuple[str, str], int]:
        """Returns how many jobs there are, by kind and status."""
        query = sa.select(JOBS.c.kind, JOBS.c.status, sa.func.count()).group_by(JOBS.c.kind, JOBS.c.status)
        with self._engine.connect() as connection:
            return {(kind, status): found for kind, status, found in connection.execute(query)}

    def waiting(self) -> list[Job]:
        """Returns the jobs that this server may begin, oldest first, and those that run with files in its home."""
        mine = sa.or_(JOBS.c.home.is_(None), JOBS.c.home == self._home)
        runs = sa.and_(JOBS.c.status == "running", JOBS.c.home == self._home)
        condition = sa.or_(sa.and_(JOBS.c.status == "queued", mine), runs)
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(JOBS).where(condition).order_by(JOBS.c.id).limit(1000)).mappings()
            return [Job.of_row(row) for row in rows]

    def claim(self, job: Job) -> bool:
        """Returns whether `job` runs here now: no other server was quicker."""
        values = {"status": "running", "home": self._home, "started": time.time(), "ended": None, "error": None}
        same = (JOBS.c.id == job.id, JOBS.c.status == job.status, JOBS.c.started.is_not_distinct_from(job.started))
        with self._changing() as connection:
            return connection.execute(sa.update(JOBS).where(*same).values(values)).rowcount == 1

    def stops_asked(self, numbers: Sequence[int]) -> set[int]:
        """Returns which of these jobs are asked to stop; one that was deleted is, too."""
        query = sa.select(JOBS.c.id).where(JOBS.c.id.in_(numbers), sa.not_(JOBS.c.stop_asked))
        with self._engine.connect() as connection:
            return set(numbers) - set(connection.execute(query).scalars())

    def update(self, number: int, **values: Any) -> None:
        """Writes columns of a job; error and summary are given as JSON types."""
        for name in ("error", "summary", "arguments"):
            if values.get(name) is not None:
                values[name] = json.dumps(values[name])
        with self._changing() as connection:
            connection.execute(sa.update(JOBS).where(JOBS.c.id == number).values(values))

    def ask_to_stop(self, number: int, kind: JobKind) -> Job:
        """Returns the job, which is stopped if it was waiting, and asked to stop if it runs.

        Raises:
            Problem: There is none, or it has ended.
        """
        its = sa.and_(JOBS.c.id == number, JOBS.c.kind == kind)
        waits, runs = (sa.and_(its, JOBS.c.status == status) for status in ("queued", "running"))
        with self._changing() as connection:
            ended = {"status": "stopped", "ended": time.time()}
            done = connection.execute(sa.update(JOBS).where(waits).values(ended)).rowcount
            done += connection.execute(sa.update(JOBS).where(runs).values(stop_asked=True)).rowcount
        job = self.get(number, kind)
        if not done:
            raise conflict(f"only a {kind} that waits or runs can be stopped, and {number} is {job.status}")
        return job

    def requeue(
        self, job: Job, arguments: Mapping[str, Any] | None = None, prepare: Callable[[], None] = lambda: None
    ) -> Job:
        """Returns `job`, which had ended, at its place in the queue again.

        Args:
            job: What is queued.
            arguments: Those from now on; None keeps the old ones.
            prepare: Is called if the job may be queued, before anyone can begin it.

        Raises:
            Problem: It waits or runs.
        """
        values = {"status": "queued", "stop_asked": False, "ended": None, "error": None}
        if arguments is not None:
            values["arguments"] = json.dumps(arguments)
        same = sa.and_(JOBS.c.id == job.id, JOBS.c.status.in_(("finished", "stopped", "failed")))
        with self._changing() as connection:
            if not connection.execute(sa.update(JOBS).where(same).values(values)).rowcount:
                raise conflict(f"{job.kind} {job.id} waits or runs already; stop it first")
            prepare()
        return self.get(job.id)

    def delete(self, job: Job) -> None:
        """Removes the row of `job`, which must neither wait nor run.

        Raises:
            Problem: It does.
        """
        same = sa.and_(JOBS.c.id == job.id, JOBS.c.status.in_(("finished", "stopped", "failed")))
        with self._changing() as connection:
            if not connection.execute(sa.delete(JOBS).where(same)).rowcount:
                raise conflict(f"{job.kind} {job.id} waits or runs; stop it, then delete it")

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """Yields a connection whose transaction writes; lists from before it are no longer answered."""
        with writing(self._engine).begin() as connection:
            yield connection
        self._changes += 1
