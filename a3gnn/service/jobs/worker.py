"""`QueueWorker`: the thread that begins the jobs of the queue, and watches them until they end."""

from __future__ import annotations

import os
import threading
import time
import traceback
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from a3gnn.errors import A3GNNError
from a3gnn.notify import LOOK_S
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.service.graphs.shelf import GraphShelf
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs.home import Home
from a3gnn.service.jobs.job import RETRY, Job
from a3gnn.service.jobs.job_process import Outcome, RunningJob
from a3gnn.service.jobs.jobs import TRASH_S, Jobs, Trash
from a3gnn.service.studies.study_files import summary
from a3gnn.service.studies.told_trials import Suggestions
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.study.budget import forget_stop
from a3gnn.units import format_duration

#: Seconds between two looks at what has been in the trash for too long: a thousandth of that time.
_PURGE_S = TRASH_S / 1000
#: Most studies at once whose trials the client runs; each takes the memory of a process, but no core.
_TOLD_AT_ONCE = 4
#: Seconds that open requests get to end when the server ends, and then jobs: together less than the ten seconds after
#: which `docker stop` kills a server.
LEAVE_S = 4


class QueueWorker(threading.Thread):
    """Runs at most `at_once` jobs, oldest first. Jobs that ran when their server died go on.

    Args:
        jobs: The queue.
        graphs: Finds a job's graph.
        home: Holds the jobs' files.
        store: The profile store of studies: a path or an SQLAlchemy URL.
        at_once: Most jobs at once; studies whose trials the client runs are counted apart.
        trials: Where trials run.
        lease_s: Seconds without a client after which such a study makes room for another one.
    """

    def __init__(
        self,
        jobs: Jobs,
        graphs: GraphShelf,
        home: Home,
        store: str,
        at_once: int,
        trials: ExecutorChoice,
        lease_s: float = 3600.0,
    ) -> None:
        super().__init__(name="queue", daemon=True)
        self._jobs, self._graphs, self._home, self._store, self._at_once = jobs, graphs, home, store, at_once
        self._trials, self._lease_s = trials, lease_s
        self._running: dict[int, RunningJob] = {}
        self._ended: dict[int, tuple[Job, Outcome]] = {}  # the database does not have it yet
        self._printed = ""  # the last failure, until the queue goes on
        self._wake, self._closing = threading.Event(), threading.Event()
        self._sizes: dict[int, int] = {}
        self._trash, self._purged = Trash(jobs, home), -_PURGE_S
        self.failures = 0

    def wake(self) -> None:
        """Makes the thread look at the queue now."""
        self._wake.set()

    def close(self) -> None:
        """Interrupts running jobs, puts them back into the queue, and ends the thread."""
        self._closing.set()
        self._wake.set()
        self.join(2 * LEAVE_S)

    def stop(self, number: int) -> bool:
        """Stops a job that runs here, even if the database can't be written; returns whether it runs here."""
        running = self._running.get(number)
        if running is None:
            return False
        running.stop()
        return True

    def run(self) -> None:
        """Looks at processes and at the queue until `close` is called."""
        while not self._closing.is_set():
            try:
                self._wake.clear()
                self._reap()
                self._look()
                self._record_ends()
                self._printed = ""
            except Exception as error:  # such as a lost database or a full disk: the queue goes on once that is over
                self._print(error)
                self.failures += 1
                self._closing.wait(LOOK_S)
            self._wake.wait(LOOK_S)
        self._leave()

    def _look(self) -> None:
        """Stops jobs that were asked to stop, then begins the next ones."""
        if self._running:
            for number in self._jobs.stops_asked(list(self._running)):
                self._running[number].stop()
        self._summarize()
        if time.monotonic() > self._purged + _PURGE_S:
            self._purged = time.monotonic()
            self._trash.purge()
        for job in self._jobs.waiting():
            if job.id in self._running or job.id in self._ended:
                continue
            if self._has_room(job):
                self._begin(job)
            elif job.is_told:
                self._end_lease()

    def _end_lease(self) -> None:
        """Stops the study whose client has been silent for longest, if that is longer than the lease.

        A trial of the client's may take long, so a study keeps its place until another one needs it.
        """
        told = [one for one in self._running.values() if one.job.is_told]
        seen = {one.job.id: max(one.begun, Suggestions(one.folder.asked).client_seen()) for one in told}
        longest = min(told, key=lambda one: seen[one.job.id], default=None)
        if longest is None or any(one.is_ending for one in told):
            return
        if time.time() > seen[longest.job.id] + self._lease_s:
            text = f"stopped: no client for {format_duration(self._lease_s)}, and another study needs its place"
            longest.folder.events.append("line", text=text)
            longest.stop()

    def _print(self, error: Exception) -> None:
        """Prints the traceback of `error`, unless the queue has not gone on since it was printed."""
        if self._printed != repr(error):
            self._printed = repr(error)
            traceback.print_exception(error)

    def _has_room(self, job: Job) -> bool:
        """Whether one more job like this may run. Studies whose trials the client runs are counted apart."""
        alike = sum(running.job.is_told == job.is_told for running in self._running.values())
        return alike < (_TOLD_AT_ONCE if job.is_told and self._at_once else self._at_once)

    def _begin(self, job: Job) -> None:
        folder = self._home.of(job)
        lock = folder.lock()
        if lock is None:
            return  # another server runs it
        with ExitStack() as given_up:
            given_up.callback(os.close, lock)
            if job.is_told:  # figures that arrive before the new process asks again would be lost
                Suggestions(folder.asked).set_aside()
            if not self._jobs.claim(job):
                return
            try:
                folder.hurry.unlink(missing_ok=True)
                if not job.stop_asked:
                    forget_stop(folder.run)  # a request that came as an earlier run ended
                if job.arguments.get(RETRY):
                    folder.ask_for_retries()
                    self._jobs.update(job.id, arguments=_without_retry(job))
                folder.events.append("status", status="running")
                self._running[job.id] = RunningJob(job, folder, lock, self._arguments(job))
                given_up.pop_all()  # the running job closes it
            except ProblemDetails as problem:
                self._end(job, Outcome("failed", problem.to_dict()))
            except Exception:  # no memory for a process, a full disk, no database: it may work later
                self._jobs.update(job.id, status="queued")
                raise

    def _arguments(self, job: Job) -> dict[str, Any]:
        spec = self._graphs.get(job.graph).spec
        if job.kind == "training":
            return {**job.arguments, "dataset": spec, "config": str(self._choice(job))}
        return {**_without_retry(job), "dataset": spec, "store": self._store, "trials": self._trials.to_dict()}

    def _choice(self, job: Job) -> Path:
        """Returns the tuned.json of a training: a copy, because its study may choose anew, or be removed."""
        kept = self._home.of(job).choice
        if not kept.exists():
            study = self._home.of(self._jobs.get(job.study or 0, "study"))
            tuned = study.run / "tuned.json"
            if not tuned.exists():
                return study.run  # `train` says what is missing
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text(kept, tuned.read_text(encoding="utf-8"))
        return kept

    def _reap(self) -> None:
        for number, running in list(self._running.items()):
            outcome = running.outcome()
            if outcome is not None:
                self._ended[number] = running.job, outcome
                del self._running[number]

    def _record_ends(self) -> None:
        """Writes the outcomes of jobs that have ended; the next look tries again if the database can't take them."""
        for number, (job, outcome) in list(self._ended.items()):
            self._end(job, outcome)
            del self._ended[number]
            self._wake.set()

    def _end(self, job: Job, outcome: Outcome) -> None:
        with suppress(OSError, A3GNNError):  # if its files can't be read, the old summary stays
            self._jobs.update(job.id, summary=summary(self._home.of(job)))
        self._sizes.pop(job.id, None)
        ended = time.time()
        with suppress(ProblemDetails):  # it was deleted
            ended = max(ended, self._jobs.get(job.id).started or 0.0)  # the clock may have been set back
        self._jobs.update(job.id, status=outcome.status, error=outcome.error, ended=ended, stop_asked=False)
        with suppress(OSError):  # the database has it, and readers look there, too
            self._home.of(job).events.append("status", status=outcome.status, error=outcome.error)

    def _summarize(self) -> None:
        """Writes the summaries of running jobs with new events."""
        for number, running in self._running.items():
            size = running.folder.events.size
            if self._sizes.get(number) != size:
                self._sizes[number] = size
                with suppress(A3GNNError):
                    self._jobs.update(number, summary=summary(running.folder))

    def _leave(self) -> None:
        """Interrupts running jobs. The next server continues the jobs that do not end in time."""
        for running in self._running.values():
            running.interrupt()
        end = time.monotonic() + LEAVE_S
        for job, ended in self._ended.values():
            with suppress(SQLAlchemyError, OSError):
                self._end(job, ended)
        for running in self._running.values():
            while (outcome := running.outcome()) is None and time.monotonic() < end:
                time.sleep(LOOK_S)
            running.kill()
            with suppress(SQLAlchemyError, OSError):
                if outcome is None or (running.interrupted and outcome.status == "stopped"):
                    self._jobs.update(running.job.id, status="queued")
                    running.folder.events.append("status", status="queued")
                else:  # it ended by itself, or because of an earlier request to stop
                    self._end(running.job, outcome)


def _without_retry(job: Job) -> dict[str, Any]:
    return {name: value for name, value in job.arguments.items() if name != RETRY}
