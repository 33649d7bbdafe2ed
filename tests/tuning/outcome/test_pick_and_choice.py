"""A pick without options is the tune's choice with its figures, whatever runs the tune had, and so is the page's."""

import dataclasses
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.page.views import study_views
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.study.budget import ask_to_stop
from tests.tuning.formulas import SMALL_SPACE, Formulas

REAL = Path(__file__).parents[2] / "page" / "real_tune"
#: Four configurations, so that a budget of seconds is not used up.
FEW = {"fix": SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram", "partitioner": "blocks"}}
#: The runs of a tune: the budget of each, and after how many trials it is stopped. A second of training has ten
#: mini-batches: a budget of 1 s trains the baseline for two, one of 40 s for five, which is a larger target.
RUNS = {
    "once": [(40.0, None)],
    "stopped": [(40.0, 3)],
    "longer": [(1.0, None), (40.0, None)],
    "stopped, then longer": [(1.0, 1), (40.0, None)],
    "longer, then stopped": [(1.0, None), (40.0, 3)],
    "longer, then stopped at once": [(1.0, 1), (40.0, 0)],
    "in trials, then in seconds": [(2, None), (40.0, None)],
    "in seconds, then in trials": [(1.0, None), (3, None)],
}
#: Those of every change: each way to end, and each to go on.
FIRST_RUNS = ("once", "stopped, then longer", "longer, then stopped", "in trials, then in seconds")


def _slower_and_stopped(folder: Path, after: int | None, pace: float) -> Callable[..., object]:
    """Returns trials at `pace` of the speed, which ask for a stop after so many of this run."""
    trials = itertools.count()

    def alter(request: object, metrics: object, before: int) -> object:
        if next(trials) == after:
            ask_to_stop(folder)
        return metrics if pace == 1 else _at(metrics, pace)

    return alter


def _at(metrics: object, pace: float) -> object:
    speeds = tuple(pace * share for share in (0.97, 1.0, 1.05))
    own = metrics.throughput_epochs_per_s
    return dataclasses.replace(
        metrics, throughput_epochs_per_s=own * pace, throughput_replicates=tuple(own * one for one in speeds)
    )


@pytest.mark.parametrize(
    ("runs", "priority"),
    [
        *(
            pytest.param(runs, "time", marks=[] if name in FIRST_RUNS else [pytest.mark.weekly])
            for name, runs in RUNS.items()
        ),
        (RUNS["longer"], "throughput"),
        pytest.param(RUNS["longer, then stopped"], "memory", marks=pytest.mark.weekly),
    ],
)
def test_a_pick_without_options_is_the_choice(
    quick_tune: Callable[..., TuneResult],
    formulas: Callable[..., Formulas],
    tmp_path: Path,
    runs: list,
    priority: str,
) -> None:
    folder, first = tmp_path / "run", None
    for number, (budget, after) in enumerate(runs):
        executor = formulas(_slower_and_stopped(folder, after, (0.8, 0.9)[number]))
        quick_tune(**FEW, budget=budget, executor=executor, resume=number > 0, priority=priority)
        first = first or (folder / "request.json").read_text()
    assert json.loads((folder / "request.json").read_text())["budget"] == runs[-1][0]
    _check(folder)
    (folder / "request.json").write_text(first)  # earlier versions left the options of the first run there
    _check(folder)


@pytest.mark.parametrize("name", ["memory", "time", "real"])
def test_a_pick_without_options_is_the_choice_of_a_stored_tune(kept: Callable, tmp_path: Path, name: str) -> None:
    _check(Path(shutil.copytree(REAL, tmp_path / "real")) if name == "real" else kept(name), has_range=False)


def _check(folder: Path, has_range: bool = True) -> None:
    tuned, found, stored = TunedConfig.read(folder), pick(folder), Front.read(folder)
    assert found.is_choice
    assert found.tuned == tuned
    assert found.front.target == stored.target == tuned.target_accuracy
    own = next(row for row in stored.rows if row.config == tuned.config)
    assert found.row.measured == own.measured
    seconds = None if own.measured.seconds is None else own.measured.seconds.to_dict()
    if has_range:  # fronts of older versions have none
        assert seconds == tuned.seconds_to_accuracy
    else:
        assert own.measured.seconds_to_accuracy == pytest.approx(tuned.seconds_to_accuracy["median"], rel=1e-3)
    views = study_views(folder, "a graph")
    assert views["objectives"]["default_budget_s"] == pytest.approx(tuned.default_budget_s)
    law = views["law"]
    shown = next(one for one in law["candidates"] if one["index"] == law["choice"])
    assert (shown["seconds"], shown["seconds_range"]) == (own.measured.seconds_to_accuracy, seconds)
    assert law["least"] == tuned.target_accuracy


def test_an_interrupted_longer_run_is_judged_by_its_own_budget(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    quick_tune(**FEW, budget=1.0)
    before = KeptTune.read(folder).history.reference

    def interrupts(request: object, metrics: object, before: int) -> object:
        if request.plan.curve is None:  # the baseline was trained on
            raise KeyboardInterrupt
        return metrics

    with pytest.raises(KeyboardInterrupt):
        quick_tune(**FEW, budget=40.0, resume=True, executor=formulas(interrupts))
    tune = KeptTune.read(folder)
    assert tune.tuned is None
    assert tune.history.reference.target > before.target
    assert pick(folder).tuned.target_accuracy == tune.front.target == tune.history.reference.target
