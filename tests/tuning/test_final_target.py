"""Tunes whose target is the baseline's accuracy when it stops improving: by formulas, and one with real trials."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn import train, tune
from a3gnn.config import TrainConfig
from a3gnn.learning_curve import LEAST_POINTS, CurveEnd
from a3gnn.measurement import Metrics
from a3gnn.page.views import study_views
from a3gnn.profiling.request import TrialRequest
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.study.folder import Journal
from tests.lines import everything
from tests.tuning.formulas import SMALL_SPACE, Formulas
from tests.tuning.study.test_drift import Machine
from tests.tuning.verify.test_ends import rising

#: Four configurations.
PARTS = {
    "fix": SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram", "partitioner": "blocks"},
    "priority": "time",
    "max_accuracy_drop": 1.0,
}


def slowly(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
    """The baseline improves for 100 s; more parts learn in fewer mini-batches."""
    parts = request.config.num_partitions
    return dataclasses.replace(metrics, curve=rising(1000 // parts, 0.5, 0.9), test_accuracy=0.8)


def test_a_tune_says_at_the_start_that_the_baseline_takes_longer_and_carries_it_everywhere(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> None:
    lines: list[str] = []
    result = quick_tune(**PARTS, budget=240.0, executor=formulas(slowly), notify=everything(lines))
    (said,) = [line for line in lines if "still improving" in line]
    trial = next(i for i, line in enumerate(lines) if line.startswith("baseline"))
    assert lines.index(said) > trial
    assert lines.index(said) < next(i for i, line in enumerate(lines) if line.startswith("#1"))
    tuned = result.tuned
    assert said.startswith("the baseline was still improving after 5")
    assert f"(budget='{math.ceil(tuned.settling_budget_s / 60)}min' settles half of such tunes)" in said
    # An eighth is 30 s, and a third 80 s: it can't stop improving within them once it improved for two thirds of them.
    assert 53 < tuned.default_budget_s < 58
    assert tuned.still_rising
    assert tuned.unsettled in result.summary.warnings
    assert tuned.unsettled in study_views(result.folder)["summary"]["answer"]["warnings"]
    assert study_views(result.folder)["tuned"]["settling_budget_s"] == tuned.settling_budget_s


@pytest.mark.parametrize(("speed", "priority", "said"), [(1e9, "time", 1), (1e9, "throughput", 0), (1, "time", 0)])
def test_a_tune_for_time_says_at_its_start_where_a_trial_costs_more_than_it_can_save(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], speed: float, priority: str, said: int
) -> None:
    def run(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        fast = (speed * metrics.throughput_epochs_per_s,) * 3
        return dataclasses.replace(metrics, throughput_epochs_per_s=fast[0], throughput_replicates=fast)

    lines: list[str] = []
    quick_tune(**PARTS | {"priority": priority}, executor=formulas(run), notify=everything(lines))
    told = [line for line in lines if "a tune pays only for many (recommend needs no trial)" in line]
    assert all(len(line) <= 80 for line in told)
    assert len(told) == said
    assert all(line.startswith("one training takes ") for line in told)


def test_the_seconds_printed_at_the_start_are_those_of_summary_file_page_and_train(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> None:
    """The first trial was disturbed: the verification runs at twice its speed."""
    lines: list[str] = []
    machine = Machine(after=1, then=2.0)

    def run(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return machine.run(request, slowly(request, metrics, before), before)

    result = quick_tune(**PARTS, budget=240.0, executor=formulas(run), notify=everything(lines))
    (said,) = [line for line in lines if "still improving" in line]
    (seconds,) = re.findall(r"trials are compared after ([\d.]+ s) ", said)
    tuned = TunedConfig.read(result.folder)
    assert tuned.drift == pytest.approx(2.0)
    own = f"{tuned.default_budget_s:.3g} s"
    assert f"compared after {seconds} of training ({own} at the verification's speed); the" in tuned.unsettled
    assert float(seconds.split()[0]) == pytest.approx(2 * tuned.default_budget_s, rel=1e-2)
    assert said.rpartition("(")[2] == f"{tuned.unsettled.rpartition('(')[2]}"
    assert result.summary.warnings[0] == tuned.unsettled
    assert study_views(result.folder)["summary"]["answer"]["warnings"][0] == tuned.unsettled


def test_a_baseline_that_stops_within_a_third_of_the_budget_sets_the_target(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> None:
    lines: list[str] = []
    result = quick_tune(**PARTS, budget=600.0, executor=formulas(slowly), notify=everything(lines))
    assert not any("still improving" in line for line in lines)
    tuned = result.tuned
    assert tuned.target_accuracy == pytest.approx(0.89)
    assert 150 <= tuned.default_budget_s < 165  # beyond an eighth, 75 s
    assert tuned.settling_budget_s is None
    assert tuned.unsettled == ""


@pytest.mark.parametrize("engine", ["random", pytest.param("ei", marks=pytest.mark.weekly)])
def test_a_larger_budget_trains_the_baseline_on_and_measures_anew_what_it_outgrew(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], engine: str
) -> None:
    options = PARTS | {"engine": engine}
    first = quick_tune(**options, budget=240.0, executor=formulas(slowly))
    before = Journal(first.folder).read()
    assert first.tuned.still_rising
    assert "points of validation" not in first.summary.headline  # the table has final accuracies, which are equal
    more = formulas(slowly)
    second = quick_tune(**options, budget=600.0, resume=True, executor=more)
    trials = Journal(second.folder).read()
    assert trials[: len(before)] == before
    assert trials[len(before)].reason == "longer"
    assert trials[len(before)].measurement.config == TrainConfig().canonical()
    assert not trials[len(before)].counts
    assert second.tuned.target_accuracy == pytest.approx(0.89)
    assert first.tuned.target_accuracy < 0.8
    assert not second.tuned.still_rising
    again = [one.measurement.config for one in trials[len(before) + 1 :] if one.counts]
    assert set(again) & {one.measurement.config for one in before}
    assert second.tuned.final["default"]["stopped"]
    third = quick_tune(**options, budget=601.0, resume=True, executor=formulas(slowly))
    assert sum(one.reason == "longer" for one in Journal(third.folder).read()) == 1


def test_memory_may_be_late_and_the_summary_says_so(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> None:
    def late(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, setup_seconds=50.0 * (request.config.num_partitions > 1))

    options = PARTS | {"max_accuracy_drop": 10.0}
    found = {}
    for priority in ("memory", "balanced", "1,9,9"):
        result = quick_tune(**(options | {"priority": priority}), executor=formulas(late), out=None)
        found[priority] = result
    assert found["memory"].config.num_partitions > 1
    assert any("later than the baseline, which this priority allows" in one for one in found["memory"].summary.warnings)
    for priority in ("balanced", "1,9,9"):
        assert found[priority].config.num_partitions == 1
        assert not any("later than the baseline" in one for one in found[priority].summary.warnings)


def test_files_of_older_versions_have_no_budget_that_would_settle_it(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> None:
    result = quick_tune(**PARTS, budget=240.0, executor=formulas(slowly))
    path = result.folder / "tuned.json"
    fields = json.loads(path.read_text())
    del fields["settling_budget_s"], fields["final"], fields["expected_final"], fields["drift"]
    path.write_text(json.dumps(fields))
    old = TunedConfig.read(path)
    assert old.final is None
    assert old.unsettled.endswith("the baseline was still improving (a larger budget compares later)")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneResult, list[str]]:
    """A tune with real trials of a graph that is learned within seconds."""
    lines: list[str] = []
    result = tune(
        "synthetic:nodes=1500,degree=8,classes=4,features=24",
        task=Task(hidden_channels=16, fanouts=(5, 5)),
        budget=25.0,
        out=tmp_path_factory.mktemp("tunes") / "final",
        notify=everything(lines),
    )
    return result, lines


@pytest.mark.slow
def test_a_real_baseline_trains_until_it_stops_improving(real: tuple[TuneResult, list[str]]) -> None:
    result, _ = real
    (baseline, *_) = Journal(result.folder).read()
    metrics = baseline.measurement.metrics
    assert metrics.curve.ended is CurveEnd.PLATEAU
    assert len(metrics.curve.batches) >= LEAST_POINTS
    assert metrics.test_accuracy is not None
    assert not result.tuned.still_rising
    assert result.tuned.target_accuracy == pytest.approx(metrics.curve.best_held() - 0.005)


@pytest.mark.slow
def test_real_final_accuracies_are_those_of_the_stored_trainings(real: tuple[TuneResult, list[str]]) -> None:
    result, _ = real
    tuned = result.tuned
    (baseline, *_) = Journal(result.folder).read()
    metrics = baseline.measurement.metrics
    assert tuned.final["default"]["val_accuracy"] == max(metrics.curve.val_accuracy)
    assert tuned.final["default"]["test_accuracy"] == metrics.test_accuracy
    shown = repr(result)
    assert "final validation accuracy" in shown
    assert "final test accuracy" in shown
    if "other" in tuned.final and tuned.no_gain is None:
        assert tuned.final["other"]["val_accuracy"] >= tuned.target_accuracy


@pytest.mark.slow
def test_train_says_what_a_tune_did_not_settle(real: tuple[TuneResult, list[str]], tmp_path: Path) -> None:
    result, _ = real
    short = dataclasses.replace(result.tuned, still_rising=True, settling_budget_s=300.0)
    for tuned, expected in ((short, True), (result.tuned, False)):
        lines: list[str] = []
        train(tuned, epochs=1, out=tmp_path / str(expected), notify=lines.append)
        said = f"the tune {short.unsettled}"
        assert (said in lines) is expected
    assert "budget='5min' settles half of such tunes" in short.unsettled
