"""Whole tunes for the least seconds to accuracy, and what tuned.json holds of them: by formulas."""

import dataclasses
import json

import pytest

from a3gnn.errors import InfeasibleError
from a3gnn.figures import LEAST_PAIRS
from a3gnn.measurement import Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.run.blocks import SEEDS
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.study.comparison import Comparison
from tests.tuning.formulas import SMALL_SPACE

#: Four configurations of one to eight parts; more of them are faster, and learn less.
PARTS = {"fix": SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram", "partitioner": "blocks"}}


def partitioned(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
    """Gives the making of partitions seconds: two are the first at the target, though eight are faster per epoch."""
    parts = request.config.num_partitions
    return dataclasses.replace(metrics, setup_seconds=0.1 * parts**2)


def test_the_fastest_to_the_target_is_chosen_and_its_seconds_are_kept(quick_tune, formulas) -> None:
    found = quick_tune(**PARTS, priority="time", target_accuracy=80, executor=formulas(partitioned))
    tuned = found.tuned
    assert tuned.config.num_partitions == 2  # 0.4 + 2.5 s; one part takes 0.1 + 3 s, four 1.6 + 2.1 s
    assert tuned.target_accuracy == tuned.limits.least_accuracy == pytest.approx(0.8)
    assert tuned.seconds_to_accuracy["median"] == pytest.approx(2.9)
    assert tuned.seconds_to_accuracy["repeats"] == LEAST_PAIRS * SEEDS
    assert tuned.default_budget_s == pytest.approx(12.1)  # it ends at a target that is given, and three points keep it
    assert tuned.still_rising is False  # the target was given, so nothing is left to settle
    against = Comparison.from_dict(tuned.against_default)
    assert against.time.median == pytest.approx(3.1 / 2.9)
    assert against.differs
    fields = json.loads((found.folder / "tuned.json").read_text())
    names = {"target_accuracy", "seconds_to_accuracy", "default_budget_s", "still_rising", "against_default"}
    assert names <= set(fields)
    assert TunedConfig.read(found.folder) == tuned
    assert Front.read(found.folder) == found.front
    assert found.front.rows[0].config == tuned.config
    assert {"chosen", "time"} <= set(found.front.rows[0].labels)


def test_a_target_that_nothing_reaches_is_what_is_to_be_lowered(quick_tune) -> None:
    with pytest.raises(InfeasibleError, match=r"target_accuracy=90$"):
        quick_tune(**PARTS, priority="time", target_accuracy=99)


def test_a_trial_ends_with_the_budget(quick_tune, formulas) -> None:
    machine = formulas(partitioned)
    quick_tune(**PARTS, budget=90.0, executor=machine)
    raced = [request for request in machine.explored if request.plan.curve.race is not None]
    searched = [request.plan.timeout_s for request in (machine.ran[0], *raced)]
    assert len(searched) > 2
    assert all(30.0 <= seconds <= 90.0 for seconds in searched)
    spent = Budget(90.0, spent_s=85.0)
    assert spent.bounded(machine.ran[0].plan).timeout_s == 30.0
    assert Budget(5).bounded(machine.ran[0].plan) == machine.ran[0].plan
