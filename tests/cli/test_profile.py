"""`a3gnn profile`, as a person runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.figures import covers
from a3gnn.profiling.store.store import ProfileStore
from tests.answers import checked
from tests.commands import a3gnn

ROOT = Path(__file__).parents[2]
SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"
SMALL = ["--dataset", SPEC, "--hidden", "8", "--fanouts", "3,3", "--accuracy-epochs", "300"]


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts `a3gnn profile`, one OpenMP thread (teams of threads stall each other on a busy machine)."""
    return subprocess.Popen(
        [sys.executable, "-m", "a3gnn", "profile", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.mark.weekly  # test_an_interrupted_tune_resumes
def test_an_interrupted_profile_goes_on_where_it_stopped(tmp_path: Path) -> None:
    place = tmp_path / "profiles.db"
    command = [*SMALL, "--configs", "2", "--store", str(place), "--json"]
    first = start(*command)
    end = time.monotonic() + 240
    while not _rows(place) and first.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    code, out, err = finish(first)
    kept = _rows(place)
    assert (code, out) == (130, ""), err
    assert f"of 3 configurations {'is' if kept == 1 else 'are'} in {place}; run the same command to continue" in err
    assert 1 <= kept < 3

    code, out, err = finish(start(*command))
    assert code == 0, err
    summary = checked("profile", out)
    assert (summary["configurations"], summary["skipped"], summary["measured"]) == (3, kept, 3 - kept)
    assert set(summary["failed"].values()) == {0}
    assert "each configuration trains as long" in err
    with ProfileStore.open(place) as store:
        rows = store.rows(accuracy_budget=0)
    assert len(rows) == 3
    default = next(row.metrics for row in rows if row.config == TrainConfig().canonical())
    assert default is not None
    assert default.curve is not None
    budget = default.pace.seconds(default.curve.trained)
    for row in rows:
        assert row.metrics is not None
        assert row.metrics.curve is not None
        assert covers(row.metrics.curve, row.metrics.pace.batches(budget))


def test_a_store_that_is_none_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("shopping list\n" * 100)
    code, out, err = a3gnn("profile", *SMALL, "--configs", "1", "--store", place)
    assert (code, out) == (1, "")
    assert "notes.txt" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--configs", "2"], "--dataset"),
        (["--dataset", SPEC, "--configs", "-1"], "--configs"),
        (["--dataset", SPEC, "--configs", "1", "--memory-limit", "lots"], "512MiB"),
        (["--dataset", SPEC, "--configs", "1", "--memory-limit", "9MB"], "before it trains anything, got 8.58 MiB"),
        (["--dataset", "nothing.npz", "--configs", "1"], "nothing.npz"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], message: str, tmp_path: Path) -> None:
    code, out, err = a3gnn("profile", *arguments, "--store", tmp_path / "profiles.db")
    assert code in (1, 2, 3)
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def _rows(place: Path) -> int:
    if not place.exists():
        return 0
    with ProfileStore.open(place) as store:
        return len(store)
