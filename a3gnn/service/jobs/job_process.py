"""`RunningJob`: the process of a job, followed from its server; `main` is what runs in it."""

from __future__ import annotations

import json
import os
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn._imports import importing
from a3gnn.notify import shown, with_details
from a3gnn.process.child import carry_out, described_status, interrupt_by_sigterm, start_program
from a3gnn.process.machine_turn import machine_turn
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs.home import JobFolder, Places
from a3gnn.service.jobs.job import Job
from a3gnn.task import Task
from a3gnn.tuning.study.budget import ask_to_stop
from a3gnn.units import count

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
        lock: The open lock file, closed when the process has ended.
        arguments: The arguments of `tune` or `train`.
        grace_s: Seconds after which a process that must end is killed. One that may choose first has as long as nobody
            asks again: a tune looks for a stop once it has loaded its graph, which may take minutes.

    Attributes:
        interrupted: Whether it was interrupted so that it can continue later.
        begun: When it began, in seconds since 1970.
    """

    def __init__(
        self, job: Job, folder: JobFolder, lock: int, arguments: dict[str, Any], grace_s: float = 20.0
    ) -> None:
        self.job, self.folder = job, folder
        self._lock, self._grace_s = lock, grace_s
        self.begun = time.time()
        self._told: float | None = None
        self._chooses = self.interrupted = False
        places = {"folder": str(folder.path), "folders": folder.places.folders}
        order = {"kind": job.kind, **places, "arguments": arguments}
        with folder.log.open("ab") as log:
            self._process = start_program("a3gnn.service.jobs.job_process", order, log)

    def outcome(self) -> Outcome | None:
        """Returns the outcome, or None while the process runs. Kills a process that takes too long to end."""
        status = self._process.poll()
        if status is None:
            may_choose = self._chooses and not self.folder.hurry.exists()
            if self._told is not None and not may_choose and time.monotonic() > self._told + self._grace_s:
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
            text = ""
            with suppress(OSError):
                text = self.folder.log.read_text(encoding="utf-8", errors="replace")[-_DETAIL_CHARACTERS:]
            ended = described_status(status)
            detail = (
                f"the job's process ended with {ended}; POST .../resume continues after its last trial; its log ends "
                f"with: {text}"
            )
            return Outcome("failed", ProblemDetails(500, "failed", self.folder.places.shown(detail)).to_dict())

    @property
    def is_ending(self) -> bool:
        """Whether it was asked to stop, or interrupted."""
        return self._told is not None

    def stop(self) -> None:
        """Ends the job now. A study with measurements chooses the best so far before it ends.

        A study can't choose while it loads a large graph, for example. A second request then ends it without a choice.
        """
        if self._told is None:
            self._told = time.monotonic()
            if self.job.kind == "study" and _trials(self.folder.run / "probes.jsonl"):
                try:
                    ask_to_stop(self.folder.run)
                    self._chooses = True
                    return
                except OSError:  # a full disk: it ends without a choice
                    pass
            self._process.terminate()

    def interrupt(self) -> None:
        """Ends the process now, so that the job can continue later as if it had not been interrupted."""
        if self._told is None:
            self._told = time.monotonic()
            self.interrupted = True
            self._process.terminate()

    def kill(self) -> None:
        """Kills the process; its files stay."""
        self._process.kill()


def main() -> None:
    """Runs one job: `python -m a3gnn.service.jobs.job_process`.

    It reads one JSON object from stdin:

        {"parent": PID, "kind": "study" or "training", "folder": PATH, "folders": [PATH, ...], "arguments": {...}}

    It calls `tune` or `train` with the arguments, and appends events to events.jsonl in the folder, with paths below
    `folders` shortened. At the end it writes the outcome to stdout: {"status": "finished" or "stopped"} or
    {"status": "failed", "error": PROBLEM}. It ends when its parent does, together with the running trial. Started again
    with the same order, it continues after the last trial that ended. SIGTERM ends it as Ctrl-C ends a tune.
    """
    interrupt_by_sigterm()
    carry_out(lambda order, say: say(_outcome(order)))


def _outcome(order: Mapping[str, Any]) -> dict[str, Any]:
    folder = JobFolder(Path(order["folder"]), Places(order["folders"]))
    try:
        stopped = {"study": _tune, "training": _train}[order["kind"]](folder, dict(order["arguments"]))
    except KeyboardInterrupt:
        return {"status": "stopped"}
    except Exception as error:
        problem = ProblemDetails.of(error)
        if problem.kind == "internal":
            traceback.print_exc()
        return {"status": "failed", "error": folder.places.shown_in(problem.to_dict())}
    return {"status": "stopped" if stopped else "finished"}


def _tune(folder: JobFolder, arguments: dict[str, Any]) -> bool:
    """Tunes, and returns whether it was stopped before the budget was used up."""
    with importing():
        from a3gnn.profiling.executor_choice import ExecutorChoice
        from a3gnn.profiling.store.store import ProfileStore
        from a3gnn.service.studies.told_trials import Suggestions, ToldTrials
        from a3gnn.tuning.study.choice import STOPPED
        from a3gnn.tuning.study.folder import forget_failures
        from a3gnn.tuning.tune import tune

    folder.phase.unlink(missing_ok=True)
    resume = _goes_on(folder, "probes.jsonl")
    task = Task.from_dict(arguments.pop("task"))
    choice, notify = ExecutorChoice(**arguments.pop("trials")), _listener(folder)
    told = None
    if arguments.pop("trainer") == "client":  # other studies must not use the figures of another trainer
        told, choice, arguments["store"] = ToldTrials(Suggestions(folder.asked)), ExecutorChoice(), None
    if folder.retries.exists():
        if resume:  # else there is nothing to forget
            with ProfileStore.open(arguments["store"] or folder.run / "profiles.sqlite") as store:
                forgotten = count(forget_failures(folder.run, store), "failed trial")
            folder.events.append("line", text=f"{forgotten} forgotten")
        folder.retries.unlink()
    with choice.opened(notify) as machines:
        result = tune(task=task, out=folder.run, resume=resume, notify=notify, executor=told or machines, **arguments)
    return STOPPED in result.tuned.left_out


def _train(folder: JobFolder, arguments: dict[str, Any]) -> bool:
    with importing():
        from a3gnn.apply.train import train

    notify = _listener(folder)
    with machine_turn(notify):
        train(out=folder.run, resume=_goes_on(folder, "checkpoint.pt"), notify=notify, **arguments)
    return False


def _goes_on(folder: JobFolder, name: str) -> bool:
    """Returns whether the folder has the file `name`, so that its run can be continued.

    Otherwise removes the folder, which may be left from a run that was killed early.
    """
    if (folder.run / name).exists():
        return True
    shutil.rmtree(folder.run, ignore_errors=True)
    return False


def _listener(folder: JobFolder) -> Callable[[str], None]:
    """Returns a function that logs each line and each phase, and an event for each trial that has ended since."""
    from a3gnn.tuning.tell.events import PhaseEvent

    journal, seen = folder.run / "probes.jsonl", _trials(folder.run / "probes.jsonl")

    def listen(line: str) -> None:
        nonlocal seen
        event = getattr(line, "event", None)
        if isinstance(event, PhaseEvent):
            folder.phase.write_text(event.phase, encoding="ascii")
            folder.events.append("phase", phase=event.phase)
        if text := shown(line):
            folder.events.append("line", text=folder.places.shown(text))
        trials = _trials(journal)
        for number in range(seen, trials):
            folder.events.append("trial", trial=number)
        seen = trials

    warnings.showwarning = lambda message, *_: listen(str(message))
    return with_details(listen)


def _trials(journal: Path) -> int:
    try:
        return journal.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    main()
