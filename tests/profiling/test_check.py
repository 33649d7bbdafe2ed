"""Stored measurements checked row by row, exported and imported."""

from __future__ import annotations

import gzip
import json
import math
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, FailureKind, Measurement
from a3gnn.profiling.store.check import check_file, check_store, examine_row, export_rows, import_rows
from a3gnn.profiling.store.jsonl import (
    read_lines,
    read_measurements,
    shipped_measurements,
    shipped_profiles,
    write_measurements,
)
from a3gnn.profiling.store.provenance import holdings
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.task import Task

Make = Callable[..., Measurement]


@pytest.fixture
def rows(measurement: Make) -> list[Measurement]:
    failed = Failure(FailureKind.TIMEOUT, "slow")
    return [
        measurement(TrainConfig()),
        measurement(TrainConfig(batch_size=64)),
        measurement(TrainConfig(), task=Task(model="gcn")),
        measurement(TrainConfig(batch_size=128), failed),
    ]


@pytest.fixture
def store(rows: list[Measurement], tmp_path: Path) -> Path:
    with ProfileStore.open(tmp_path / "profiles.db") as opened:
        opened.add_missing(rows)
    return tmp_path / "profiles.db"


def changed(row: Measurement, path: str, value: Any) -> str:
    """Returns `row` as JSON with the field at `path` set; it is removed where the value is ..."""
    fields = row.to_dict()
    *inner, last = path.split(".")
    place = fields
    for name in inner:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(fields)


def test_shipped_profiles_are_sound() -> None:
    folder = shipped_profiles()
    assert folder is not None
    for file in folder.glob("*.jsonl.gz"):
        found = check_file(file)
        assert found.faults == ()
        assert list(found.sound.values()) == list(read_measurements(file))


def test_a_row_that_was_made_is_sound(rows: list[Measurement]) -> None:
    for row in rows:
        assert examine_row(json.dumps(row.to_dict())) == (row, ())


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("metrics.throughput_epochs_per_s", math.nan, "metrics.throughput_epochs_per_s must be finite, got nan"),
        ("metrics.throughput_replicates", [1.0, math.inf], r"metrics.throughput_replicates\[1\] must be finite"),
        ("metrics.throughput_epochs_per_s", "fast", "throughput_epochs_per_s must be float, got 'fast'"),
        ("metrics.throughput_epochs_per_s", 0.0, "throughput_epochs_per_s must be positive, got 0.0"),
        ("metrics.peak_host_bytes", 1.5, "peak_host_bytes must be int, got 1.5"),
        ("metrics.curve.batches", [3, 2], "a curve needs one accuracy per count, got 10 for 2"),
        ("metrics.speed", 3, "field of Metrics"),
        ("metrics", ..., "must have either metrics or a failure, got neither"),
        ("created", ..., "must have the field 'created'"),
        ("created", "yesterday", "created must be a time in ISO 8601, got 'yesterday'"),
        ("hostname", "mine", "must not have the field 'hostname'"),
        ("config.schema_version", 9, "schema_version must be 1, got 9"),
        ("task.schema_version", 9, "schema_version must be 1, got 9"),
        ("config.batch_size", 0, "batch_size must be"),
        ("config.num_workers", 4, "config must be canonical, but idle knobs .*: num_workers"),
        ("version", MEASUREMENT_VERSION + 1, "version must be in \\[1, "),
        ("version", True, "version must be int, got True"),
        ("graph.num_nodes", ..., "num_nodes"),
        ("hardware.cpu", "another", "hardware.fingerprint must be .*, the hash of the row's content"),
        ("seconds", 9.0, "id must be content:"),
    ],
)
def test_what_is_wrong_is_said(rows: list[Measurement], path: str, value: Any, words: str) -> None:
    measurement, faults = examine_row(changed(rows[0], path, value))
    assert measurement is None
    assert re.search(words, "; ".join(faults))


@pytest.mark.parametrize("text", ["", "nothing", "[1]", "null"])
def test_what_is_no_row_is_said(text: str) -> None:
    measurement, faults = examine_row(text)
    assert measurement is None
    assert len(faults) == 1
    assert "JSON" in faults[0]


def test_wrong_lines_are_named_and_others_are_sound(rows: list[Measurement], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_measurements(path, rows)
    lines = path.read_text().splitlines()
    lines[1] = changed(rows[1], "seconds", math.inf)
    path.write_text("\n".join([*lines, lines[0], ""]))
    found = check_file(path)
    assert [fault.row for fault in found.faults] == ["line 2"]
    assert list(found.sound) == ["line 1", "line 3", "line 4", "line 5"]
    assert found.num_rows == 5


def test_one_id_is_of_one_row(rows: list[Measurement], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [changed(row, "id", "0f") for row in rows[:2]]
    path.write_text("\n".join([*lines, lines[0]]))
    (fault,) = check_file(path).faults
    assert fault.row == "line 2"
    assert "got 0f, which line 1 has with other content" in fault.reason


def test_a_store_is_checked_with_its_columns(store: Path, rows: list[Measurement]) -> None:
    with ProfileStore.open(store) as opened:
        assert check_store(opened) == ({f"row {i}": row for i, row in enumerate(rows, start=1)}, ())
    connection = sqlite3.connect(store)
    connection.execute("UPDATE a3gnn_measurements SET graph = 'elsewhere' WHERE id = 2")
    connection.execute("UPDATE a3gnn_measurements SET payload = 'torn' WHERE id = 3")
    connection.commit()
    connection.close()
    with ProfileStore.open(store) as opened:
        found = check_store(opened)
        assert [fault.row for fault in found.faults] == ["row 3", "row 2"]
        assert "column graph must be" in found.faults[1].reason
        assert list(found.sound) == ["row 1", "row 4"]
        with pytest.raises(StoreError, match="a3gnn profiles check names it"):
            opened.rows()
        with pytest.raises(StoreError, match="nothing was exported"):
            export_rows(opened, store.parent / "rows.jsonl")
    assert not (store.parent / "rows.jsonl").exists()


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_exports_say_where_they_come_from_and_import(store: Path, rows: list[Measurement], name: str) -> None:
    path = store.parent / name
    with ProfileStore.open(store) as opened:
        assert export_rows(opened, path) == len(rows)
    provenance, lines = read_lines(path)
    assert provenance is not None
    assert provenance.graphs == (rows[0].setting.graph.name,)
    assert provenance.versions == (MEASUREMENT_VERSION,)
    assert provenance.machines[0].startswith(rows[0].setting.hardware.fingerprint)
    assert len(provenance.hashes) == len(lines) == len(rows)
    assert list(read_measurements(path)) == rows
    assert check_file(path).faults == ()
    copy = str(store.parent / "copy.db")
    assert import_rows(path, copy) == (4, 4)
    assert import_rows(path, copy) == (0, 4)
    with ProfileStore.open(copy) as opened:
        assert opened.rows() == rows


def test_what_a_store_holds_stays(store: Path, rows: list[Measurement], measurement: Make, tmp_path: Path) -> None:
    again = measurement(TrainConfig(), Failure(FailureKind.CRASHED, "later"))
    new = measurement(TrainConfig(batch_size=256))
    write_measurements(tmp_path / "rows.jsonl", [again, new, new])
    assert import_rows(tmp_path / "rows.jsonl", str(store)) == (1, 3)
    with ProfileStore.open(store) as opened:
        assert opened.rows() == [*rows, new]


@pytest.mark.parametrize("kind", ["changed", "lost"])
def test_a_file_that_was_changed_since_is_refused(store: Path, kind: str) -> None:
    path = store.parent / "rows.jsonl.gz"
    with ProfileStore.open(store) as opened:
        export_rows(opened, path)
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    if kind == "changed":
        lines[2] = lines[2].replace('"disturbed_windows": 1', '"disturbed_windows": 0')
    else:
        del lines[2]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    (fault,) = check_file(path).faults
    assert fault.row == ("line 3" if kind == "changed" else "file")
    with pytest.raises(StoreError, match=r"nothing was imported; a3gnn profiles check .*rows.jsonl.gz names"):
        import_rows(path, str(store.parent / "new.db"))
    assert not (store.parent / "new.db").exists()


def test_a_provenance_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"provenance": {"a3gnn": "9"}}\n')
    with pytest.raises(StoreError, match="the first line must be the provenance"):
        check_file(tmp_path / "rows.jsonl")


def test_holdings_count_every_row_once() -> None:
    shipped = shipped_measurements()
    found = holdings(shipped)
    assert sum(one.rows for one in found) == len(shipped)
    assert {one.graph for one in found} == {row.setting.graph.name for row in shipped}
    for one in found:
        kind = (one.graph, one.model)
        own = [row for row in shipped if (row.setting.graph.name, row.setting.task.model) == kind]
        assert one.rows == len(own)
        assert one.failed == sum(row.metrics is None for row in own)
        assert one.measured == (min(row.created for row in own), max(row.created for row in own))
