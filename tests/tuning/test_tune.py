"""Whole tunes of a small graph with real trials; what needs none is in the files beside this one."""

import json
from pathlib import Path
from typing import Any

import pytest

from a3gnn import TrainConfig, train, tune
from a3gnn.errors import A3GNNError, ExitCode, InfeasibleError, UsageError
from a3gnn.measurement import Metrics
from a3gnn.page.views import study_views
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.report.front import Front
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.study.folder import TuneState

SPEC = "synthetic:nodes=1500,degree=8,classes=4,features=24"
TASK = Task(hidden_channels=32, fanouts=(5, 5))
OPTIONS = {"task": TASK, "accuracy_epochs": 2}
#: Seconds: a budget in trials would have a whole verification after it.
BUDGET_S = 10.0


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    out = tmp_path_factory.mktemp("tunes") / "first"
    return tune(SPEC, memory_limit="1GiB", budget=BUDGET_S, out=out, max_accuracy_drop=100.0, **OPTIONS)


def test_the_choice_keeps_the_limit_as_measured(result: TuneResult) -> None:
    assert 0 < result.tuned.measured.peak_host_bytes <= 2**30
    chosen = [row for row in result.front.rows if "chosen" in row.labels]
    assert [row.config for row in chosen] == [result.tuned.config]
    assert chosen[0].feasible
    assert chosen[0].on_front


def test_the_default_configuration_is_measured(result: TuneResult) -> None:
    default = next(row for row in result.front.rows if "default" in row.labels)
    assert default.config == TrainConfig()
    assert isinstance(result.tuned.default, Metrics)


def test_the_files_hold_what_was_returned(result: TuneResult) -> None:
    tuned = TunedConfig.read(result.folder / "tuned.json")
    assert tuned == result.tuned
    assert Front.read(result.folder) == result.front
    lines = (result.folder / "front.csv").read_text().splitlines()
    assert len(lines) == 1 + len(result.front.rows)
    fields = json.loads(json.dumps(result.to_dict()))
    assert {"config", "predicted", "measured", "default", "front", "search", "probes"} <= set(fields)
    assert set(fields["search"]) == {"engine", "evaluations", "configurations", "seconds"}


def test_a_finished_tune_is_not_overwritten(result: TuneResult) -> None:
    before = (result.folder / "probes.jsonl").read_text()
    with pytest.raises(UsageError, match="add resume=True"):
        tune(SPEC, memory_limit="1GiB", budget=BUDGET_S, out=result.folder, max_accuracy_drop=100.0, **OPTIONS)
    assert (result.folder / "probes.jsonl").read_text() == before


def test_the_chosen_configuration_trains(result: TuneResult, tmp_path: Path) -> None:
    # This process holds the tests' libraries as well; tests/cli trains in one of its own, under the limit.
    trained = train(result.folder / "tuned.json", epochs=2, out=tmp_path / "run", host_memory_limit=2**36)
    assert trained.config == TunedConfig.read(result.folder).config
    assert 0 < trained.test_accuracy <= 1


def test_an_infeasible_limit_says_what_would_do_after_one_trial(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(InfeasibleError, match="the smallest limit that would") as caught:
        tune(SPEC, memory_limit="30MiB", budget=2, out=tmp_path / "run", notify=lines.append, **OPTIONS)
    assert any("before it trains anything" in line for line in lines)
    assert caught.value.exit_code == ExitCode.INFEASIBLE
    assert caught.value.smallest_limit_bytes > 30 * 2**20
    assert len((tmp_path / "run" / "probes.jsonl").read_text().splitlines()) == 1
    assert TuneState.read(tmp_path / "run", ()).problem == str(caught.value)
    assert study_views(tmp_path / "run")["summary"]["problem"] == str(caught.value)


@pytest.mark.weekly  # test_nothing_fits has it by formulas
def test_where_nothing_fits_the_smallest_limit_is_said(tmp_path: Path, result: TuneResult) -> None:
    idle = result.tuned.setting.hardware.profile.idle_host_bytes
    with pytest.raises(InfeasibleError, match="the smallest limit that would") as caught:
        tune(SPEC, memory_limit=idle + 2**20, budget=1, out=tmp_path / "run", **OPTIONS)
    assert caught.value.smallest_limit_bytes > idle + 2**20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "rays"}, "executor must be one of local, ray, got 'rays'; did you mean 'ray'"),
        ({"executor": 5}, "executor must be 'local' or 'ray', or an object with the methods run and close, got 5"),
        ({"executor": LocalExecutor}, "or an object with the methods run and close, got <class"),
        ({"hardware": "gpu"}, "hardware must be a Hardware, got 'gpu'"),
    ],
)
def test_what_runs_trials_is_checked_before_anything_is_written(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        tune(SPEC, budget=1, out=tmp_path / "out", **options, **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_ray_is_an_executor_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster it is refused before anything is written; test_ray has one with a cluster."""
    pytest.importorskip("ray", reason="the extra [ray] is not installed")
    # Ray finds any cluster of this machine, such as that of a test beside this one, but for what is named here.
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    with pytest.raises(A3GNNError, match="Ray cluster"):
        tune(SPEC, budget=1, out=tmp_path / "out", executor="ray", **OPTIONS)
    assert not list(tmp_path.iterdir())
