"""Whole tunes of a small graph: real trials, real searches."""

import json
from pathlib import Path

import pytest

from a3gnn import TrainConfig, train, tune
from a3gnn.config import Task
from a3gnn.errors import ExitCode, InfeasibleError, UsageError
from a3gnn.measurement import Failure, FailureKind
from a3gnn.profiling.executor import PARTITIONING
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.result import TuneResult

SPEC = "synthetic:nodes=1500,degree=8,classes=4,features=24"
TASK = Task(hidden_channels=32, fanouts=(5, 5))
OPTIONS = {"task": TASK, "accuracy_epochs": 2, "engine": "nsga2"}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    out = tmp_path_factory.mktemp("tunes") / "first"
    return tune(SPEC, memory_limit="1GiB", budget=3, out=out, max_accuracy_drop=100.0, **OPTIONS)


def test_the_choice_keeps_the_limit_as_measured(result: TuneResult) -> None:
    assert 0 < result.tuned.measured.peak_host_bytes <= 2**30
    assert result.probes <= 3
    chosen = [row for row in result.front.rows if "chosen" in row.labels]
    assert [row.config for row in chosen] == [result.tuned.config]
    assert chosen[0].feasible
    assert chosen[0].on_front


def test_the_default_configuration_is_measured(result: TuneResult) -> None:
    default = next(row for row in result.front.rows if "default" in row.labels)
    assert default.config == TrainConfig()
    assert result.tuned.default.test_accuracy == default.measured.test_accuracy


def test_the_files_hold_what_was_returned(result: TuneResult) -> None:
    tuned = TunedConfig.read(result.folder / "tuned.json")
    assert tuned == result.tuned
    assert Front.read(result.folder) == result.front
    lines = (result.folder / "front.csv").read_text().splitlines()
    assert len(lines) == 1 + len(result.front.rows)
    fields = json.loads(json.dumps(result.to_dict()))
    assert {"config", "predicted", "measured", "default", "front", "search", "probes"} <= set(fields)
    assert {"engine", "evaluations", "hypervolume_ratio", "seconds"} <= set(fields["search"])


def test_a_finished_tune_is_not_overwritten_but_goes_on(result: TuneResult, tmp_path: Path) -> None:
    before = (result.folder / "probes.jsonl").read_text()
    with pytest.raises(UsageError, match="add --resume"):
        tune(SPEC, memory_limit="1GiB", budget=3, out=result.folder, max_accuracy_drop=100.0, **OPTIONS)
    assert (result.folder / "probes.jsonl").read_text() == before
    lines: list[str] = []
    more = tune(
        SPEC,
        memory_limit="1GiB",
        budget=5,
        out=result.folder,
        max_accuracy_drop=100.0,
        resume=True,
        notify=lines.append,
        **OPTIONS,
    )
    assert (result.folder / "probes.jsonl").read_text().startswith(before)
    assert any("resuming after" in line for line in lines)
    assert result.probes <= more.probes <= 5


def test_partitions_that_can_not_be_made_are_left_out(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = {"memory_limit": "1GiB", "out": out, "max_accuracy_drop": 100.0, **OPTIONS}
    tune(SPEC, budget=1, **options)
    probe = json.loads((out / "probes.jsonl").read_text().splitlines()[0])
    failure = Failure(FailureKind.OUT_OF_MEMORY, f"{PARTITIONING}: passed the limit", limit=2.0**30)
    del probe["measurement"]["metrics"]
    probe["measurement"]["failure"] = failure.to_dict()
    probe["measurement"]["config"]["num_partitions"] = 2
    with (out / "probes.jsonl").open("a") as journal:
        journal.write(json.dumps(probe | {"reason": "front"}) + "\n")
    lines: list[str] = []
    tune(SPEC, budget=4, resume=True, notify=lines.append, **options)
    assert any("configurations with partitions are left out" in line for line in lines)
    later = (out / "probes.jsonl").read_text().splitlines()[3:]
    assert later
    assert all(json.loads(line)["measurement"]["config"]["num_partitions"] == 1 for line in later)


def test_the_chosen_configuration_trains(result: TuneResult, tmp_path: Path) -> None:
    # This process holds the tests' libraries as well; tests/cli trains in one of its own, under the limit.
    trained = train(result.folder / "tuned.json", epochs=2, out=tmp_path / "run", host_memory_limit=2**36)
    assert trained.config == TunedConfig.read(result.folder).config
    assert 0 < trained.test_accuracy <= 1


def test_a_hopeless_limit_says_what_would_do_after_one_trial(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(InfeasibleError, match="the smallest limit that would") as caught:
        tune(SPEC, memory_limit="30MiB", budget=2, out=tmp_path / "run", notify=lines.append, **OPTIONS)
    assert any("before it trains anything" in line for line in lines)
    assert caught.value.exit_code == ExitCode.INFEASIBLE
    assert caught.value.smallest_limit_bytes > 30 * 2**20
    assert len((tmp_path / "run" / "probes.jsonl").read_text().splitlines()) == 1


def test_where_nothing_fits_the_smallest_limit_is_said(tmp_path: Path, result: TuneResult) -> None:
    idle = result.tuned.hardware.limits.idle_host_bytes
    with pytest.raises(InfeasibleError, match="the smallest limit that would") as caught:
        tune(SPEC, memory_limit=idle + 2**20, budget=1, out=tmp_path / "run", **OPTIONS)
    assert caught.value.smallest_limit_bytes > idle + 2**20


def test_fixed_knobs_stay_fixed(tmp_path: Path) -> None:
    fixed = {"parallel_mode": "mode2", "feature_tier": "disk"}
    found = tune(SPEC, budget=1, out=tmp_path / "run", fix=fixed, max_accuracy_drop=100.0, **OPTIONS)
    assert found.tuned.config.parallel_mode == "mode2"
    assert found.tuned.config.feature_tier == "disk"


def test_an_unknown_engine_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nsga2"):
        tune(SPEC, engine="nsga3", budget=1, out=tmp_path / "run")
