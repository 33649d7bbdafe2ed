"""The process of a job that is asked to stop."""

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="the extra [serve] is not installed")

from a3gnn.service.jobs.database import open_service_database
from a3gnn.service.jobs.home import Home
from a3gnn.service.jobs.job_process import Outcome, RunningJob
from a3gnn.service.jobs.jobs import Jobs
from a3gnn.task import Task
from a3gnn.tuning.study.budget import stop_is_asked


@pytest.mark.parametrize("measured", [True, False])
def test_a_study_that_can_choose_is_ended_without_by_a_second_request_alone(tmp_path: Path, measured: bool) -> None:
    engine, home = open_service_database(str(tmp_path / "service.sqlite")), Home(tmp_path / "home")
    job = Jobs(engine, home.id, 1).add("study", "", 1, {}, None)
    engine.dispose()
    folder = home.of(job)
    lock = folder.lock()
    assert lock is not None
    folder.run.mkdir()
    if measured:
        (folder.run / "probes.jsonl").write_text("{}\n")
    arguments = {"dataset": "synthetic:nodes=300", "task": Task().to_dict(), "trainer": "server", "store": None}
    running = RunningJob(job, folder, lock, arguments, grace_s=0.0)
    running.stop()
    assert stop_is_asked(folder.run) is measured
    if measured:
        assert running.outcome() is None
        time.sleep(0.1)  # one that was killed is dead by then; importing torch takes longer
        assert running.outcome() is None
        folder.hurry.touch()
    end = time.monotonic() + 120
    while (outcome := running.outcome()) is None and time.monotonic() < end:
        time.sleep(0.01)
    assert outcome == Outcome("stopped")
    lock = folder.lock()
    assert lock is not None  # it was given back
    os.close(lock)
