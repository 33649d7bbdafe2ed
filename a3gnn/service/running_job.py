"""`RunningJob`: the process of a job, followed from its server."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.process.child import start_program
from a3gnn.process.memory import described_status
from a3gnn.service.home import JobFolder
from a3gnn.service.job import Job
from a3gnn.service.problems import ProblemDetails
from a3gnn.tuning.study.budget import ask_to_stop

#: Seconds after which a process that must end is killed; the longer time is for a study that may choose first. A tune
#: looks for a stop once it has loaded its graph, which may take minutes. Guesses: the choice itself takes a second or
#: two.
_GRACE_S, _CHOICE_S = 20.0, 1800.0
#: Characters at the end of a process's stderr that an error quotes.
_DETAIL_CHARACTERS = 2000


class Outcome(NamedTuple):
    """The final status of a job, and the problem if it failed."""

    status: str
    error: dict[str, Any] | None = None


class RunningJob:
    """Starts the process of `job`.

    The process ends with the thread that starts it, which must live as long as the server.

    Args:
        job: The job to run.
        folder: Its folder.
        lock: The open lock file, closed when the process has ended.
        arguments: The arguments of `tune` or `train`.

    Attributes:
        interrupted: Whether it was interrupted so that it can continue later.
    """

    def __init__(self, job: Job, folder: JobFolder, lock: int, arguments: dict[str, Any]) -> None:
        self.job, self.folder = job, folder
        self._lock = lock
        self._told: float | None = None
        self._chooses = self.interrupted = False
        places = {"folder": str(folder.path), "folders": folder.places.folders}
        order = {"kind": job.kind, **places, "arguments": arguments}
        with folder.log.open("ab") as log:
            self._process = start_program("a3gnn.service.job_process", order, log)

    def outcome(self) -> Outcome | None:
        """Returns the outcome, or None while the process runs. Kills a process that takes too long to end."""
        status = self._process.poll()
        if status is None:
            if self._told is not None and time.monotonic() > self._told + self._grace_s():
                self.kill()
            return None
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            said = stdout.read()
        os.close(self._lock)
        try:
            return Outcome(**json.loads(said))
        except (ValueError, TypeError):
            if self._told is not None:
                return Outcome("stopped")
            text = self.folder.log.read_text(encoding="utf-8", errors="replace")[-_DETAIL_CHARACTERS:]
            ended = described_status(status)
            detail = f"its process ended with {ended}; POST .../resume goes on after its last trial: {text}"
            return Outcome("failed", ProblemDetails(500, "failed", self.folder.places.shown(detail)).to_dict())

    def stop(self) -> None:
        """Ends the job now. A study with measurements chooses the best so far before it ends.

        A study can't choose while it loads a large graph, for example. A second request then ends it without a choice.
        """
        if self._told is None:
            self._told = time.monotonic()
            if self.job.kind == "study" and _has_lines(self.folder.run / "probes.jsonl"):
                self._chooses = True
                ask_to_stop(self.folder.run)
            else:
                self._process.terminate()

    def interrupt(self) -> None:
        """Ends the process now, so that the job can continue later as if it had not been interrupted."""
        if self._told is None:
            self._told = time.monotonic()
            self.interrupted = True
            self._process.terminate()

    def _grace_s(self) -> float:
        return _CHOICE_S if self._chooses and not self.folder.hurry.exists() else _GRACE_S

    def kill(self) -> None:
        """Kills the process; its files stay."""
        self._process.kill()


def _has_lines(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
