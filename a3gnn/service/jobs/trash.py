"""`Trash`: deleted studies and trainings, which can be restored for a week."""

from __future__ import annotations

import shutil
import time

from a3gnn.service.jobs.home import Home
from a3gnn.service.jobs.job import Job, JobKind
from a3gnn.service.jobs.jobs import Jobs

#: Seconds for which a deleted job can be restored. Guess: a mistake is noticed within a week.
TRASH_S = 7 * 86_400.0


class Trash:
    """Takes jobs, gives them back, and removes them for good. Their files stay in place until then.

    Args:
        jobs: The queue.
        home: Has the jobs' files.
    """

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
