"""Tunes by several engines beside each other."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from a3gnn.storage.cache import cache_root
from benchmarks import live_tunes
from benchmarks.live_tunes import Beside, own_cache, summary


def result(speed: float, seconds: float | None, accuracy: float = 0.9, peak: int = 100) -> dict[str, Any]:
    """Returns what `a3gnn train` prints, as far as it counts here."""
    names = ("throughput_epochs_per_s", "seconds_to_accuracy", "val_accuracy", "peak_host_bytes")
    return dict(zip(names, (speed, seconds, accuracy, peak), strict=True)) | {"test_accuracy": accuracy - speed / 1000}


def test_rounds_are_paired_and_more_is_better() -> None:
    default = [result(10, 4.0), result(10, 2.0), result(10, None)]
    choice = [result(20, 1.0, 0.91, 50), result(30, None, 0.92, 50), result(40, None, 0.93, 50)]
    found = Beside.of(choice, default, "peak_host_bytes")
    assert found.throughput is not None
    assert (found.throughput.low, found.throughput.median, found.throughput.high) == (2, 3, 4)
    assert found.time is not None
    assert (found.time.median, found.time.repeats) == (4, 1), "of the round in which both reached it"
    assert found.memory is not None
    assert found.memory.median == 2
    assert found.points is not None
    assert found.points.median == pytest.approx(2.0)
    assert found.test is not None
    assert found.test.median == pytest.approx(0.0)
    assert found.missed == 1, "where the default missed it too, nothing is missed"


def test_an_engine_is_told_by_geometric_means_and_seconds() -> None:
    spread = {"low": 1.0, "high": 1.0, "repeats": 1}
    rows = [
        {name: spread | {"median": value} for name in ("time", "throughput", "memory", "points", "test")}
        | {"lost_s": lost, "trials_s": 10.0, "missed": 1}
        for value, lost in ((2.0, 5.0), (8.0, 0.0))
    ]
    assert summary("own", rows) == (
        "own: time 4.00 x, epochs/s 4.00 x, memory 4.00 x, +5.00 points, test +5.00; 25% of seconds lost, "
        "2 rounds missed"
    )
    rows[1]["time"] = None
    assert "time 2.00 x" in summary("own", rows)


@pytest.mark.parametrize("before", [None, "/elsewhere"])
def test_a_tune_has_a_cache_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("A3GNN_CACHE", raising=False)
    if before is not None:
        monkeypatch.setenv("A3GNN_CACHE", before)
    usual = cache_root()
    with own_cache(tmp_path):
        assert cache_root() == tmp_path
    assert cache_root() == usual
    assert os.environ.get("A3GNN_CACHE") == before


@pytest.mark.weekly
def test_tunes_by_several_engines_are_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "synthetic:nodes=2000,degree=8,features=16,classes=4,seed=1"
    options = ["--budget", "2", "--seeds", "1", "--rounds", "1", "--engines", "ei", "tpe"]
    files = ["--out", str(tmp_path / "live"), "--json", str(tmp_path / "live.json")]
    monkeypatch.setattr(sys, "argv", ["live_tunes", spec, *options, *files])
    live_tunes.main()
    rows = json.loads((tmp_path / "live.json").read_text())["rows"]
    assert [row["engine"] for row in rows] == ["rate x2 alone", "rate x4 alone", "ei", "tpe"]
    assert all(row["trials"] == 2 and row["throughput"]["median"] > 0 for row in rows)
    printed = capsys.readouterr().out
    assert "tpe: time" in printed
    caches = sorted(path.name for path in (tmp_path / "live").glob("*-cache"))
    assert len(caches) == len(rows), "no tune finds what another one made"
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--engines", "ei", "--first-trial"])
    live_tunes.main()
    printed = capsys.readouterr().out
    assert "#1" not in printed, "what is finished is not repeated"
    assert "ei, first trial: time" in printed
