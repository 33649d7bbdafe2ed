"""Tunes on emulated graphs, here of the shipped rows of three graphs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest

from a3gnn import objectives
from a3gnn.config import TrainConfig
from a3gnn.measurement import Failure, FailureKind, Measurement, Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import CurvePlan, TrialPlan
from a3gnn.space import SearchSpace
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.engines import improvement
from a3gnn.tuning.engines.engine import make_engine
from a3gnn.tuning.study import comparison
from a3gnn.tuning.study.trial import Proposal
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.emulated import graph as emulated_graph
from benchmarks.emulated.__main__ import lines, set_constant
from benchmarks.emulated.graph import EmulatedGraph, EmulatedTune, eligible, gaining_keys
from benchmarks.emulated.measured import ACCURACY, MEMORY, SPEED, MeasuredDefault, by_setting, median_costs

BY_TIME = Priority.parse("time")
DEFAULT = TrainConfig().canonical()


class Case:
    """The first graph of `rows`, and what is believed of it by the others."""

    def __init__(self, rows: Sequence[Measurement]) -> None:
        held = rows[0].setting.graph.fingerprint
        self.others = [row for row in rows if row.setting.graph.fingerprint != held]
        self.default = by_setting([row for row in rows if row.setting.graph.fingerprint == held])[0]
        self.surrogate = Surrogate(seed=0).fit(self.others, held)
        self.costs = {config: median_costs(self.default, trials) for config, trials in self.default.by_config.items()}
        self.configs = [config for config, found in self.costs.items() if found is not None]

    def graph(self, seed: int = 0) -> EmulatedGraph:
        return EmulatedGraph(self.default, self.surrogate, seed)


@pytest.fixture(scope="module")
def case(rows: list[Measurement]) -> Case:
    return Case(rows)


def whole(default: MeasuredDefault) -> TrialPlan:
    return TrialPlan(curve=CurvePlan(default.reference.budget_s))


def test_what_is_true_follows_what_was_measured_and_differs_by_seed(case: Case) -> None:
    true = case.graph().true(case.configs)
    measured = np.array([case.costs[config] for config in case.configs])
    found = np.stack(
        [-np.log2(true.column("throughput_epochs_per_s")), np.log2(true.column("peak_host_bytes"))], axis=1
    )
    for cost in (SPEED, MEMORY):
        off, spread = found[:, cost] - measured[:, cost], measured[:, cost] - measured[:, cost].mean()
        assert (off**2).mean() < 0.3 * (spread**2).mean()
    assert true.column("val_accuracy") == pytest.approx(-measured[:, ACCURACY], abs=0.1)
    np.testing.assert_array_equal(true.low, true.high)
    space = SearchSpace.of(case.default.rows[0].setting)
    assert len(case.graph().true(space.columns(space.sample(50, 0)))) == 50, "any configuration may be tried"
    other = case.graph(1).true(case.configs)
    assert not np.allclose(true.mean, other.mean), "each seed knows another part"


@pytest.mark.weekly
def test_a_seed_decides_what_trials_find(case: Case) -> None:
    plan = whole(case.default)
    for config in case.configs[:3]:
        first, again, other = (case.graph(seed).measure(config, plan, None) for seed in (0, 0, 1))
        assert first.outcome == again.outcome
        assert first.outcome != other.outcome
    graph = case.graph()
    one, two = (graph.measure(DEFAULT, plan, None).metrics for _ in range(2))
    assert one is not None
    assert two is not None
    assert one.throughput_epochs_per_s != two.throughput_epochs_per_s, "trials are noisy"
    assert one.curve is not None
    assert two.curve is not None
    pairs = [list(zip(found.curve.batches, found.curve.val_accuracy, strict=True)) for found in (one, two)]
    common = min(map(len, pairs))
    assert pairs[0][:common] == pairs[1][:common], "a learning key has one curve; its pace says how far it is trained"


def test_a_trial_that_passes_the_limit_ends_before_it_trains(case: Case) -> None:
    plan = dataclasses.replace(whole(case.default), host_limit_bytes=2**20)
    found = case.graph().measure(DEFAULT, plan, None)
    assert isinstance(found.outcome, Failure)
    assert found.outcome.kind is FailureKind.OUT_OF_MEMORY
    assert found.seconds == case.default.trial_seconds[0]


def test_a_curve_reaches_the_target_when_it_truly_does_and_costs_what_it_trains(case: Case) -> None:
    graph, reference, missed = case.graph(), case.default.reference, 0
    for config in case.configs:
        measured = graph.measure(config, whole(case.default), None)
        assert isinstance(measured.outcome, Metrics)
        metrics, true = measured.outcome, graph.true([config])
        assert metrics.curve is not None
        pace = dataclasses.replace(
            metrics.pace, batches_per_s=float(true.column("throughput_epochs_per_s")[0]) * metrics.batches_per_epoch
        )
        reached = metrics.curve.first_reaching(reference.target)
        if float(true.column("val_accuracy")[0]) < reference.target:
            assert reached is None
            missed += 1
            continue
        seconds = min(float(true.column("seconds_to_accuracy")[0]), reference.budget_s)
        assert reached is not None
        later = next(count for count in (*metrics.curve.batches, reached) if count >= reached)
        assert pace.seconds(later) == pytest.approx(seconds, abs=0.1 * reference.budget_s)
        start_s, curve_s = case.default.trial_seconds
        evaluated = curve_s / reference.budget_s
        trained = metrics.curve.trained / metrics.pace.batches_per_s
        assert measured.seconds == pytest.approx(start_s + evaluated * trained)
        again = graph.measure(config, whole(case.default), metrics.curve)
        assert again.seconds <= start_s + 0.2 * evaluated * reference.budget_s, "of a known curve nothing is trained"
    assert 0 < missed < len(case.configs)


def test_the_target_counts_from_where_the_default_kept_it(case: Case) -> None:
    metrics = case.default.metrics
    assert metrics.curve is not None
    assert case.default.known.seconds is not None
    values = list(metrics.curve.val_accuracy)
    values[0] = max(values)  # a touch that the next points do not keep
    touched = dataclasses.replace(metrics.curve, val_accuracy=tuple(values))
    rows = [
        dataclasses.replace(row, outcome=dataclasses.replace(metrics, curve=touched)) if row.metrics is metrics else row
        for row in case.default.rows
    ]
    default = MeasuredDefault(rows)
    assert default.known.seconds == case.default.known.seconds
    found = EmulatedGraph(default, case.surrogate, 0).judged([DEFAULT]).column("seconds_to_accuracy")[0]
    assert found == pytest.approx(default.known.seconds, rel=0.2)


class InOrder:
    """Proposes these configurations one by one."""

    def __init__(self, configs: Sequence[TrainConfig]) -> None:
        self._left = list(configs)

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        return [Proposal("best", self._left.pop(0)) for _ in self._left[:1]]


@pytest.mark.weekly
def test_a_tune_ends_with_its_seconds_and_is_judged_by_what_is_true(case: Case) -> None:
    graph = case.graph()
    configs = [config for config in case.configs if config != DEFAULT]
    found = EmulatedTune.run(graph, case.others, None, BY_TIME, InOrder(configs), 3.0, seed=0)
    spent = [seconds for seconds, _ in found.chosen]
    assert spent == sorted(spent)
    assert spent[-2] < 3.0
    assert found.chosen[0] == pytest.approx((0.0, 0.0)), "the default gains nothing over itself"
    assert found.after(0.0) == found.chosen[0][1]
    assert found.after(10.0) == found.chosen[-1][1] <= found.best
    assert found.trials == len(found.chosen) - 1
    assert 0 <= found.broken <= 1
    none = EmulatedTune.run(case.graph(), case.others, None, BY_TIME, InOrder([]), 3.0, seed=0)
    assert (none.trials, none.after(3.0)) == (0, pytest.approx(0.0))


def test_what_reaches_the_target_too_late_is_not_chosen_for_throughput(case: Case) -> None:
    graph, found = case.graph(), {}

    class Recorder(InOrder):
        def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
            found[beliefs.objectives.priority.name] = beliefs.history
            return []

    for priority in ("throughput", "memory"):
        EmulatedTune.run(graph, case.others, None, Priority.parse(priority), Recorder([]), 1.0, seed=0)
    history = found["throughput"]
    assert history.latest_s is not None
    space = history.space
    true = graph.true(space.columns(space.sample(2000, 0)))
    late = true.column("seconds_to_accuracy") > history.latest_s
    in_time = eligible(history, true)
    assert (in_time & ~late).any()
    assert not (in_time & late).any()
    assert (eligible(found["memory"], true) & late).any(), "a priority for memory may be late"


@pytest.mark.parametrize(
    "priority", ["time", *(pytest.param(one, marks=pytest.mark.weekly) for one in ("throughput", "memory"))]
)
def test_a_choice_among_measured_configurations_gains_if_a_measured_key_does(
    case: Case, priority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, configs = Priority.parse(priority), [config for config in case.configs if config != DEFAULT]
    gaining, keys = gaining_keys(case.graph(), case.others, wanted, 3.0)
    assert 0 <= gaining <= keys == len({config.learning_key() for config in case.default.by_config})
    found = EmulatedTune.run(case.graph(), case.others, None, wanted, InOrder(configs), 3.0, seed=0)
    if gaining == 0:
        assert found.after(3.0) < math.log2(1 + objectives.MIN_GAIN)
    else:
        assert found.best >= math.log2(1 + objectives.MIN_GAIN)
    monkeypatch.setattr(emulated_graph, "MIN_GAIN", 2 ** (found.best + 0.01) - 1)
    assert gaining_keys(case.graph(), case.others, wanted, 3.0) == (0, keys), "nothing is better than the best"


def test_a_graph_can_be_tuned_anew_with_the_same_truth_and_noise(case: Case) -> None:
    graph, plan = case.graph(), whole(case.default)
    first = graph.measure(DEFAULT, plan, None)
    assert graph.measure(DEFAULT, plan, None).outcome != first.outcome
    assert graph.anew().measure(DEFAULT, plan, None) == first


def test_an_engine_tunes_an_emulated_graph(case: Case) -> None:
    found = EmulatedTune.run(case.graph(), case.others, None, BY_TIME, make_engine("ei", 0), 1.0, seed=0)
    assert found.trials >= 1
    assert found.chosen[-1][1] <= found.best
    assert 1 <= found.keys <= found.trials


def test_tables_pair_engines_on_the_same_graph_and_seed() -> None:
    def tune(gain: float) -> EmulatedTune:
        course = ((0.0, 0.0), (2.0, gain), (9.0, 2 * gain))
        return EmulatedTune(course, best=5.0, broken=0.25, repeated=0.1, trials=2, keys=1)

    found = {
        (graph, "time", name, seed): tune(gain + seed + (graph == "h") * (name == "tpe"))
        for graph in ("g", "h")
        for name, gain in (("ei", 1.0), ("tpe", 0.5))
        for seed in (0, 1)
    }
    shown = lines(found, ["ei", "tpe"], 10.0)
    assert shown[0] == "time: 4 tunes per engine, 2 graphs"
    assert shown[2].split() == ["ei", "1.50", "1.50", "3.00", "2.00", "25%", "10%", "2.0", "50%"]
    # By graph the differences are -.5 and +.5: of two graphs, whatever the number of seeds.
    assert shown[4] == "tpe less ei: +0.00 (0.50), +0.00 (0.50), +0.00 (1.00)"


def test_a_constant_is_set_in_every_module_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (objectives, improvement, comparison):
        monkeypatch.setattr(module, "MIN_GAIN", objectives.MIN_GAIN)  # is restored afterwards
    set_constant("MIN_GAIN=0.25")
    assert objectives.MIN_GAIN == improvement.MIN_GAIN == 0.25
    set_constant("a3gnn.objectives.MIN_GAIN=0.5")
    assert (objectives.MIN_GAIN, improvement.MIN_GAIN) == (0.5, 0.25)
    for wrong in ("NONE_SUCH=1", "LEAST_POINTS=4", "TrainConfig=1", "STARTS=2.5"):  # two modules have a LEAST_POINTS
        with pytest.raises(ValueError, match=r"--set needs a number|invalid literal"):
            set_constant(wrong)
