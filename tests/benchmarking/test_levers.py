"""What `benchmarks.levers` varies, compares and says; by formulas, and once with real trials."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.request import TrialRequest
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from benchmarks.levers.__main__ import parser, run
from benchmarks.levers.bench import Cell, Gains, Measured, Side, Variant, single_knobs
from benchmarks.levers.report import stored, summary_table, worth_on
from tests.tuning.formulas import Formulas

DEFAULT = Side(throughput=1.0, peak_bytes=1000, val_accuracy=0.9, seconds_to_accuracy=10.0)


@pytest.fixture
def space(tiny_graph: Graph, hardware: Hardware) -> SearchSpace:
    return SearchSpace.of(Setting(Task(), tiny_graph.characteristics(), hardware))


def test_every_value_of_every_knob_is_varied_alone(space: SearchSpace) -> None:
    found = single_knobs(space)
    for knob in space.knobs:
        own = {getattr(one.config, knob.name) for one in found if one.knob == knob.name}
        assert own == {value for value in knob.values if value != knob.default}
    keys = [one.config.key() for one in found]
    assert len(set(keys)) == len(keys)
    assert TrainConfig().key() not in keys
    for one in found:
        if one.base == TrainConfig():
            assert set(one.changes()) == {one.knob}


def test_an_idle_knob_is_varied_where_one_other_change_wakes_it(space: SearchSpace) -> None:
    biased = [one for one in single_knobs(space) if one.knob == "bias_rate"]
    assert biased
    for one in biased:
        assert set(one.changes()) == {"bias_rate", "cache_bytes"}
        assert one.base == TrainConfig(cache_bytes=one.config.cache_bytes)
        assert one.config.canonical().bias_rate == one.config.bias_rate


def test_quick_takes_the_farthest_value_of_the_knobs_that_are_asked_for(space: SearchSpace) -> None:
    found = single_knobs(space, ("batch_size", "num_partitions"), farthest=True)
    assert [(one.knob, one.value) for one in found] == [("batch_size", "64"), ("num_partitions", "8")]


def cell(own: Side | None, seed: int = 0, failure: str = "") -> Cell:
    return Cell("tiny", seed, TrainConfig(batch_size=64), own, DEFAULT, failure)


def test_gains_are_ratios_in_which_more_is_better() -> None:
    gains = Gains.of([cell(Side(2.0, 500, 0.91, 5.0)), cell(Side(3.0, 250, 0.89, 2.5), 1)])
    assert gains.throughput == (2.5, 2.0, 3.0, 2)
    assert gains.memory == (3.0, 2.0, 4.0, 2)
    assert gains.time == (3.0, 2.0, 4.0, 2)
    assert gains.points == pytest.approx(0.0)


def test_the_gain_over_a_base_is_that_of_the_same_seed() -> None:
    cells = [cell(Side(4.0, 500, 0.9, 5.0)), cell(Side(9.0, 250, 0.9, None), 1)]
    base = [cell(Side(2.0, 1000, 0.8, 10.0)), cell(Side(3.0, 500, 0.8, 10.0), 1)]
    gains = Gains.of(cells, base)
    assert gains.throughput == (2.5, 2.0, 3.0, 2)
    assert gains.memory == (2.0, 2.0, 2.0, 2)
    assert gains.time is None
    assert gains.points == pytest.approx(0.0)


def test_what_loses_more_than_a_point_gains_nothing_but_time() -> None:
    gains = Gains.of([cell(Side(2.0, 500, 0.88, 5.0))])
    assert [gains.counting(name) for name in ("throughput", "memory", "time")] == [0, 0, 2]
    late = Gains.of([cell(Side(2.0, 500, 0.9, 5.0)), cell(Side(2.0, 500, 0.9, None), 1)])
    assert late.time is None
    assert late.counting("time") == 0
    failed = Gains.of([cell(None, failure="invalid: no such thing")])
    assert (failed.throughput, failed.points, failed.failure) == (None, None, "invalid: no such thing")


def test_a_cell_is_json() -> None:
    for one in (cell(Side(2.0, 500, 0.9, None)), cell(None, 1, "timeout: too long")):
        assert Cell.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_a_knob_is_named_that_is_worth_it_nowhere() -> None:
    fast = Gains.of([cell(Side(1.2, 1000, 0.9, 10.0))])
    slow = Gains.of([cell(Side(1.05, 1000, 0.9, 10.0))])
    rows = {
        "one": [Measured(Variant("batch_size", "64", TrainConfig(batch_size=64)), slow, slow)],
        "other": [
            Measured(Variant("batch_size", "64", TrainConfig(batch_size=64)), fast, fast),
            Measured(Variant("num_partitions", "2", TrainConfig(num_partitions=2)), fast, slow),
        ],
    }
    assert worth_on(rows, "batch_size") == ["other"]
    assert worth_on(rows, "num_partitions") == []
    console = Console(file=io.StringIO(), width=160)
    console.print(summary_table(rows))
    lines = console.file.getvalue().splitlines()
    assert "leaves the default space" in next(line for line in lines if "num_partitions" in line)
    assert "1.20 (other)" in next(line for line in lines if "batch_size" in line)


@pytest.fixture
def measured(tiny_folder_graph: Graph, hardware: Hardware, tmp_path: Path) -> Callable[..., dict[str, list[Measured]]]:
    """Runs the benchmark on the tiny graph with another executor, in one folder."""

    def go(executor: object, *arguments: str) -> dict[str, list[Measured]]:
        command = [str(tiny_folder_graph.folder), "--folder", str(tmp_path / "levers"), *arguments]
        options = parser().parse_args(command)
        with ProfileStore.open(tmp_path / "store.sqlite") as store:
            return run(options, executor, store, hardware, Console(file=io.StringIO(), width=200))

    return go


def test_the_best_combination_is_found_and_a_second_run_measures_nothing(measured, make_metrics) -> None:
    executor = Formulas(make_metrics)
    knobs = ("--knobs", "batch_size", "parallel_mode", "feature_tier", "--seeds", "2")
    (rows,) = measured(executor, *knobs).values()
    alone = {(one.variant.knob, one.variant.value): one.gains for one in rows}
    assert alone["parallel_mode", "mode1"].throughput.median == pytest.approx(1.3)
    assert alone["parallel_mode", "mode1"].throughput.repeats == 2
    assert alone["feature_tier", "disk"].throughput.median == pytest.approx(0.8)
    assert alone["feature_tier", "disk"].memory.median > 1
    for one in rows:
        assert one.alone == one.gains
    best = next(one for one in rows if one.variant.knob == "best of all (throughput)")
    assert best.variant.config == TrainConfig(parallel_mode="mode1")
    assert stored(rows)[0]["config"]["batch_size"] != 1024
    before = len(executor.ran)
    assert before > len(rows)
    (again,) = measured(executor, *knobs).values()
    assert again == rows
    assert len(executor.ran) == before


def test_a_knob_that_another_had_to_wake_is_not_credited_with_what_that_one_gains(measured, make_metrics) -> None:
    (rows,) = measured(Formulas(make_metrics), "--knobs", "num_workers", "--seeds", "1").values()
    own = [one for one in rows if one.variant.knob == "num_workers"]
    assert len(own) == 3
    for one in own:
        assert one.gains.throughput.median > 1.15
        assert one.alone.throughput.median == pytest.approx(1.0)
    assert worth_on({"tiny": rows}, "num_workers") == []


def test_each_variant_is_timed_right_before_the_default(measured, make_metrics) -> None:
    """A machine that slows down all the time does not make those measured later look slow."""
    made = 0

    def slower(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        nonlocal made
        made += 1
        drift = 0.99**made
        replicates = tuple(drift * one for one in metrics.throughput_replicates)
        throughput = drift * metrics.throughput_epochs_per_s
        return dataclasses.replace(metrics, throughput_epochs_per_s=throughput, throughput_replicates=replicates)

    (rows,) = measured(Formulas(make_metrics, slower), "--seeds", "2").values()
    assert made > 40
    mode = next(one for one in rows if one.variant.value == "mode1")
    assert mode.gains.throughput.median == pytest.approx(1.3, rel=0.02)


def test_a_graph_whose_default_fails_is_left_out(measured, make_metrics) -> None:
    failure = Failure(FailureKind.INVALID, "by formula")
    assert measured(Formulas(make_metrics, lambda *_: failure)) == {}


@pytest.mark.weekly
def test_real_trials(measured) -> None:
    with LocalExecutor() as executor:
        (rows,) = measured(
            executor, "--quick", "--knobs", "batch_size", "--hidden", "8", "--fanouts", "3", "2"
        ).values()
    assert rows[0].variant.knob == "batch_size"
    assert rows[0].gains.throughput.median > 0
    assert rows[0].gains.memory.median > 0
