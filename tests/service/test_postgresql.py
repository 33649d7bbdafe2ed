"""Servers on a real PostgreSQL, which the test starts on a free port."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.service.client import Client
from a3gnn.service.jobs.database import open_service_database
from a3gnn.service.jobs.jobs import Jobs
from tests.service.servers import GRAPH, QUICK, serving
from tests.service.test_studies import wait_for

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("psycopg", reason="the extra [postgres] is not installed")
pytestmark = pytest.mark.slow


def _programs() -> Path:
    """The folder of PostgreSQL's programs."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    if found is None:
        pytest.skip("PostgreSQL is not installed: no initdb in /usr/lib/postgresql/*/bin or the PATH; make services")
    return Path(found).parent


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of an empty database of a server that runs as another user where this one is root."""
    programs, user = _programs(), None
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        names = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in names), None)
        if user is None:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")
    # A socket takes no port that another process may take first; its path has a hundred characters at most.
    folder = Path(tempfile.mkdtemp(prefix="a3gnn-postgresql-", dir="/tmp"))
    if user is not None:
        shutil.chown(folder, user)
    asked = {"user": user, "cwd": folder, "check": True, "capture_output": True, "timeout": 120}
    subprocess.run(
        [programs / "initdb", "-D", folder / "data", "-U", "a3gnn", "--auth=trust", "--no-sync", "-E", "UTF8"], **asked
    )
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    control = [programs / "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log"]
    subprocess.run([*control, "-o", options, "start"], **asked)
    try:
        yield f"postgresql+psycopg://a3gnn@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **asked)
        shutil.rmtree(folder, ignore_errors=True)


def test_servers_that_start_at_once_make_one_schema(database: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(open_service_database, [database] * 4))
    for engine in engines:
        engine.dispose()


def test_a_job_is_begun_by_one_of_many(database: str) -> None:
    engines = [open_service_database(database) for _ in range(4)]
    queues = [Jobs(engine, f"home {n}", 100) for n, engine in enumerate(engines)]
    jobs = [queues[0].add("study", f"{n}", 1, {}, None) for n in range(20)]
    with ThreadPoolExecutor(4) as pool:
        claimed = list(pool.map(lambda queue: [queue.claim(job) for job in jobs], queues))
    for engine in engines:
        engine.dispose()
    assert [sum(row) for row in zip(*claimed, strict=True)] == [1] * 20


def test_measurements_are_kept_as_in_sqlite(database: str, measurement) -> None:
    rows = [measurement(TrainConfig()), measurement(TrainConfig(batch_size=64))]
    with ProfileStore.open(database) as store:
        assert store.add_missing(rows) == 2
        assert store.add_missing(rows) == 0
        assert store.rows() == rows


@pytest.mark.weekly
def test_two_servers_with_folders_of_their_own_share_the_queue(database: str, tmp_path: Path) -> None:
    url = ("--database", database)
    with serving(tmp_path / "one", *url) as one, serving(tmp_path / "other", *url) as other:
        clients = [Client(one.url), Client(other.url)]
        studies = [clients[0].start(GRAPH, **QUICK, budget=1000, seed=seed) for seed in range(2)]
        here = [(tmp_path / "one" / "studies" / str(study.id) / "run", study.id) for study in studies]
        for client in clients:
            assert {one["id"] for one in client.studies(limit=2)} == {study.id for study in studies}
        for study in studies:
            wait_for(lambda study=study: study.state().get("trials"))
            study.stop()  # by whichever server is asked, of whichever runs it
            wait_for(lambda study=study: study.state()["status"] == "stopped")
        ran_here = [number for path, number in here if path.is_dir()]
        for number in (study.id for study in studies):
            holder, elsewhere = clients if number in ran_here else clients[::-1]
            assert holder.study(number).tuned().config
            with pytest.raises(Exception, match=r"the server with the home .* has the files of study"):
                elsewhere.study(number).tuned()
