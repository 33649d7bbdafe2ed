"""`a3gnn profiles`, as a person runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from a3gnn.cli.main import app
from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError, UsageError
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.existing import DEFAULT_STORE
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.profiling.store.store import ProfileStore


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measurement: Callable[..., Measurement]) -> Path:
    """A working folder with a store of two rows where `a3gnn profile` keeps its own."""
    monkeypatch.chdir(tmp_path)
    with ProfileStore.open(DEFAULT_STORE) as store:
        store.add_missing([measurement(TrainConfig()), measurement(TrainConfig(batch_size=64))])
    return tmp_path / DEFAULT_STORE


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["profiles", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_list_counts_what_is_shipped_and_what_is_yours() -> None:
    text = run("list").stdout
    assert text.startswith(f"shipped with a3gnn: {len(shipped_measurements(typed=True))} measurements")
    assert f"{DEFAULT_STORE}: 2 measurements, 0 failed" in text
    assert max(map(len, text.splitlines())) <= 80
    joined = "".join(text.split())
    assert all(row.setting.graph.name in joined for row in shipped_measurements(typed=True))  # whole names
    found = json.loads(run("list", "--json").stdout)
    (own,) = found["sources"][str(DEFAULT_STORE)]
    assert own["rows"] == 2
    assert found["machines"][own["hardware"]]["num_cores"] >= 1
    shipped = found["sources"]["shipped with a3gnn"]
    assert sum(one["rows"] for one in shipped) == len(shipped_measurements(typed=True))


def test_check_passes_what_is_sound_and_names_what_is_not(tmp_path: Path) -> None:
    sound = run("check")
    assert sound.exit_code == 0
    assert sound.stdout.splitlines()[-1] == f"{DEFAULT_STORE}: 2 rows, all sound"
    run("export", "rows.jsonl")
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    (tmp_path / "rows.jsonl").write_text("\n".join([lines[0], lines[1], lines[2].replace("seconds", "minutes", 1)]))
    wrong = run("check", "rows.jsonl")
    assert wrong.exit_code == 1
    assert any(line.startswith("line 3: ") for line in wrong.stdout.splitlines())
    assert not any(line.startswith("line 2: ") for line in wrong.stdout.splitlines())
    assert wrong.stdout.splitlines()[-1] == "rows.jsonl: 2 rows, 1 wrong"
    as_json = run("check", "rows.jsonl", "--json")
    assert as_json.exit_code == 1
    assert {fault["row"] for fault in json.loads(as_json.stdout)["faults"]["rows.jsonl"]} == {"line 3"}
    with pytest.raises(StoreError, match="line 3"):
        run("import", "rows.jsonl", "--store", "new.db")
    assert not (tmp_path / "new.db").exists()


def test_rows_go_from_one_store_to_another_once() -> None:
    assert run("export", "rows.jsonl.gz").stdout == f"wrote 2 rows of {DEFAULT_STORE} to rows.jsonl.gz\n"
    assert run("import", "rows.jsonl.gz", "--store", "new.db").stdout == "added 2 of 2 rows to new.db\n"
    again = run("import", "rows.jsonl.gz", "--store", "new.db").stdout
    assert again == "added 0 of 2 rows to new.db; left out 2 configurations that it has already\n"
    with ProfileStore.open("new.db") as copy, ProfileStore.open(DEFAULT_STORE) as store:
        assert copy.rows() == store.rows()


def test_what_is_not_there_is_said(place: Path) -> None:
    with pytest.raises(UsageError, match=r"FILE must end in \.jsonl"):
        run("export", "rows.csv")
    with pytest.raises(StoreError, match=r"no profile store exists at none\.db"):
        run("check", "none.db")
    place.unlink()
    assert "no store exists at" in run("list").stderr
    with pytest.raises(StoreError, match="no store exists at"):
        run("export", "rows.jsonl")
