"""The process of one job: `python -m a3gnn.service.job_process`, started by `a3gnn.service.running_job`.

It reads one JSON object from stdin:

    {"parent": PID, "kind": "study" or "training", "folder": PATH, "folders": [PATH, ...], "arguments": {...}}

It calls `tune` or `train` with the arguments, and appends events to events.jsonl in the folder, with paths below
`folders` shortened. At the end it writes the outcome to stdout: {"status": "finished" or "stopped"} or
{"status": "failed", "error": PROBLEM}. It ends when its parent does, together with the running trial. Started again
with the same order, it continues after the last trial that ended. SIGTERM ends it as Ctrl-C ends a tune.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from a3gnn.process.child import interrupt_by_sigterm, take_order, take_stdout
from a3gnn.process.machine_turn import machine_turn
from a3gnn.service.home import JobFolder, Places
from a3gnn.service.problems import ProblemDetails
from a3gnn.task import Task
from a3gnn.threads import wait_policy
from a3gnn.units import count


def main() -> None:
    """Runs the job that is described on stdin."""
    wait_policy.adopt()
    interrupt_by_sigterm()
    order = take_order()
    if order is None:
        return
    answer = take_stdout()
    os.write(answer, json.dumps(_outcome(order)).encode())
    sys.stderr.flush()
    os._exit(0)  # everything is on disk, and torch takes a second to unload


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
    from a3gnn.profiling.executor_choice import ExecutorChoice
    from a3gnn.profiling.store.store import ProfileStore
    from a3gnn.service.told_trials import Suggestions, ToldTrials
    from a3gnn.tuning.run.forget_failures import forget_failures
    from a3gnn.tuning.study.choice import STOPPED
    from a3gnn.tuning.tune import tune

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
    """Returns a function that logs each line, and logs an event for each trial that has ended since."""
    journal, seen = folder.run / "probes.jsonl", _trials(folder.run / "probes.jsonl")

    def listen(line: str) -> None:
        nonlocal seen
        folder.events.append("line", text=folder.places.shown(line))
        trials = _trials(journal)
        for number in range(seen, trials):
            folder.events.append("trial", trial=number)
        seen = trials

    return listen


def _trials(journal: Path) -> int:
    try:
        return journal.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    main()
