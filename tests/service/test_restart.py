"""Servers that are killed or ended: what was measured is there, what ran goes on, and no finished trial runs again."""

import json
import os
import signal
from pathlib import Path

import pytest

from a3gnn.service.client import Client
from a3gnn.service.service import Service
from a3gnn.service.settings import ServiceSettings
from tests.service.servers import GRAPH, QUICK, SMALL, Server, journal, serving
from tests.service.test_studies import wait_for

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = pytest.mark.slow


def processes_of(folder: Path) -> list[int]:
    """The processes that have a file in `folder` open."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            files = [os.readlink(file) for file in (process / "fd").iterdir()] if process.name.isdecimal() else []
        except OSError:
            continue
        if any(file.startswith(str(folder)) for file in files):
            found.append(int(process.name))
    return found


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.weekly)],
    ids=lambda number: number.name,
)
def test_a_study_goes_on_where_its_server_ended(tmp_path: Path, number: int) -> None:
    with serving(tmp_path / "home") as server:
        study = Client(server.url).start(GRAPH, **SMALL, budget=2)
        waiting = Client(server.url).start(study.state()["graph"], **QUICK, budget=1000, seed=3)
        wait_for(lambda: study.state().get("trials", 0) >= 2)
        status = server.end(number)
        assert status == (-signal.SIGKILL if number == signal.SIGKILL else 0)
        wait_for(lambda: not processes_of(tmp_path / "home"))  # nothing measures on without its server
        before = journal(server.folder, study.id)
        before = before if before[-1].endswith("}") else before[:-1]
        server.start()
        lines: list[str] = []
        tuned = study.wait(lines.append)
        after = journal(server.folder, study.id)
        assert after[: len(before)] == before
        assert any("resuming after" in line for line in lines)
        measured = [json.loads(line) for line in after]
        configs = [json.dumps(one["measurement"]["config"]) for one in measured]
        assert len(set(configs)) == len(configs)
        assert sum(one["reason"] != "default" for one in measured) == 2
        assert study.state()["status"] == "finished"
        assert tuned.config == study.tuned().config
        wait_for(lambda: waiting.state()["status"] == "running")


@pytest.mark.weekly  # a killed server goes on above
def test_a_stop_that_a_crash_overtook_is_obeyed_after_the_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        study = Client(server.url).start(GRAPH, **QUICK, budget=1000)
        wait_for(lambda: study.state().get("trials", 0) >= 2)
        worker = json.loads(server.ask("GET", f"/studies/{study.id}").content)
        assert worker["status"] == "running"
        os.kill(server.process.pid, signal.SIGSTOP)
        server.end(signal.SIGKILL)
        _ask_to_stop(server, study.id)
        server.start()
        study.wait()
        assert study.state()["status"] == "stopped"


def _ask_to_stop(server: Server, study: int) -> None:
    """Writes what a request to stop writes, as one did that came just before the server died."""
    from a3gnn.service.jobs.database import open_service_database
    from a3gnn.service.jobs.jobs import Jobs

    engine = open_service_database(str(server.folder / "service.sqlite"))
    Jobs(engine, "", 1).ask_to_stop(study, "study")
    engine.dispose()


def test_a_second_stop_is_noted_where_the_study_runs(tmp_path: Path) -> None:
    with Service(ServiceSettings(folder=tmp_path / "home", at_once=0)) as service:
        job = service.jobs.add("study", "", 1, {}, None)
        folder = service.home.of(job)
        folder.path.mkdir()
        assert service.jobs.claim(job)
        for again in (False, True):
            assert service.stop("study", job.id).stop_asked
            assert folder.hurry.exists() is again


@pytest.mark.weekly  # the jobs are locked in test_jobs
def test_two_servers_share_a_folder_and_run_each_study_once(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as one, serving(tmp_path / "home") as other:
        client = Client(one.url)
        studies = [client.start(GRAPH, **QUICK, budget=1000, seed=seed) for seed in range(2)]
        for study in studies:
            followed = Client(other.url).study(study.id)
            wait_for(followed.trials)
            followed.stop()
            followed.wait()
            events = one.ask("GET", f"/studies/{study.id}/events").content
            assert events.count(b'"status": "running"') == 1
