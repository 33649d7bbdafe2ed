"""`a3gnn recommend`, as a person runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from a3gnn.cli.main import main
from a3gnn.hardware import Hardware
from a3gnn.machine.probe import kept_at
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning import recommend as module
from tests.answers import checked
from tests.shipped import shipped

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"
SMALL = ["--dataset", SPEC, "--hidden", "16", "--fanouts", "3,3"]


@pytest.fixture(autouse=True)
def probed(this_machine: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache folder that knows this machine, and a part of the shipped profiles, as fitting to all takes seconds."""
    part = shipped(45)
    monkeypatch.setattr(module, "shipped_measurements", lambda typed: part)
    monkeypatch.chdir(tmp_path)
    path = kept_at(this_machine)
    path.parent.mkdir(exist_ok=True)
    before = path.read_text() if path.exists() else None
    path.write_text(json.dumps(this_machine.to_dict()))
    yield
    if before is None:
        path.unlink()
    else:
        path.write_text(before)


def run(command: str, *arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([command, *map(str, arguments)])
    return int(ended.value.code or 0)


def test_it_recommends_and_its_file_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recommend", *SMALL, "--memory-limit", "8GiB", "--out", tmp_path / "run") == 0
    out, err = capsys.readouterr()
    assert "Predicted for GraphSAGE on synthetic" in " ".join(out.split())
    assert "300 nodes" in err
    (model,) = [line for line in (out + err).splitlines() if line.startswith("model ")]  # once, with the result
    assert model in out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 80  # a path may be longer
    assert TunedConfig.read(tmp_path / "run").measured is None
    assert run("train", tmp_path / "run", "--epochs", 2, "--out", tmp_path / "trained") == 0
    out = capsys.readouterr().out
    assert out.count("   predicted ") == 2
    assert "the tune measured" not in out


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recommend", *SMALL, "--priority", "memory", "--json") == 0
    found = checked("recommend", capsys.readouterr().out)
    assert found["measured"] is None
    assert set(found["predicted"]["throughput_epochs_per_s"]) == {"mean", "low", "high"}
    assert found["default"]["throughput_over_default"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert found["folder"] is None


def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recommend", *SMALL, "--memory-limit", "151MiB") == 3
    assert "nothing is predicted to keep the memory limit" in capsys.readouterr().err
    assert run("recommend", *SMALL, "--memory-limit", "default") == 2
    assert run("recommend", *SMALL, "--store", "none.db") == 1
    assert "Traceback" not in capsys.readouterr().err
