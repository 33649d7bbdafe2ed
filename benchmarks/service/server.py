"""A server with a folder of its own, and studies that it finds finished there."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from a3gnn.objectives import Priority
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.service.jobs.database import open_service_database
from a3gnn.service.jobs.home import Home
from a3gnn.service.jobs.jobs import Jobs
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.measured_front import measured_front
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.study.trial import Trial
from benchmarks.engine.client import cpu_seconds, mapped


def fill(folder: Path, studies: int, trials: int) -> None:
    """Makes a home of so many finished studies, whose trials are shipped measurements."""
    home = Home(folder)
    rows = shipped_measurements()
    setting = max((row.setting for row in rows), key=lambda one: sum(row.setting == one for row in rows))
    mine = [row for row in rows if row.setting == setting]
    made = tuple(Trial("front", {}, mine[n % len(mine)]) for n in range(trials))
    request = TuneRequest("", setting.task, Priority.parse("throughput"), None, None, 1.0, trials, "ei")
    front = measured_front(History(Study.of(request, setting), made))
    files = {
        "request.json": json.dumps(request.to_dict()),
        "probes.jsonl": "".join(json.dumps(trial.to_dict()) + "\n" for trial in made),
        "state.json": json.dumps({"elapsed_s": 300.0, "finished_budget": trials}),
        "front.json": json.dumps(front.to_dict()),
    }
    engine = open_service_database(str(folder / "service.sqlite"))
    jobs = Jobs(engine, home.id, studies)
    arguments = {"priority": "throughput", "budget": trials, "task": setting.task.to_dict()}
    for number in range(studies):
        job = jobs.add("study", f"study {number}", 1, arguments, home.id)
        run = home.of(job).run
        run.mkdir(parents=True)
        for name, text in files.items():
            (run / name).write_text(text)
        summary = {"line": "chosen   batch 8192", "trials": trials}
        jobs.update(job.id, status="finished", started=time.time(), ended=time.time(), summary=summary)
    engine.dispose()


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        port: Its port at 127.0.0.1.
        process: Its process.
    """

    port: int
    process: int

    @property
    def cpu_seconds(self) -> float:
        """The processor time that it has taken, without that of its studies' processes."""
        return cpu_seconds(self.process)

    @property
    def anonymous_bytes(self) -> int:
        """The memory that it holds, without files that are mapped."""
        return mapped(self.process)["Anonymous"]


@contextmanager
def serving(folder: Path, at_once: int, files: int | None = None) -> Iterator[Server]:
    """Yields a server of `folder`, in which so many studies run at once; `files` limits its open files."""
    command = [sys.executable, "-m", "a3gnn", "serve", "--folder", str(folder), "--port", "0"]
    limit = None if files is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
    process = subprocess.Popen(
        [*command, "--at-once", str(at_once)], stderr=subprocess.PIPE, text=True, preexec_fn=limit
    )
    assert process.stderr is not None
    with process.stderr as said:
        try:
            yield Server(int(said.readline().split()[3].rpartition(":")[2]), process.pid)
        finally:
            process.terminate()
            process.wait()
