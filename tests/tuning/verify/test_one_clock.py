"""All seconds of a summary are at one speed of the machine, and every view of a tune shows the same ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.notify import with_details
from a3gnn.objectives import Priority
from a3gnn.page.views import study_views
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.compare import compare, compare_lines
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.result import SearchSummary, TuneResult
from a3gnn.tuning.run.finish import finish
from a3gnn.tuning.verify.verification import verify
from a3gnn.units import format_duration
from tests.lines import everything
from tests.tuning.formulas import SMALL_SPACE, Formulas
from tests.tuning.measured import MODE1, Measured
from tests.tuning.study.test_drift import Machine, tried


@pytest.mark.parametrize(("before", "then"), [(1.0, 0.5), (0.5, 1.0)])
def test_the_seconds_that_both_trained_are_those_of_the_verification(
    measured: Callable[..., Measured], formulas: Callable[..., Formulas], before: float, then: float
) -> None:
    """The machine changes its speed after its last timing, when the first run of the verification begins."""
    machine = Machine()
    tune = measured(executor=formulas(machine.run), max_accuracy_drop=10.0, priority=Priority.parse("time"))
    machine.speed = before
    history = tried(tune, tune.history, MODE1)
    assert history.drift == before
    machine.speed = then
    tuned = finish(history, verify(history, tune.runner), SearchSummary("ei"), tune.runner).tuned
    baseline = tuned.default
    trained = history.reference_metrics.curve.trained
    assert tuned.default_budget_s == pytest.approx(baseline.pace.seconds(trained))
    assert tuned.drift * tuned.default_budget_s == pytest.approx(history.reference.budget_s)
    assert tuned.drift == pytest.approx(then)
    assert baseline.pace.seconds(baseline.curve.first_reaching(tuned.target_accuracy)) <= tuned.default_budget_s


@pytest.fixture
def slowed(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> Callable[[float], tuple[TuneResult, list[str]]]:
    """Tunes on a machine that runs at another speed once the search has ended; returns result and lines."""

    def run(then: float, **options: object) -> tuple[TuneResult, list[str]]:
        machine, lines = Machine(), []
        keep = everything(lines)

        def notify(line: str) -> None:
            keep(line)
            if lines and lines[-1].startswith("the search ends"):
                machine.speed = then

        parts = SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram", "partitioner": "blocks"}
        options = {"priority": "time", "fix": parts, "max_accuracy_drop": 10.0} | options
        return quick_tune(executor=formulas(machine.run), notify=with_details(notify), **options), lines

    return run


def of_baseline(result: TuneResult) -> Iterator[float]:
    """Yields the baseline's seconds to the target, as the views of a tune have them."""
    yield next(row for row in result.front.rows if row.config == TrainConfig().canonical()).measured.seconds_to_accuracy
    rows = study_views(result.folder)["rows"]
    yield next(row for row in rows if "default" in row["labels"])["figures"]["seconds_to_accuracy"]


@pytest.mark.parametrize("then", [1.0, 0.5])
def test_log_summary_page_and_pick_tell_one_clock(slowed: Callable[..., tuple], then: float) -> None:
    result, lines = slowed(then)
    tuned: TunedConfig = result.tuned
    assert tuned.config != TrainConfig()
    assert tuned.drift == pytest.approx(then)
    views = study_views(result.folder)
    assert views["objectives"]["default_budget_s"] == pytest.approx(tuned.default_budget_s)
    assert pick(result.folder, priority="memory").tuned.default_budget_s == pytest.approx(tuned.default_budget_s)
    seconds = set(of_baseline(result))
    assert len(seconds) == 1
    assert max(seconds) <= tuned.default_budget_s
    told = [line for line in lines if line.startswith("baseline: ")]
    assert len(told) == (then != 1.0)
    if told:
        (one,) = seconds
        assert re.search(rf" {one:.3g} s in the verification below", told[0])
        first = re.search(r"^baseline +([\d.]+) s ", next(line for line in lines if line.startswith("baseline ")), re.M)
        assert told[0].startswith(f"baseline: {first[1]} s in its single trial above")
        assert float(first[1]) == pytest.approx(then * one, rel=0.01)


def test_summary_page_and_comparison_show_one_duration(slowed: Callable[..., tuple], tmp_path: Path) -> None:
    result, _ = slowed(1.0)
    took = f"{format_duration(result.seconds)} in all"
    assert re.search(rf"^3 trials, then \d+ runs of both in turns with \d seeds; {took}$", repr(result), re.M)
    assert study_views(result.folder)["summary"]["answer"]["verified"].endswith(took)
    other = tmp_path / "other"
    other.mkdir()
    for file in result.folder.iterdir():
        if file.is_file():
            (other / file.name).write_bytes(file.read_bytes())
    assert "\n".join(compare_lines(compare([result.folder, other]))).replace("\n   ", " ").count(took) == 2
