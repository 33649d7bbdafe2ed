"""`Service`: all that answers requests, opened and closed together."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from a3gnn.service.database import open_service_database
from a3gnn.service.graph_shelf import GraphShelf, KnownGraph
from a3gnn.service.home import Home, JobFolder
from a3gnn.service.job import Job, Kind
from a3gnn.service.jobs import Jobs
from a3gnn.service.problems import conflict
from a3gnn.service.profiles import Profiles
from a3gnn.service.recommender import Recommender
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.streaming import EventStreams
from a3gnn.service.worker import QueueWorker

#: Seconds that the answer to a stop waits for the job to end, and between two looks at it.
_STOP_S, _POLL_S = 2.0, 0.05


class Service:
    """The database, the home folder, the queue's thread and the recommender of one server.

    Args:
        settings: What the server was started with.

    Raises:
        A3GNNError: The folder or the database can't be used.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.home = Home(settings.folder, settings.data_root)
        self._engine = open_service_database(settings.place)
        self.jobs = Jobs(self._engine, self.home.id, settings.max_queued)
        self.graphs = GraphShelf(self._engine, self.home, settings)
        self.worker = QueueWorker(self.jobs, self.graphs, self.home, settings.place, settings.at_once, settings.trials)
        self.recommender = Recommender(settings.place, self.home.places)
        self.profiles = Profiles(self._engine, settings.place)
        self.streams = EventStreams()

    def __enter__(self) -> Self:
        self.worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.close()
        self.recommender.close()
        self._engine.dispose()

    def job(self, kind: Kind, number: int) -> tuple[Job, JobFolder]:
        """Returns a job and its folder, for what is read of its files.

        Raises:
            Problem: There is none, or its files are those of another server.
        """
        job = self.jobs.get(number, kind)
        if job.home is not None and job.home != self.home.id:
            raise conflict(
                f"the files of {kind} {number} are kept by another server of this database, the one with the home "
                f"{job.home}; ask that one"
            )
        return job, self.home.of(job)

    def begin(
        self, kind: Kind, name: str, graph: KnownGraph, arguments: Mapping[str, Any], study: int | None = None
    ) -> Job:
        """Returns a new job at the end of the queue.

        Raises:
            Problem: Too many wait already.
        """
        return self._tell(self.jobs.add(kind, name, graph.id, arguments, graph.home, study))

    def resume(self, job: Job, arguments: Mapping[str, Any], *, forget: bool = False) -> Job:
        """Returns `job`, which had ended, in the queue again.

        Args:
            job: What goes on.
            arguments: Those from now on.
            forget: Whether its failed trials are forgotten first; they are as well where that was asked for before and
                has not been done.

        Raises:
            Problem: It waits or runs.
        """

        def prepare() -> None:
            if forget and job.home in (None, self.home.id):
                self.home.of(job).ask_for_retries()

        return self._tell(self.jobs.requeue(job, arguments, prepare))

    def stop(self, kind: Kind, number: int) -> Job:
        """Returns a job that was asked to stop, as it is when it has, or after two seconds.

        A study that was asked before, 20 seconds ago or more, is ended even if it has not chosen.

        Raises:
            Problem: There is none, or it has ended.
        """
        end = time.monotonic() + _STOP_S
        again = self.jobs.get(number, kind).stop_asked
        job = self.jobs.ask_to_stop(number, kind)
        if again and job.active and job.home == self.home.id:
            self.home.of(job).hurry.touch()
        if not job.active:
            return self._tell(job)  # it was waiting
        self.worker.wake()
        while job.active and time.monotonic() < end:
            time.sleep(_POLL_S)
            job = self.jobs.get(number, kind)
        return job

    def delete(self, kind: Kind, number: int) -> None:
        """Removes a job that has ended, with its files.

        Raises:
            Problem: There is none, or it has not ended.
        """
        job, folder = self.job(kind, number)
        self.jobs.delete(job)
        shutil.rmtree(folder.path, ignore_errors=True)

    def _tell(self, job: Job) -> Job:
        """Notes the status that a request gave to `job`, for those who follow it, and has the queue looked at."""
        if job.home in (None, self.home.id):
            folder = self.home.of(job)
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.events.append("status", status=job.status)
        self.worker.wake()
        return job
