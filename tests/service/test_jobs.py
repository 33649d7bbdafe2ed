"""The queue's table: what is listed, and who begins what."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="the extra [serve] is not installed")

import json
import os
import time

import sqlalchemy as sa

from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.service.database import open_service_database
from a3gnn.service.graph_shelf import GraphShelf
from a3gnn.service.home import Home
from a3gnn.service.job import Kind
from a3gnn.service.job_filter import JobFilter
from a3gnn.service.jobs import Jobs
from a3gnn.service.problems import Problem
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.worker import QueueWorker


def test_a_list_has_what_was_just_changed(tmp_path: Path) -> None:
    engine = open_service_database(str(tmp_path / "service.sqlite"))
    jobs, asked = Jobs(engine, "here", 10), JobFilter("study")
    for number in range(3):
        job = jobs.add("study", f"{number}", 1, {}, None)
        listed = json.loads(jobs.newest_json(asked))
        assert listed == [one.to_dict() for one in jobs.newest(asked)]
        assert listed[0]["name"] == f"{number}"
    jobs.update(job.id, summary={"line": "said", "trials": 3}, error={"detail": "why"})
    assert json.loads(jobs.newest_json(asked)) == [one.to_dict() for one in jobs.newest(asked)]
    assert jobs.claim(job)
    jobs.ask_to_stop(job.id, "study")
    assert json.loads(jobs.newest_json(asked))[0]["status"] == "stopping"
    assert jobs.stops_asked([job.id, job.id + 1]) == {job.id, job.id + 1}
    engine.dispose()


def test_a_job_is_begun_by_one_server_where_it_may_be(tmp_path: Path) -> None:
    place = str(tmp_path / "service.sqlite")
    engines = [open_service_database(place) for _ in range(3)]
    queues = [Jobs(engine, f"home {number}", 10) for number, engine in enumerate(engines)]
    anyones, mine = queues[0].add("study", "", 1, {}, None), queues[0].add("study", "", 1, {}, "home 1")
    assert [[job.id for job in queue.waiting()] for queue in queues] == [
        [anyones.id],
        [anyones.id, mine.id],
        [anyones.id],
    ]
    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(lambda queue: queue.claim(anyones), queues)) == 1
    home = queues[0].get(anyones.id).home
    seen = [[job.id for job in queue.waiting() if job.status == "running"] for queue in queues]
    assert seen == [[anyones.id] if f"home {number}" == home else [] for number in range(3)]
    for engine in engines:
        engine.dispose()


@pytest.mark.parametrize(("kind", "other"), [("study", "training"), ("training", "study")])
def test_a_stop_reaches_jobs_of_its_kind_alone(tmp_path: Path, kind: Kind, other: Kind) -> None:
    engine = open_service_database(str(tmp_path / "service.sqlite"))
    jobs = Jobs(engine, "here", 10)
    waits, runs = jobs.add(kind, "", 1, {}, None), jobs.add(kind, "", 1, {}, None)
    assert jobs.claim(runs)
    for job, status in ((waits, "queued"), (runs, "running")):
        with pytest.raises(Problem, match=f"there is no {other} {job.id}"):
            jobs.ask_to_stop(job.id, other)
        assert (jobs.get(job.id).status, jobs.get(job.id).stop_asked) == (status, False)
    assert jobs.ask_to_stop(waits.id, kind).status == "stopped"
    assert jobs.ask_to_stop(runs.id, kind).stop_asked
    engine.dispose()


@pytest.mark.parametrize(
    ("breaks", "mends"),
    [
        ("CREATE TRIGGER away BEFORE UPDATE ON a3gnn_jobs BEGIN SELECT RAISE(ABORT, 'away'); END", "DROP TRIGGER away"),
        ("ALTER TABLE a3gnn_graphs RENAME TO away", "ALTER TABLE away RENAME TO a3gnn_graphs"),
        (None, None),
    ],
    ids=["claim", "graph", "file"],
)
def test_a_job_that_could_not_be_begun_can_be_begun_later(
    tmp_path: Path, breaks: str | None, mends: str | None
) -> None:
    engine = open_service_database(str(tmp_path / "service.sqlite"))
    home = Home(tmp_path / "home")
    jobs = Jobs(engine, home.id, 10)
    settings = ServiceSettings(folder=home.folder)
    worker = QueueWorker(jobs, GraphShelf(engine, home, settings), home, "", 1, ExecutorChoice())
    job = jobs.add("study", "", 1, {}, None)
    if breaks is None:
        home.of(job).events.path.mkdir(parents=True)  # where a file is to be
    else:
        with engine.begin() as connection:
            connection.execute(sa.text(breaks))
    worker.start()
    end = time.monotonic() + 30
    while not worker.failures and time.monotonic() < end:
        time.sleep(0.01)
    worker.close()
    assert worker.failures
    if mends is not None:
        with engine.begin() as connection:
            connection.execute(sa.text(mends))
    lock = home.of(job).lock()
    assert lock is not None
    os.close(lock)
    assert jobs.get(job.id).status == "queued"
    engine.dispose()
