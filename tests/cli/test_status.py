"""`a3gnn status` and `a3gnn stop`: a tune that another process runs, as its folder shows it."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from a3gnn.errors import UsageError
from a3gnn.notify import Message, with_details
from a3gnn.storage.claim import claimed, writer_of
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.status import TuneStatus, stop_tune
from a3gnn.tuning.study.budget import forget_stop, stop_is_asked
from a3gnn.tuning.study.choice import STOPPED
from a3gnn.tuning.study.folder import Journal, TuneState, read_request, write_request
from a3gnn.tuning.tell.events import PhaseEvent, TrialEvent
from tests.answers import checked
from tests.commands import a3gnn


def shown(folder: Path) -> dict[str, Any]:
    run = a3gnn("status", folder, "--json")
    assert run.returncode == 0, run.stderr
    return checked("status", run.stdout)


def test_a_running_tune_shows_its_phase_and_the_time_left(running: Path) -> None:
    assert shown(running)["phase"] == "interrupted"
    with claimed(running):
        assert shown(running)["phase"] == "starting"
        TuneState(100.0, phase="search").write(running)
        found = shown(running)
    assert (found["phase"], found["running"], found["trials"]) == ("search", True, 11)
    assert found["trials_left"] is None
    assert 100.0 <= found["seconds"] < found["budget"]
    assert found["seconds"] + found["seconds_left"] == pytest.approx(found["budget"])
    best = found["best"]
    assert best["feasible"]
    assert best["config"] != found["baseline"]["config"]
    assert "default" in found["baseline"]["labels"]
    text = a3gnn("status", running).stdout
    assert text.startswith("Phase      interrupted\nProgress   11 trials, ")
    assert "\nBest " in text


def test_a_budget_of_trials_has_trials_left(running: Path) -> None:
    write_request(running, dataclasses.replace(read_request(running), budget=15))
    found = shown(running)
    assert (found["trials_left"], found["seconds_left"]) == (4, None)


def test_a_finished_tune_shows_its_choice(finished: Path) -> None:
    found = shown(finished)
    assert (found["phase"], found["running"]) == ("finished", False)
    assert 0 in (found["seconds_left"], found["trials_left"])
    assert found["best"]["config"] == TunedConfig.read(finished).config.to_dict()


def test_a_tune_that_failed_shows_the_reason(running: Path) -> None:
    TuneState(100.0, problem="nothing keeps the limits").write(running)
    found = shown(running)
    assert (found["phase"], found["problem"]) == ("failed", "nothing keeps the limits")


def test_a_tune_that_has_ended_early_has_no_seconds_left(running: Path, finished: Path) -> None:
    assert " left\n" in a3gnn("status", running).stdout
    TuneState(100.0, problem="nothing keeps the limits").write(running)
    found = shown(running)
    assert found["seconds"] == 100.0 < found["budget"]
    assert found["seconds_left"] == 0
    for folder in (running, finished):
        assert " left\n" not in a3gnn("status", folder).stdout


def test_unrelated_tunes_of_a_folder_are_shown_by_their_names_and_stopped_one_by_one(
    running: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(running, runs / "cora")
    shutil.copytree(running, runs / "cora-2")
    assert a3gnn("status", runs).stdout.splitlines()[0] == "Tune       cora"
    with claimed(runs / "cora-2"):
        run = a3gnn("stop", runs)
    assert run.returncode == 2
    assert f"stop {runs / 'cora-2'} stops one of them" in run.stderr
    assert not stop_is_asked(runs / "cora-2")
    (runs / "cora" / "request.json").write_text("{}", encoding="utf-8")
    lines = a3gnn("status", runs).stdout.splitlines()
    assert lines[:2] == ["Tune       cora", "Phase      unreadable"]
    assert "Tune       cora-2" in lines


def test_a_tune_without_a_trial_has_no_best(running: Path) -> None:
    Journal.start(running)
    found = shown(running)
    assert (found["trials"], found["best"], found["baseline"]) == (0, None, None)


def test_other_folders_are_refused(tmp_path: Path, finished: Path) -> None:
    for command in ("status", "stop"):
        run = a3gnn(command, tmp_path / "nowhere", "--json")
        assert run.returncode == 2
        assert (
            "run a3gnn tune --out" in checked("error", run.stderr)["remedy"] + checked("error", run.stderr)["message"]
        )
    run = a3gnn("stop", finished)
    assert run.returncode == 2
    assert "only a running tune can be stopped" in run.stderr
    assert not stop_is_asked(finished)


def test_stop_asks_a_running_tune(running: Path) -> None:
    with claimed(running):
        run = a3gnn("stop", running, "--json")
        assert checked("stop", run.stdout)["phase"] == "stopping"
    assert stop_is_asked(running)


def test_tunes_on_several_kinds_of_machines_are_shown_and_stopped_together(running: Path, tmp_path: Path) -> None:
    which = tmp_path / "which"
    for name in ("slow", "fast"):
        shutil.copytree(running, which / name)
    (which / "other").mkdir()  # its tune still examines the graph
    with claimed(which), claimed(which / "fast"), claimed(which / "slow"):
        found = shown(which)["tunes"]
        assert [Path(one["folder"]).name for one in found] == ["fast", "slow"]
        assert {one["phase"] for one in found} == {"starting"}
        run = a3gnn("stop", which, "--json")
        assert [one["phase"] for one in checked("stop", run.stdout)["tunes"]] == ["stopping"] * 2
        assert stop_is_asked(which)  # `tune_machines` passes it on to each, however late that begins
        assert a3gnn("status", which).stdout.startswith("Tune       fast\nPhase ")
    forget_stop(which)
    run = a3gnn("stop", which)
    assert run.returncode == 2
    assert f"the one in {which} is interrupted" in run.stderr
    assert not stop_is_asked(which)


def test_the_writer_of_a_folder_is_known_while_it_writes(tmp_path: Path) -> None:
    assert writer_of(tmp_path / "nowhere") == ""
    with claimed(tmp_path / "run") as folder:
        assert "process" in writer_of(folder)
        assert writer_of(folder)  # looking did not take the lock
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / ".lock").touch()  # of a killed process
    assert writer_of(tmp_path / "run") == ""


def test_a_tune_writes_its_phases_and_ends_when_it_is_stopped(quick_tune, tmp_path: Path) -> None:
    out, phases = tmp_path / "run", []

    def notify(line: str) -> None:
        event = line.event if isinstance(line, Message) else None
        if isinstance(event, PhaseEvent):
            phases.append((event.phase, TuneStatus.read(out).phase))
        if isinstance(event, TrialEvent) and len(event.rows) == 3:
            assert TuneStatus.read(out).trials == 2
            assert [one.phase for one in stop_tune(out)] == ["stopping"]

    result = quick_tune(budget=30, notify=with_details(notify))
    assert [phase for phase, _ in phases][:2] == ["baseline", "search"]
    assert all(began == read for began, read in phases)
    assert STOPPED in result.tuned.left_out
    assert result.trials < 30
    found = TuneStatus.read(out)
    assert (found.phase, found.trials_left) == ("finished", 0)


def test_a_tune_that_examines_its_graph_is_said_to_have_begun(tmp_path: Path) -> None:
    with claimed(tmp_path / "run"), pytest.raises(UsageError, match="has just begun and still examines its graph"):
        TuneStatus.read(tmp_path / "run")
