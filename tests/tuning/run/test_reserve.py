"""What a tune does with the verification's seconds while nothing rivals the baseline; trials by formulas."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.measurement import Failure, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.run import rounds
from a3gnn.tuning.study.budget import VERIFICATION_SHARE
from a3gnn.units import parse_duration
from a3gnn_surrogate import residual
from tests.lines import everything
from tests.tuning.formulas import SMALL_SPACE, Formulas, by_quality, learned
from tests.tuning.measured import DEFAULT

BUDGET_S, TRIAL_S, TIMING_S = 600.0, 20.0, 12.0
#: What is left is a space in which each configuration learns in its own way.
LEARNS = {name: value for name, value in SMALL_SPACE.items() if name not in ("learning_rate_scale", "seed_fanout")}
LEARNS |= {"parallel_mode": "sequential", "feature_tier": "ram"}


class Machine:
    """Trials take `TRIAL_S`, and none but those begun after `rivals_s` reach the target; these are three times as fast.

    Attributes:
        begun: When each trial of the search began, in seconds.
    """

    def __init__(self, rivals_s: float) -> None:
        self.now, self.begun = 0.0, list[float]()
        self._rivals_s, self._rivals = rivals_s, {DEFAULT.key()}

    def run(self, request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        """Returns the outcome, after its seconds."""
        key, curve = request.config.key(), request.plan.curve
        if curve is not None and not curve.whole and key != DEFAULT.key():
            self.begun.append(self.now)
            if self.now >= self._rivals_s:
                self._rivals.add(key)
        self.now += TIMING_S if curve is None else TRIAL_S + curve.most_seconds * curve.whole
        if key == DEFAULT.key():
            return metrics
        if key in self._rivals:
            fast = {"throughput_epochs_per_s": 3.0, "throughput_replicates": (3.0,) * 3}
            return dataclasses.replace(metrics, curve=learned(0.9), **fast)
        low = tuple(0.5 * one for one in metrics.curve.val_accuracy)
        return dataclasses.replace(metrics, curve=dataclasses.replace(metrics.curve, val_accuracy=low))


@pytest.fixture
def tuned(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], monkeypatch: pytest.MonkeyPatch
) -> Callable[[float], tuple[TuneResult, Machine]]:
    monkeypatch.setattr(residual, "_NUM_TREES", (0,))
    monkeypatch.setattr(rounds, "_SLOW_TRIAL_S", BUDGET_S)

    def run(rivals_s: float) -> tuple[TuneResult, Machine]:
        machine = Machine(rivals_s)
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: machine.now)
            options = {"budget": BUDGET_S, "priority": "throughput", "max_accuracy_drop": 5.0, "fix": LEARNS}
            found = quick_tune(**options, executor=formulas(machine.run))
        return found, machine

    return run


def test_without_a_rival_trials_take_what_is_reserved_to_verify_one(tuned) -> None:
    found, machine = tuned(rivals_s=BUDGET_S)
    assert found.config == DEFAULT
    assert BUDGET_S - machine.begun[-1] < BUDGET_S * VERIFICATION_SHARE + TRIAL_S
    assert machine.now <= BUDGET_S * 1.05


def test_a_rival_of_the_last_trials_is_verified_within_the_budget(tuned) -> None:
    late_s = BUDGET_S * (1 - VERIFICATION_SHARE) - TRIAL_S
    found, machine = tuned(rivals_s=late_s)
    assert sum(begun >= late_s for begun in machine.begun) == 1  # then the rest is its verification's
    assert found.config != DEFAULT
    assert machine.now <= BUDGET_S * 1.05


def test_with_a_rival_nothing_else_is_asked(tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "least_reserve_s", lambda *_: pytest.fail("there is a rival"))
    _, machine = tuned(rivals_s=0.0)
    assert BUDGET_S - machine.begun[-1] > BUDGET_S * VERIFICATION_SHARE + TRIAL_S


@pytest.mark.slow
def test_a_tune_for_quality_that_holds_no_trial_names_the_budget_that_holds_one(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], tmp_path: Path
) -> None:
    def trials(budget_s: float) -> tuple[int, list[str]]:
        clock = [0.0]

        def run(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
            curve = request.plan.curve
            trained_s = 0.0 if curve is None else max(curve.most_seconds, curve.plateau_seconds or 0.0)
            clock[0] += 4.0 + 1.1 * trained_s
            metrics = dataclasses.replace(metrics, curve_train_seconds=trained_s, curve_eval_seconds=0.1 * trained_s)
            return by_quality(request, metrics, before)

        executor, lines = formulas(run), list[str]()
        options = {"budget": budget_s, "priority": "quality", "fix": {}, "engine": "ppo", "max_accuracy_drop": 100.0}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: clock[0])
            out = tmp_path / str(budget_s)
            found = quick_tune(**options, out=out, executor=executor, notify=everything(lines))
        return found.trials, [line for line in lines if "the budget is short: a tune with one trial" in line]

    none, (said,) = trials(40.0)
    named = re.search(r"needs about budget='(\w+)' here", said)
    assert none == 0
    assert named is not None
    enough_s = parse_duration(named[1])
    assert trials(0.6 * enough_s)[0] == 0
    enough, warned = trials(enough_s)
    assert 0 < enough < 4
    assert not warned
