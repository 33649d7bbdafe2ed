"""The profile store: round trips, crashes, foreign files, several processes."""

from __future__ import annotations

import dataclasses
import gzip
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError
from a3gnn.measurement import Failure, FailureKind, Measurement, Metrics
from a3gnn.profiling.store.jsonl import read_measurements, shipped_measurements, shipped_profiles, write_measurements
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.task import Task
from tests.vocabulary.random_configs import configs

Make = Callable[..., Measurement]

failures = st.builds(
    Failure,
    kind=st.sampled_from(FailureKind),
    detail=st.text(max_size=200),
    peak_host_bytes=st.integers(0, 2**50),
    limit=st.floats(0, 2**50),
)


@pytest.fixture
def store(tmp_path: Path) -> object:
    with ProfileStore.open(tmp_path / "new" / "profiles.db") as opened:
        yield opened


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(config=configs, failure=failures, throughput=st.floats(1e-6, 1e6), succeeded=st.booleans())
def test_what_goes_in_comes_out(
    store: ProfileStore,
    measurement: Make,
    metrics: Metrics,
    config: TrainConfig,
    failure: Failure,
    throughput: float,
    succeeded: bool,
) -> None:
    outcome = dataclasses.replace(metrics, throughput_epochs_per_s=throughput) if succeeded else failure
    row = measurement(config, outcome)
    store.add(row)
    assert store.get(config, row.setting, row.accuracy_budget) == row


def test_rows_are_found_by_what_they_depend_on(store: ProfileStore, measurement: Make) -> None:
    first = measurement(TrainConfig())
    other_task = measurement(TrainConfig(), task=Task(model="gcn"))
    other_budget = measurement(TrainConfig(), budget=9)
    for row in (first, other_task, other_budget):
        store.add(row)
    assert store.rows() == [first, other_task, other_budget]
    assert store.rows(task=Task(model="gcn")) == [other_task]
    assert store.rows(accuracy_budget=9, graph=first.setting.graph.fingerprint) == [other_budget]
    assert store.rows(graph="elsewhere") == []
    elsewhere = dataclasses.replace(first.setting.hardware, cpu="elsewhere")
    assert store.get(TrainConfig(), dataclasses.replace(first.setting, hardware=elsewhere), 3) is None


def test_rows_of_other_versions_are_readable_but_not_found(store: ProfileStore, measurement: Make) -> None:
    old = dataclasses.replace(measurement(TrainConfig()), version=0)
    store.add(old)
    assert store.get(TrainConfig(), old.setting, 3) is None
    assert store.rows() == []
    assert store.rows(version=None) == [old]


def test_a_second_measurement_takes_the_place_of_the_first(store: ProfileStore, measurement: Make) -> None:
    store.add(measurement(TrainConfig(), Failure(FailureKind.TIMEOUT, "slow")))
    store.add(measurement(TrainConfig()))
    assert len(store) == 1
    assert store.rows()[0].metrics is not None


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_export_and_import(store: ProfileStore, measurement: Make, tmp_path: Path, name: str) -> None:
    rows = [measurement(TrainConfig(batch_size=size)) for size in (64, 128, 256)]
    for row in rows:
        store.add(row)
    assert store.export_jsonl(tmp_path / name) == 3
    with ProfileStore.open(tmp_path / "copy.db") as copy:
        copy.add(rows[0])
        assert copy.add_missing(read_measurements(tmp_path / name)) == 2
        assert copy.rows() == rows
    before = (tmp_path / name).read_bytes()
    store.export_jsonl(tmp_path / name)
    assert (tmp_path / name).read_bytes() == before


def test_a_broken_line_is_named_and_imports_nothing(store: ProfileStore, measurement: Make, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_measurements(path, [measurement(TrainConfig())])
    path.write_text(path.read_text() + '{"config": {}}\n')
    with pytest.raises(StoreError, match="line 2"):
        store.add_missing(read_measurements(path))
    assert len(store) == 0


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"\xff\xfe", mtime=0)])
def test_a_file_that_is_not_lines_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(content)
    with pytest.raises(StoreError, match="can't read measurements"):
        list(read_measurements(tmp_path / "rows.jsonl.gz"))


def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"shopping list\n" * 200)
    with pytest.raises(StoreError, match="not a database"):
        ProfileStore.open(path)
    assert path.read_bytes() == b"shopping list\n" * 200


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mail.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mail (id INTEGER)")
    connection.close()
    with pytest.raises(StoreError, match="not a profile store; give another path"):
        ProfileStore.open(path)


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profiles.db"
    ProfileStore.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE a3gnn_store SET schema_version = 999")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="has schema version 999, but this a3gnn needs 1"):
        ProfileStore.open(path)


def test_a_folder_and_an_unknown_url_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="got the folder"):
        ProfileStore.open(tmp_path)
    with pytest.raises(StoreError, match="SQLAlchemy URL"):
        ProfileStore.open("nonsense://there")


def test_a_url_opens_what_the_path_opens(tmp_path: Path, measurement: Make) -> None:
    with ProfileStore.open(f"sqlite:///{tmp_path}/profiles.db") as store:
        store.add(measurement(TrainConfig()))
    with ProfileStore.open(tmp_path / "profiles.db") as store:
        assert len(store) == 1


def test_no_room_is_said_and_loses_nothing(tmp_path: Path, measurement: Make) -> None:
    with ProfileStore.open(tmp_path / "profiles.db") as store:
        store.add(measurement(TrainConfig()))
        # SQLite's own limit on the file's size gives the error of a full disk.
        sa.event.listen(store._engine, "begin", lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1"))
        big = Failure(FailureKind.CRASHED, "x" * 1_000_000)
        with pytest.raises(StoreError, match="is full"):
            store.add(measurement(TrainConfig(batch_size=64), big))
        assert len(store) == 1
    with ProfileStore.open(tmp_path / "profiles.db") as store:
        assert store.rows() == [measurement(TrainConfig())]


WRITER = """
import json, sys
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.store import ProfileStore
row = json.loads(sys.stdin.read())
for size in range(int(sys.argv[2]), int(sys.argv[2]) + 20):
    row["config"]["batch_size"] = size
    with ProfileStore.open(sys.argv[1]) as store:
        store.add(Measurement.from_dict(row))
"""


def test_two_processes_make_and_write_one_store(tmp_path: Path, measurement: Make) -> None:
    path, row = tmp_path / "profiles.db", json.dumps(measurement(TrainConfig()).to_dict())
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(first)], stdin=subprocess.PIPE, cwd=root)
        for first in (100, 110)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(row.encode())
        writer.stdin.close()
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    with ProfileStore.open(path) as store:
        assert {m.config.batch_size for m in store.rows()} == set(range(100, 130))
        assert len(store) == 30


def test_a_store_in_the_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "profiles.db"
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN IMMEDIATE")
    maker.execute("CREATE TABLE draft (id INTEGER)")
    done = threading.Timer(0.5, maker.execute, ("ROLLBACK",))
    done.start()
    with ProfileStore.open(path) as store:
        assert len(store) == 0
    done.join()
    maker.close()


OPENER = """
import sys
from a3gnn.profiling.store.store import ProfileStore
print("ready", flush=True)
for line in sys.stdin:
    with ProfileStore.open(line.strip()) as store:
        print(len(store), flush=True)
"""


def test_processes_that_open_a_new_store_together_all_find_it(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    root = Path(__file__).parents[2]
    openers = [subprocess.Popen([sys.executable, "-c", OPENER], cwd=root, **pipes) for _ in range(6)]
    answers = [process.stdout.readline() for process in openers]
    for number in range(60):
        for process in openers:
            process.stdin.write(f"{tmp_path / f'{number}.db'}\n")
            process.stdin.flush()
        answers += [process.stdout.readline() for process in openers]
    for process in openers:
        process.communicate()
    assert set(answers) == {"ready\n", "0\n"}
    assert not list(tmp_path.glob(".*"))


def test_shipped_profiles_are_measurements() -> None:
    folder = shipped_profiles()
    assert folder is not None
    files = [gzip.decompress(file.read_bytes()) for file in folder.glob("*.jsonl.gz")]
    assert len(shipped_measurements(typed=True)) == sum(content.count(b"\n") for content in files)
