"""Tunes on a simulated machine keep their promises under every fault that was found, and under random ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest

from a3gnn.errors import A3GNNError
from a3gnn.launch import QUICK_VARIABLE
from a3gnn.process import machine_turn
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.study import folder
from tests.simulator import world
from tests.simulator.disk import Crash
from tests.simulator.seeds import TUNES, BrokenError, Life, Told, run_seed, simulator, straight
from tests.simulator.world import ERRORS, Fault

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def simulated() -> Iterator[None]:
    with simulator():
        yield


@pytest.fixture
def life(tmp_path: Path) -> Callable[..., Life]:
    """Makes lives of one of `TUNES`."""
    return lambda name, **options: Life(name, tmp_path, Random(0), Told(0, name), **options)


def at(change: str, kind: str, name: str, which: int = 0) -> Fault:
    """Returns a fault at a change of an undisturbed tune; `which` of those that begin so."""
    found = [number for number, line in enumerate(straight(name).changes) if line.startswith(change)]
    return Fault(found[which], kind)


#: Each was broken once: a process that ended there left a tune that did not go on, or otherwise.
ONCE_BROKEN = {
    "before there was a request": ("rename run/request.json", "kill"),
    "in the first folder": ("create run/.request.json", "kill"),
    "between the request and the journal": ("mkdir run/.probes.jsonl", "kill"),
    "between the two files of the journal": ("mkdir run/.timings.jsonl", "kill"),
    "before there was a state": ("mkdir run/.product_speeds", "kill"),
    "by a fault of the disk before there was a journal": ("create run/.probes.jsonl", "io"),
}


@pytest.mark.parametrize("case", ONCE_BROKEN)
def test_a_tune_that_ended_there_goes_on(life, case: str) -> None:
    change, kind = ONCE_BROKEN[case]
    tune = life("expected")
    tune.checked(at(change, kind, "expected"))
    tune.checked(at("rename run/state.json", "kill", "expected", 3))
    tune.finish()


@pytest.mark.parametrize("kind", ["full", *ERRORS])
@pytest.mark.parametrize(
    "change", ["write run/probes.jsonl", "rename run/tuned.json", "store", "mkdir run/.state.json"]
)
def test_an_error_of_the_disk_says_how_the_tune_goes_on(life, change: str, kind: str) -> None:
    tune = life("whole space")
    error = tune.process((at(change, kind, "whole space"),))
    assert isinstance(error, A3GNNError), error
    assert "goes on" in str(error) or "correct that and run again" in str(error)
    tune.finish()


def test_a_clock_that_is_set_back_changes_no_proposal(life) -> None:
    tune = life("expected", store="store.db")
    tune.checked(at("rename run/state.json", "back", "expected", 1), at("stored", "kill", "expected", 1))
    tune.finish()


def two_at_once(kind: str, folder: Path) -> None:
    """Begins a second run at changes of a tune, which ends by `kind` soon after, if that is not ""."""
    changes = len(straight("whole space").changes)
    for begun in range(0, changes, changes // 6):
        (folder / str(begun)).mkdir()
        tune = Life("whole space", folder / str(begun), Random(begun), Told(begun, "whole space"))
        faults = {begun: "beside", min(begun + 40, changes - 1): kind} if kind else {begun: "beside"}
        tune.checked(*(Fault(*fault) for fault in faults.items()))
        tune.finish()


@pytest.mark.parametrize("kind", ["", "kill", "power"])
def test_of_two_runs_at_once_one_writes_and_the_other_is_refused_or_goes_on(kind: str, tmp_path: Path) -> None:
    two_at_once(kind, tmp_path)


def test_the_simulator_notices_two_runs_that_write_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "_FLOCK", lambda file, operation: None)  # as if there were no locks
    monkeypatch.setattr(machine_turn._held, "mine", nullcontext())  # of threads, which processes do not share
    with pytest.raises(BrokenError, match="the trials differ from an uninterrupted tune"):
        two_at_once("", tmp_path)


def test_what_is_lost_in_the_middle_of_the_last_line_is_measured_again(life, tmp_path: Path) -> None:
    tune = life("whole space")
    assert isinstance(tune.process((at("sync run/probes.jsonl", "kill", "whole space", 2),)), Crash)
    path = tmp_path / "disk" / "run" / "probes.jsonl"
    content = path.read_bytes()
    last = content.rfind(b"\n", 0, -1) + 1
    path.write_bytes(content[: last + 100] + bytes(512) + content[last + 612 :])
    tune.finish()


@pytest.mark.parametrize(
    "begin",
    [0, 5, *(pytest.param(begin, marks=pytest.mark.weekly) for begin in range(10, 50, 5))],  # more of the same
)
def test_seeds(begin: int) -> None:
    for seed in range(begin, begin + 5):
        run_seed(seed)


@pytest.mark.weekly
@pytest.mark.parametrize("begin", range(100, 1100, 100))
def test_a_thousand_seeds(begin: int) -> None:
    for seed in range(begin, begin + 100):
        run_seed(seed)


@pytest.mark.weekly
@pytest.mark.parametrize("kind", ["kill", "power", "full", *ERRORS])
def test_a_tune_that_ends_at_any_change_goes_on(kind: str, tmp_path: Path) -> None:
    for number in range(len(straight("whole space").changes)):
        (tmp_path / str(number)).mkdir()
        tune = Life("whole space", tmp_path / str(number), Random(number), Told(number, "whole space"))
        tune.checked(Fault(number, kind))
        tune.finish()


@pytest.mark.slow
def test_a_seed_does_the_same_again_and_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    told = run_seed(5)
    assert run_seed(5) == told
    assert run_seed(6).trace != told.trace
    monkeypatch.delenv(QUICK_VARIABLE)  # in which a process verifies less
    other = subprocess.run([sys.executable, "-m", "tests.simulator", "5"], capture_output=True, text=True, cwd=ROOT)
    assert other.stdout.strip() == told.describe(), other.stderr


def test_the_simulator_notices_a_trial_that_is_lost(life) -> None:
    tune = life("whole space")
    assert isinstance(tune.process(()), TuneResult)
    path = tune.folder / "probes.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(AssertionError, match="lost or changed"):
        tune.finish()


def test_the_simulator_notices_lines_that_are_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def append(path: Path, fields: object) -> None:
        with path.open("a") as file:
            file.write(json.dumps(fields) + "\n")

    def lose_power() -> None:
        for number in range(20):  # what a loss of power leaves is random
            (tmp_path / str(number)).mkdir()
            tune = Life("whole space", tmp_path / str(number), Random(number), Told(number, "whole space"))
            tune.checked(Fault(300, "power"))

    monkeypatch.setattr(folder, "_append", append)
    with pytest.raises(AssertionError, match="lost"):
        lose_power()


def test_every_tune_measures_something() -> None:
    assert all(len(straight(name).trials) > 2 for name in TUNES)
