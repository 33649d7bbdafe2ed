"""The queue's table: what is listed, and who begins what."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="the extra [serve] is not installed")

import json
import os
import subprocess
import sys
import threading
import time

import sqlalchemy as sa

from a3gnn.errors import UsageError
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.service.graphs.examiner import Examiner
from a3gnn.service.graphs.shelf import GraphShelf
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs import job_process
from a3gnn.service.jobs import job_process as running_job
from a3gnn.service.jobs.database import open_service_database
from a3gnn.service.jobs.home import Home, JobFolder, Places
from a3gnn.service.jobs.job import Job, JobKind
from a3gnn.service.jobs.job_process import Outcome, RunningJob
from a3gnn.service.jobs.jobs import TRASH_S, JobFilter, Jobs
from a3gnn.service.jobs.worker import QueueWorker
from a3gnn.service.service import Service
from a3gnn.service.settings import ServiceSettings
from a3gnn.task import Task


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
def test_a_stop_reaches_jobs_of_its_kind_alone(tmp_path: Path, kind: JobKind, other: JobKind) -> None:
    engine = open_service_database(str(tmp_path / "service.sqlite"))
    jobs = Jobs(engine, "here", 10)
    waits, runs = jobs.add(kind, "", 1, {}, None), jobs.add(kind, "", 1, {}, None)
    assert jobs.claim(runs)
    for job, status in ((waits, "queued"), (runs, "running")):
        with pytest.raises(ProblemDetails, match=f"{other} {job.id} does not exist"):
            jobs.ask_to_stop(job.id, other)
        assert (jobs.get(job.id).status, jobs.get(job.id).stop_asked) == (status, False)
    assert jobs.ask_to_stop(waits.id, kind).status == "stopped"
    assert jobs.ask_to_stop(runs.id, kind).stop_asked
    engine.dispose()


#: A process that is told to end, takes a moment, and says how it ended: a tune that was about to finish does.
_ENDING = """
import json, signal, sys, time

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # one that comes early waits for sigwait
open(sys.argv[1], "w").close()
signal.sigwait({signal.SIGTERM})
time.sleep(0.3)
print(json.dumps({"status": sys.argv[2]}))
"""


@pytest.mark.parametrize(
    ("status", "told", "left"),
    [
        ("finished", False, "finished"),
        ("failed", False, "failed"),
        ("stopped", False, "queued"),  # by the interrupt: it goes on later
        ("stopped", True, "stopped"),  # by a stop that was asked for before
    ],
)
def test_a_job_that_ends_while_its_server_does_is_not_queued_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, told: bool, left: str
) -> None:
    engine, home = open_service_database(str(tmp_path / "service.sqlite")), Home(tmp_path / "home")
    jobs, ready = Jobs(engine, home.id, 10), tmp_path / "ready"
    shelf = GraphShelf(engine, home, ServiceSettings(folder=home.folder), Examiner(home.places))
    worker = QueueWorker(jobs, shelf, home, "", 0, ExecutorChoice())
    job = jobs.add("study", "", 1, {}, None)
    assert jobs.claim(job)
    lock = home.of(job).lock()
    assert lock is not None
    command = [sys.executable, "-c", _ENDING, str(ready), status]
    monkeypatch.setattr(running_job, "start_program", lambda *_: subprocess.Popen(command, stdout=subprocess.PIPE))
    running = worker._running[job.id] = RunningJob(job, home.of(job), lock, {})
    end = time.monotonic() + 120
    while not ready.exists() and time.monotonic() < end:
        time.sleep(0.01)
    if told:
        running.stop()
    worker._closing.set()
    worker.start()
    worker.close()
    assert jobs.get(job.id).status == left
    assert json.loads(home.of(job).events.path.read_text().splitlines()[-1])["data"]["status"] == left
    engine.dispose()


def is_due(service: Service, job: Job) -> bool:
    """Whether the job forgets its failed trials when it goes on."""
    return bool(service.jobs.get(job.id).arguments.get("retry"))


def test_failures_are_forgotten_once_that_was_asked_for_whatever_has_the_study_go_on(tmp_path: Path) -> None:
    with Service(ServiceSettings(folder=tmp_path / "home", at_once=0)) as service:
        job = service.jobs.add("study", "", 1, {}, None)
        with pytest.raises(ProblemDetails, match="waits or runs already"):
            service.resume(job, {}, forget=True)
        assert not is_due(service, job)
        service.stop("study", job.id)
        service.resume(job, {}, forget=True)  # at any server, because the database has it
        assert is_due(service, job)
        service.stop("study", job.id)
        service.resume(job, {})  # that retry never ran: it is still due
        assert is_due(service, job)


def test_a_retry_of_a_study_that_had_measured_nothing_is_over_once_it_begins(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "1", Places((tmp_path,)))
    folder.ask_for_retries()
    given = {"task": Task().to_dict(), "trials": {}, "trainer": "server", "dataset": "synthetic:", "priority": "none"}
    with pytest.raises(UsageError):
        job_process._tune(folder, given)
    assert not folder.retries.exists()


def test_of_two_requests_at_once_the_one_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    with Service(ServiceSettings(folder=tmp_path / "home", at_once=0)) as service:
        job = service.jobs.add("study", "", 1, {}, None)
        for _ in range(20):
            service.stop("study", job.id)
            service.jobs.update(job.id, arguments={})  # as the server does that begins it
            ended, meet = service.jobs.get(job.id), threading.Barrier(2)

            def ask(forget: bool, job: Job = ended, meet: threading.Barrier = meet) -> bool:
                meet.wait(30)
                try:
                    service.resume(job, {}, forget=forget)
                except ProblemDetails:
                    return False
                return True

            with ThreadPoolExecutor(2) as pool:
                queued = dict(zip((True, False), pool.map(ask, (True, False)), strict=True))
            assert sorted(queued.values()) == [False, True]
            assert is_due(service, job) is queued[True]


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
    worker = QueueWorker(jobs, GraphShelf(engine, home, settings, Examiner(home.places)), home, "", 1, ExecutorChoice())
    job = jobs.add("study", "", 1, {}, None)
    if breaks is None:
        home.of(job).events.path.mkdir(parents=True)  # where a file is to be
    else:
        with engine.begin() as connection:
            connection.execute(sa.text(breaks))
    worker.start()
    end = time.monotonic() + 120
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


def test_a_retry_is_asked_for_at_any_server_and_obeyed_where_the_files_are(tmp_path: Path) -> None:
    place = str(tmp_path / "service.sqlite")
    with (
        Service(ServiceSettings(folder=tmp_path / "one", database=place, at_once=0)) as one,
        Service(ServiceSettings(folder=tmp_path / "other", database=place, at_once=0)) as other,
    ):
        job = one.jobs.add("study", "", 1, {"trainer": "server"}, one.home.id)
        one.stop("study", job.id)
        queued = other.resume(other.jobs.get(job.id), job.arguments, forget=True)
        assert queued.arguments == {"trainer": "server", "retry": True}
        one.worker._begin(one.jobs.get(job.id))  # its graph does not exist, so it fails
        assert one.home.of(job).retries.exists()
        assert not other.home.of(job).path.exists()
        assert one.jobs.get(job.id).arguments == {"trainer": "server"}


def test_an_end_that_the_database_does_not_take_is_recorded_later(tmp_path: Path) -> None:
    engine, home = open_service_database(str(tmp_path / "service.sqlite")), Home(tmp_path / "home")
    jobs = Jobs(engine, home.id, 10)
    shelf = GraphShelf(engine, home, ServiceSettings(folder=home.folder), Examiner(home.places))
    worker = QueueWorker(jobs, shelf, home, "", 1, ExecutorChoice())
    job = jobs.add("study", "", 1, {}, None)
    assert jobs.claim(job)
    home.of(job).path.mkdir(parents=True)
    worker._ended[job.id] = job, Outcome("stopped")
    with engine.begin() as connection:
        connection.execute(
            sa.text("CREATE TRIGGER full BEFORE UPDATE ON a3gnn_jobs BEGIN SELECT RAISE(ABORT, 'x'); END")
        )
    with pytest.raises(sa.exc.SQLAlchemyError):
        worker._record_ends()
    worker._look()  # a running job without a process goes on elsewhere, but this one has ended
    assert jobs.get(job.id).status == "running"
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER full"))
    worker._record_ends()
    assert jobs.get(job.id).status == "stopped"
    assert not worker._ended
    engine.dispose()


def test_no_job_ends_before_it_began_if_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, home = open_service_database(str(tmp_path / "service.sqlite")), Home(tmp_path / "home")
    jobs = Jobs(engine, home.id, 10)
    shelf = GraphShelf(engine, home, ServiceSettings(folder=home.folder), Examiner(home.places))
    worker = QueueWorker(jobs, shelf, home, "", 1, ExecutorChoice())
    ends = jobs.add("study", "", 1, {}, None)
    stops = jobs.add("study", "", 1, {}, None)
    for job in (ends, stops):
        assert jobs.claim(job)
        home.of(job).path.mkdir(parents=True)
    jobs.update(stops.id, status="queued")  # as when its server ended
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    worker._end(ends, Outcome("finished"))
    jobs.ask_to_stop(stops.id, "study")
    for job in (ends, stops):
        found = jobs.get(job.id)
        assert found.started is not None
        assert found.ended is not None
        assert found.ended >= found.started
    engine.dispose()


def test_a_study_stays_while_a_training_needs_its_choice(tmp_path: Path) -> None:
    with Service(ServiceSettings(folder=tmp_path / "home", at_once=0)) as service:
        graph = service.graphs.register("synthetic:nodes=300,degree=8,classes=4,features=16")
        study = service.jobs.add("study", "", graph.id, {}, None)
        service.stop("study", study.id)
        training = service.jobs.add("training", "", graph.id, {}, None, study.id)
        with pytest.raises(ProblemDetails, match=f"training {training.id} needs the choice of study {study.id}"):
            service.trash.put("study", study.id)
        service.stop("training", training.id)
        service.trash.put("study", study.id)
        with pytest.raises(ProblemDetails, match=f"study {study.id} is in the trash"):
            service.worker._arguments(service.jobs.get(training.id))


def test_the_trash_keeps_files_for_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(ServiceSettings(folder=tmp_path / "home", at_once=0)) as service:
        graph = service.graphs.register("synthetic:nodes=300,degree=8,classes=4,features=16")
        studies = [service.begin("study", "", graph, {}) for _ in range(2)]
        for study in studies:
            service.stop("study", study.id)
            service.trash.put("study", study.id)
        service.trash.purge()
        folders = [service.home.of(study).path for study in studies]
        assert all(folder.is_dir() for folder in folders)
        service.trash.restore("study", studies[0].id)
        monkeypatch.setattr(time, "time", partial(float, time.time() + TRASH_S + 1))
        service.trash.purge()
        assert [folder.is_dir() for folder in folders] == [True, False]
        assert service.jobs.get(studies[0].id).deleted is None
        with pytest.raises(ProblemDetails, match="does not exist"):
            service.jobs.get(studies[1].id, deleted=True)
