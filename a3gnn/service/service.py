"""`Service`: everything that answers requests, opened and closed together."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from anyio import to_thread
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from a3gnn.measurement import Measurement
from a3gnn.notify import LOOK_S
from a3gnn.profiling.store.database import ROWS
from a3gnn.profiling.store.provenance import Holding, holdings
from a3gnn.service.graphs.examiner import Examiner
from a3gnn.service.graphs.shelf import GraphShelf, KnownGraph
from a3gnn.service.http.problems import ProblemDetails, Turns
from a3gnn.service.http.sessions import Sessions
from a3gnn.service.jobs.database import open_service_database
from a3gnn.service.jobs.home import EventLog, Home, JobFolder, LogLine
from a3gnn.service.jobs.job import Job, JobKind
from a3gnn.service.jobs.jobs import Jobs, Trash
from a3gnn.service.jobs.worker import QueueWorker
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.recommender import Recommender

#: Seconds of silence before a keep-alive message: a quarter of those after which nginx ends a silent answer.
_SILENT_S = 15.0
#: Most open event streams, unless the server lowers it to what its limit of files allows.
_MOST_READERS = 1000
#: Seconds for which a stop request waits for the job to end.
_STOP_S = 2.0


class Service:
    """The database, the home folder, the queue's thread and the recommender of one server.

    Raises:
        A3GNNError: The folder or the database can't be used.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.home = Home(settings.folder, settings.data_root)
        self._engine = open_service_database(settings.place)
        self.sessions = Sessions(self._engine, settings.token)
        self.jobs = Jobs(self._engine, self.home.id, settings.max_queued)
        self.examiner = Examiner(self.home.places)
        self.graphs = GraphShelf(self._engine, self.home, settings, self.examiner)
        self.trash = Trash(self.jobs, self.home)
        self.worker = QueueWorker(
            self.jobs, self.graphs, self.home, settings.place, settings.at_once, settings.trials, settings.lease_s
        )
        self.recommender = Recommender(settings.place, self.home.places)
        self.profiles = Profiles(self._engine, settings.place, self.examiner)
        self.streams = EventStreams()

    def __enter__(self) -> Self:
        self.graphs.remove_leftovers()
        self.worker.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()
        self.worker.close()
        self._engine.dispose()

    def leave(self) -> None:
        """Ends the processes whose answers requests wait for; these requests, and later ones of their kind, fail."""
        self.examiner.close()
        self.recommender.close()

    def job(self, kind: JobKind, number: int) -> tuple[Job, JobFolder]:
        """Returns a job, and the folder to read its files from.

        Raises:
            ProblemDetails: There is no such job, or another server has its files.
        """
        job = self.jobs.get(number, kind)
        self.home.check_has(job)
        return job, self.home.of(job)

    def begin(
        self,
        kind: JobKind,
        name: str,
        graph: KnownGraph,
        arguments: Mapping[str, Any],
        study: int | None = None,
        key: str = "",
    ) -> Job:
        """Returns a new job at the end of the queue, or the one that an earlier request with the same `key` has made.

        Raises:
            ProblemDetails: The graph is gone, the key came with another request, or too many jobs wait already.
        """
        again = self.jobs.made_by(key, kind, name, graph.id, arguments, study) if key else None
        if again is not None:
            return again
        try:
            return self._tell(self.jobs.add(kind, name, graph.id, arguments, graph.home, study, key))
        except IntegrityError:  # the same request was quicker
            again = self.jobs.made_by(key, kind, name, graph.id, arguments, study)
            if again is None:
                raise
            return again

    def resume(self, job: Job, arguments: Mapping[str, Any], *, forget: bool = False) -> Job:
        """Puts an ended job back into the queue, and returns it.

        Args:
            job: A job that has ended.
            arguments: Its new arguments.
            forget: Whether to forget its failed trials first. An earlier request to do so still counts if it is open.

        Raises:
            ProblemDetails: The job waits or runs.
        """
        return self._tell(self.jobs.requeue(job, arguments, forget=forget))

    def stop(self, kind: JobKind, number: int) -> Job:
        """Asks a job to stop, and returns it once it has ended, or as it is after two seconds.

        A study that is asked again, 20 seconds or more after the first time, ends even if it has not chosen.

        Raises:
            ProblemDetails: There is no such job, or it has ended.
        """
        end = time.monotonic() + _STOP_S
        again = self.jobs.get(number, kind).stop_asked
        try:
            job = self.jobs.ask_to_stop(number, kind)
        except SQLAlchemyError:  # a full disk: what runs here can be stopped nevertheless
            job = self.jobs.get(number, kind)
            if not self.worker.stop(number):
                raise
            return dataclasses.replace(job, stop_asked=True)
        if again and job.active and job.home == self.home.id:
            self.home.of(job).hurry.touch()
        if not job.active:
            return self._tell(job)  # it was waiting
        self.worker.wake()
        while job.active and time.monotonic() < end:
            time.sleep(LOOK_S)
            job = self.jobs.get(number, kind)
        return job

    def _tell(self, job: Job) -> Job:
        """Appends the job's new status to its events, and wakes the queue's thread."""
        if job.home in (None, self.home.id):
            folder = self.home.of(job)
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.events.append("status", status=job.status)
        self.worker.wake()
        return job


class EventStreams:
    """Follows the logs that have readers. Each reader of a silent log costs a look at its size every `LOOK_S`.

    Attributes:
        readers: Number of open streams.
        most_readers: Most open streams.
    """

    def __init__(self) -> None:
        self.readers, self.most_readers = 0, _MOST_READERS
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Ends all streams."""
        self._closed.set()

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Counts a reader for as long as the context lasts.

        Raises:
            ProblemDetails: There are too many readers.
        """
        if self.readers >= self.most_readers:
            raise ProblemDetails(
                429,
                "too-many",
                f"at most {self.most_readers:,} readers may follow events at a time; close some event streams",
            )
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1

    async def follow(
        self, log: EventLog, place: int, is_active: Callable[[], bool], may_read: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """Yields the bytes that a reader gets after `place`, until the job has ended. A job that ended may be resumed.

        Args:
            log: The job's log.
            place: The id of the last event that the reader has, or 0.
            is_active: Returns whether the job waits or runs. Called in another thread while the log is silent.
            may_read: Returns whether the reader's session still lasts. Called before each look at the log.
        """
        said = time.monotonic()
        yield b"retry: 1000\n\n"
        while not self._closed.is_set() and await may_read():
            last = None
            if log.size > place:
                for event in log.since(place):
                    place, last = event.id, event
                    yield _encoded(event)
                said = time.monotonic()
            if last is not None and last.is_last:
                return
            if time.monotonic() > said + _SILENT_S:
                said = time.monotonic()
                if not await to_thread.run_sync(is_active):
                    return
                yield b": \n\n"
            await asyncio.sleep(LOOK_S)


def _encoded(event: LogLine) -> bytes:
    return f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event.data)}\n\n".encode()


class Profiles:
    """The profile store in the service's database."""

    def __init__(self, engine: sa.Engine, place: str, examiner: Examiner) -> None:
        self._engine, self._place, self._examiner = engine, place, examiner
        self._turns = Turns("add measurements")
        self._held: tuple[str, list[Holding]] = ("", [])

    def count(self) -> int:
        """Returns the number of measurements."""
        with self._engine.connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(ROWS)).scalar_one()

    def stand(self) -> str:
        """Returns a text that changes, all but surely, whenever the measurements change: their number and the last one.

        The number alone would not change if a failed trial is forgotten and another one is added.
        """
        newest = sa.select(ROWS.c.id, ROWS.c.payload).order_by(ROWS.c.id.desc()).limit(1)
        with self._engine.connect() as connection:
            number, payload = connection.execute(newest).first() or (0, "")
        return f"{self.count()} {number} {payload}"

    def add(self, path: Path) -> dict[str, Any]:
        """Adds the rows of a file written by `a3gnn profiles export`; returns the numbers of new rows and of all.

        Raises:
            ProblemDetails: A row is not valid; none is added.
        """
        with self._turns.one():
            return self._examiner.run("rows", {"path": str(path), "store": self._place})

    def held(self) -> list[dict[str, Any]]:
        """Returns the stored measurements of each graph, model and machine."""
        return [one.to_dict() for one in self._holdings()]

    def machines(self) -> list[dict[str, Any]]:
        """Returns the machines that have measurements."""
        found = {one.hardware.fingerprint: one.hardware for one in self._holdings()}
        return [machine.to_dict() for machine in found.values()]

    def _rows(self) -> Iterator[Measurement]:
        """Yields all measurements, a few at a time: together they may take more memory than the server should."""
        query = sa.select(ROWS.c.payload).order_by(ROWS.c.id).execution_options(stream_results=True)
        with self._engine.connect() as connection:
            for payload in connection.execute(query).scalars():
                yield Measurement.from_dict(json.loads(payload))

    def _holdings(self) -> list[Holding]:
        stand = self.stand()
        if self._held[0] != stand:
            self._held = stand, holdings(self._rows())
        return self._held[1]
