"""`Jobs`: the queue, a table shared by any number of servers; `Trash`: deleted jobs, which can be restored."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from a3gnn.notify import LOOK_S
from a3gnn.profiling.store.database import writing
from a3gnn.service.http.problems import ProblemDetails, conflict, in_trash, not_found, too_many
from a3gnn.service.jobs.database import GRAPHS, JOBS, inserted_id, number_in
from a3gnn.service.jobs.home import Home
from a3gnn.service.jobs.job import ACTIVE, RETRY, Job, JobKind

#: Seconds for which a deleted job can be restored: the week that docs/howto/service.md promises.
TRASH_S = 7 * 86_400.0
#: Objects on a page or in an answer, unless a request asks for others, and most that it may ask for.
ON_A_PAGE, MOST_ON_A_PAGE = 50, 200
#: Number of lists held in memory.
_PAGES = 64
_HERE = JOBS.c.deleted.is_(None)
_HAS_ENDED = JOBS.c.status.in_(("finished", "stopped", "failed"))


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A query of the newest jobs that match all given fields."""

    kind: JobKind  # study or training
    statuses: tuple[str, ...] = ()  # jobs with any of these statuses; empty for all
    graph: int | None = None  # jobs of the graph with this number
    study: int | None = None  # trainings of the study with this number
    before: int | None = None  # jobs with a smaller number, for the next page
    limit: int = ON_A_PAGE  # most jobs returned
    deleted: bool = False  # whether to list the trash instead
    words: str = ""  # part of the job's or the graph's name, in any case, or the job's number; "" for all

    def select(self) -> sa.Select[Any]:
        """Returns the query of these jobs' rows, newest first."""
        return sa.select(JOBS).where(*self.conditions()).order_by(JOBS.c.id.desc()).limit(self.limit)

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Returns what holds of these jobs, the limit aside."""
        conditions = [JOBS.c.kind == self.kind, JOBS.c.deleted.is_not(None) if self.deleted else _HERE]
        if self.statuses:
            conditions.append(JOBS.c.status.in_(self.statuses))
        same = (("graph", self.graph), ("study", self.study))
        conditions += [JOBS.c[name] == value for name, value in same if value is not None]
        if self.before is not None:
            conditions.append(JOBS.c.id < self.before)
        if self.words:
            graphs = sa.select(GRAPHS.c.id).where(GRAPHS.c.name.icontains(self.words, autoescape=True))
            named = [JOBS.c.name.icontains(self.words, autoescape=True), JOBS.c.graph.in_(graphs)]
            if (number := number_in(self.words)) is not None:
                named.append(JOBS.c.id == number)
            conditions.append(sa.or_(*named))
        return conditions


class Jobs:
    """Reads and writes jobs; each call is a transaction of its own.

    Args:
        engine: The service's database.
        home: The mark of this server's home folder. Jobs with files in another home are not begun here.
        max_queued: Most jobs that may wait.
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
        key: str | None = None,
    ) -> Job:
        """Returns a new job at the end of the queue.

        Args:
            kind: Its kind.
            name: Its name.
            graph: The number of its graph.
            arguments: Its arguments.
            home: The home folder that it needs; None if any will do.
            study: For a training, the number of its study.
            key: The Idempotency-Key of the request, or ""; None for a job whose graph and study are known to stay.

        Raises:
            ProblemDetails: The graph or the study is gone, or too many jobs wait already.
            IntegrityError: Another request with the same key was quicker.
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
            "key": _digest(key) if key else None,
            "asked": _asked(kind, name, graph, arguments, study) if key else None,
        }
        with self._changing() as connection:
            if key is not None:
                _check_exist(connection, graph, study)
            waiting = connection.execute(
                sa.select(sa.func.count()).select_from(JOBS).where(JOBS.c.status == "queued")
            ).scalar_one()
            if waiting >= self._max_queued:
                raise too_many(f"at most {self._max_queued} jobs may wait, and {waiting} wait already")
            number = inserted_id(connection.execute(sa.insert(JOBS).values(values)))
        return self.get(number)

    def made_by(
        self, key: str, kind: JobKind, name: str, graph: int, arguments: Mapping[str, Any], study: int | None
    ) -> Job | None:
        """Returns the job that a request with this Idempotency-Key has made; None if there is none.

        Raises:
            ProblemDetails: That was another request.
        """
        query = sa.select(JOBS.c.id, JOBS.c.asked).where(JOBS.c.key == _digest(key))
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is not None and row.asked != _asked(kind, name, graph, arguments, study):
            raise ProblemDetails(
                422, "key", "an Idempotency-Key must come with one request, got another; take a new key"
            )
        return None if row is None else self.get(row.id)

    def get(self, number: int, kind: JobKind | None = None, *, deleted: bool = False) -> Job:
        """Returns the job with this number, of this kind unless `kind` is None.

        Args:
            number: The job's number.
            kind: Its kind.
            deleted: Whether it may be in the trash.

        Raises:
            ProblemDetails: There is no such job.
        """
        condition = JOBS.c.id == number if kind is None else sa.and_(JOBS.c.id == number, JOBS.c.kind == kind)
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(JOBS).where(condition)).mappings().first()
        if row is None:
            raise not_found(kind or "job", number)
        job = Job.of_row(row)
        if job.deleted is not None and not deleted:
            raise in_trash(job.kind, number)
        return job

    def newest(self, asked: JobFilter) -> list[Job]:
        """Returns the jobs that match the filter, newest first."""
        return self._read(asked.select())

    def sorted(self, asked: JobFilter, by: Sequence[sa.ColumnElement[Any]], offset: int = 0) -> tuple[list[Job], int]:
        """Returns one page of the jobs that match the filter, sorted, and how many match in all.

        Args:
            asked: The filter.
            by: What they are sorted by, as in ORDER BY.
            offset: Number of jobs on earlier pages.
        """
        found = sa.select(JOBS).where(*asked.conditions()).order_by(*by).limit(asked.limit).offset(offset)
        counted = sa.select(sa.func.count()).select_from(JOBS).where(*asked.conditions())
        with self._engine.connect() as connection:
            jobs = [Job.of_row(row) for row in connection.execute(found).mappings()]
            return jobs, connection.execute(counted).scalar_one()

    def newest_json(self, asked: JobFilter) -> str:
        """Returns the matching jobs as the JSON list that users see. Answers from memory, because many may ask at once.

        It shows all changes by this server; those by other servers may come `LOOK_S` seconds late.
        """
        begun, changes = time.monotonic(), self._changes
        kept = self._pages.get(asked)
        if kept is not None and kept[1] == changes and begun < kept[0] + LOOK_S:
            return kept[2]
        with self._engine.connect() as connection:
            text = f"[{', '.join(map(Job.json_of_row, connection.execute(asked.select()).mappings()))}]"
        if len(self._pages) >= _PAGES:
            self._pages.clear()
        self._pages[asked] = begun, changes, text
        return text

    def counts(self) -> dict[tuple[str, str], int]:
        """Returns how many jobs there are, by kind and status."""
        query = sa.select(JOBS.c.kind, JOBS.c.status, sa.func.count()).where(_HERE).group_by(JOBS.c.kind, JOBS.c.status)
        with self._engine.connect() as connection:
            return {(kind, status): found for kind, status, found in connection.execute(query)}

    def waiting(self) -> list[Job]:
        """Returns the queued jobs that this server may begin, and the running jobs in its home, oldest first."""
        query = sa.select(JOBS).where(self._waits).order_by(JOBS.c.id).limit(1000)
        return self._read(query)

    def ahead(self, job: Job) -> int:
        """Returns how many of the `waiting` jobs begin, or began, before `job`."""
        query = sa.select(sa.func.count()).select_from(JOBS).where(self._waits, JOBS.c.id < job.id)
        with self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    @property
    def _waits(self) -> sa.ColumnElement[bool]:
        runs = sa.and_(JOBS.c.status == "running", JOBS.c.home == self._home)
        return sa.or_(sa.and_(JOBS.c.status == "queued", self._mine), runs)

    @property
    def _mine(self) -> sa.ColumnElement[bool]:
        """Holds of jobs whose files are in this server's home, or nowhere."""
        return sa.or_(JOBS.c.home.is_(None), JOBS.c.home == self._home)

    def claim(self, job: Job) -> bool:
        """Marks `job` as running here; returns False if another server was quicker."""
        values = {"status": "running", "home": self._home, "started": time.time(), "ended": None, "error": None}
        same = (JOBS.c.id == job.id, JOBS.c.status == job.status, JOBS.c.started.is_not_distinct_from(job.started))
        with self._changing() as connection:
            return connection.execute(sa.update(JOBS).where(*same).values(values)).rowcount == 1

    def stops_asked(self, numbers: Sequence[int]) -> set[int]:
        """Returns which of these jobs must stop: those that were asked to, and those that were deleted."""
        query = sa.select(JOBS.c.id).where(JOBS.c.id.in_(numbers), sa.not_(JOBS.c.stop_asked))
        with self._engine.connect() as connection:
            return set(numbers) - set(connection.execute(query).scalars())

    def update(self, number: int, **values: Any) -> None:
        """Writes columns of a job; `error`, `summary` and `arguments` take JSON types."""
        for name in ("error", "summary", "arguments"):
            if values.get(name) is not None:
                values[name] = json.dumps(values[name])
        with self._changing() as connection:
            connection.execute(sa.update(JOBS).where(JOBS.c.id == number).values(values))

    def ask_to_stop(self, number: int, kind: JobKind) -> Job:
        """Stops the job if it waits, asks it to stop if it runs, and returns it.

        Raises:
            ProblemDetails: There is no such job, or it has ended.
        """
        its = sa.and_(JOBS.c.id == number, JOBS.c.kind == kind)
        waits, runs = (sa.and_(its, JOBS.c.status == status) for status in ("queued", "running"))
        with self._changing() as connection:
            now = time.time()  # not before it was created, even if the clock was set back
            ended = {"status": "stopped", "ended": sa.case((JOBS.c.started > now, JOBS.c.started), else_=now)}
            done = connection.execute(sa.update(JOBS).where(waits).values(ended)).rowcount
            done += connection.execute(sa.update(JOBS).where(runs).values(stop_asked=True)).rowcount
        job = self.get(number, kind)
        if not done:
            raise conflict(f"only a waiting or running {kind} can be stopped, but {kind} {number} is {job.status}")
        return job

    def requeue(self, job: Job, arguments: Mapping[str, Any] | None = None, *, forget: bool = False) -> Job:
        """Puts an ended job back to its place in the queue, and returns it.

        Args:
            job: A job that has ended.
            arguments: Its new arguments; None keeps the old ones.
            forget: Whether the study forgets its failed trials first. An earlier request that is open still counts.

        Raises:
            ProblemDetails: The job waits or runs.
        """
        values = {"status": "queued", "stop_asked": False, "ended": None, "error": None}
        same = sa.and_(JOBS.c.id == job.id, _HAS_ENDED, _HERE)
        with self._changing() as connection:
            text = connection.execute(sa.select(JOBS.c.arguments).where(JOBS.c.id == job.id)).scalar()
            old = {} if text is None else json.loads(text)
            due = {RETRY: True} if forget or old.get(RETRY) else {}
            values["arguments"] = json.dumps({**(old if arguments is None else arguments), **due})
            if not connection.execute(sa.update(JOBS).where(same).values(values)).rowcount:
                raise conflict(f"{job.kind} {job.id} waits or runs already; stop it first")
        return self.get(job.id)

    def delete(self, job: Job) -> None:
        """Puts `job`, which must have ended, into the trash.

        Raises:
            ProblemDetails: The job, or a training of the study, waits or runs.
        """
        same = sa.and_(JOBS.c.id == job.id, _HAS_ENDED, _HERE)
        trains = sa.and_(JOBS.c.study == job.id, JOBS.c.status.in_(ACTIVE))
        with self._changing() as connection:
            connection.execute(sa.select(JOBS.c.id).where(same).with_for_update())  # no training begins meanwhile
            training = connection.execute(sa.select(JOBS.c.id).where(trains).limit(1)).scalar()
            if training is not None:
                raise conflict(f"training {training} needs the choice of study {job.id}; stop the training first")
            if not connection.execute(sa.update(JOBS).where(same).values(deleted=time.time())).rowcount:
                raise conflict(f"{job.kind} {job.id} waits or runs; stop it, then delete it")

    def restore(self, job: Job) -> Job:
        """Takes `job` out of the trash, and returns it.

        Raises:
            ProblemDetails: It has been removed for good.
        """
        with self._changing() as connection:
            connection.execute(sa.update(JOBS).where(JOBS.c.id == job.id).values(deleted=None))
        return self.get(job.id)

    def remove(self, job: Job) -> bool:
        """Removes the row of `job` if it is in the trash; returns whether it was."""
        same = sa.and_(JOBS.c.id == job.id, JOBS.c.deleted.is_not(None))
        with self._changing() as connection:
            return connection.execute(sa.delete(JOBS).where(same)).rowcount == 1

    def overdue(self, before: float) -> list[Job]:
        """Returns the jobs that went to the trash before a time, and whose files are here or nowhere."""
        query = sa.select(JOBS).where(JOBS.c.deleted < before, self._mine)
        return self._read(query)

    def _read(self, query: sa.Select[Any]) -> list[Job]:
        with self._engine.connect() as connection:
            return [Job.of_row(row) for row in connection.execute(query).mappings()]

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """Yields a connection for writing, then drops lists read before the change."""
        with writing(self._engine).begin() as connection:
            yield connection
        self._changes += 1


class Trash:
    """Takes jobs, gives them back, and removes them for good. Their files stay in place until then."""

    def __init__(self, jobs: Jobs, home: Home) -> None:
        self._jobs, self._home = jobs, home

    def put(self, kind: JobKind, number: int) -> Job:
        """Puts an ended job into the trash, and returns it.

        Raises:
            ProblemDetails: There is no such job, or it has not ended.
        """
        job = self._jobs.get(number, kind, deleted=True)
        self._home.check_has(job)
        if job.deleted is None:
            self._jobs.delete(job)
        return self._jobs.get(number, kind, deleted=True)

    def restore(self, kind: JobKind, number: int) -> Job:
        """Takes a job out of the trash, and returns it. A job that is not there is returned as it is.

        Raises:
            ProblemDetails: There is no such job any more.
        """
        return self._jobs.restore(self._jobs.get(number, kind, deleted=True))

    def remove(self, kind: JobKind, number: int) -> None:
        """Removes an ended job and its files for good, whether it is in the trash or not.

        Raises:
            ProblemDetails: There is no such job, or it has not ended.
        """
        self._remove(self.put(kind, number))

    def purge(self) -> None:
        """Removes the jobs that have been in the trash for too long."""
        for job in self._jobs.overdue(time.time() - TRASH_S):
            self._remove(job)

    def _remove(self, job: Job) -> None:
        if self._jobs.remove(job):  # nobody has restored it meanwhile
            shutil.rmtree(self._home.of(job).path, ignore_errors=True)


def _check_exist(connection: sa.Connection, graph: int, study: int | None) -> None:
    """Raises a `ProblemDetails` if the graph or the study of a new job is gone; else keeps both until it is added."""
    kept = {"graph": (graph, sa.select(GRAPHS.c.id).where(GRAPHS.c.id == graph))}
    if study is not None:
        kept["study"] = study, sa.select(JOBS.c.id).where(JOBS.c.id == study, _HERE)
    for what, (number, query) in kept.items():
        if connection.execute(query.with_for_update()).first() is None:
            raise not_found(what, number)


def _asked(kind: JobKind, name: str, graph: int, arguments: Mapping[str, Any], study: int | None) -> str:
    """Returns a digest of what a request asked for."""
    return _digest(json.dumps([kind, name, graph, arguments, study], sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
