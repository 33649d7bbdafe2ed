"""What a tune measures next, from a real search on the surrogate's predictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.limits import FEASIBLE
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, FailureKind, Measurement, Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import PARTITIONING, TrialPlan, TrialRequest
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn.tuning.beliefs import expectations
from a3gnn.tuning.beliefs.expectations import (
    TrialCost,
    expected_trial_s,
    expected_trials_s,
    fit_surrogate,
    predict,
    smallest_memory,
)
from a3gnn.tuning.engines.propose import ROUND_TRIALS, best_score, problem_of, propose, round_trials
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.study.trial import Trial
from tests.tuning.formulas import SMALL_SPACE, Formulas

MiB = 2**20


@pytest.fixture
def setting(tiny_graph: Graph, hardware: Hardware) -> Setting:
    return Setting(Task(hidden_channels=16, fanouts=(3, 3)), tiny_graph.characteristics(), hardware)


@pytest.fixture
def history(setting: Setting) -> History:
    request = TuneRequest(
        spec="tiny",
        task=setting.task,
        priority=Priority.parse("time"),
        memory_limit=400 * MiB,
        host_memory_limit=None,
        max_accuracy_drop=5.0,
        budget=5,
        engine="random",
        fixed=tuple(SMALL_SPACE.items()),
    )
    return History(Study.of(request, setting))


@pytest.fixture
def tried(history: History, formulas: Callable[..., Formulas]) -> History:
    """Trials of the default and of four others."""
    configs = [
        TrainConfig(),
        TrainConfig(parallel_mode="mode1", num_workers=2),
        TrainConfig(num_partitions=2, partitioner="blocks"),
        TrainConfig(num_partitions=4, partitioner="blocks"),
        TrainConfig(feature_tier="disk"),
    ]
    for config in configs:
        history = history.with_trial(made(history, config, formulas))
    return history


def made(history: History, config: TrainConfig, formulas: Callable[..., Formulas]) -> Trial:
    setting, curve = history.study.setting, history.study.reference_curve
    outcome: Metrics | Failure = formulas().run(TrialRequest(config.canonical(), setting, "", TrialPlan(curve=curve)))
    return Trial("best", {}, measured(history, config, outcome))


def measured(history: History, config: TrainConfig, outcome: Metrics | Failure) -> Measurement:
    created = "2026-01-01T00:00:00+00:00"
    return Measurement(config.canonical(), history.study.setting, outcome, 0, 1.0, MEASUREMENT_VERSION, created)


def test_rounds_grow_with_what_is_known(tried: History, history: History) -> None:
    others = [dataclasses.replace(history, trials=tried.trials[:count]) for count in range(1, 6)]
    others.append(dataclasses.replace(tried, trials=(*tried.trials, *tried.trials[1:])))
    reference = dataclasses.replace(tried.trials[0], reason="default")
    begun = [dataclasses.replace(one, trials=(reference, *one.trials[1:])) for one in others]
    assert [round_trials(one) for one in begun] == [1, 1, 2, 3, ROUND_TRIALS, ROUND_TRIALS]


def test_what_is_proposed_is_new_distinct_and_probable(tried: History) -> None:
    surrogate = fit_surrogate(tried)
    proposals = propose(tried, surrogate).proposals
    assert len(proposals) == ROUND_TRIALS
    assert proposals[0].reason == "best"
    assert {one.reason for one in proposals} <= {"best", "front"}
    configs = [one.config.canonical() for one in proposals]
    seen = {trial.measurement.config.key() for trial in tried.trials}
    assert len({config.key() for config in configs} - seen) == ROUND_TRIALS
    found = predict(surrogate, tried, configs)
    assert tried.reference_figures.seconds_to_accuracy is not None
    assert found.budget_s == tried.reference.budget_s
    kept = tried.objectives.limits.keeping(dataclasses.replace(found, budget_s=tried.latest_s))
    assert kept
    assert all((probability >= FEASIBLE).all() for probability in kept.values())


def test_the_search_holds_to_what_may_be_chosen(tried: History) -> None:
    """What reaches the target later than the reference may not be chosen where speed decides: nor is it searched."""
    surrogate = fit_surrogate(tried)
    assert tried.latest_s is not None
    found = propose(tried, surrogate).search
    problem = problem_of(tried, surrogate)
    prediction = problem.predict(found.rows)
    assert prediction.budget_s == tried.latest_s
    assert found.feasible
    assert all((kept >= FEASIBLE).all() for kept in problem.objectives.limits.keeping(prediction).values())


def test_a_trial_whose_curve_is_known_is_expected_to_take_less(tried: History) -> None:
    surrogate, drift = fit_surrogate(tried), 0.5
    configs = [TrainConfig(parallel_mode="mode2", num_workers=2), TrainConfig(num_partitions=8, partitioner="blocks")]
    known = surrogate.knows_curve(configs, tried.study.setting)
    assert known.tolist() == [tried.curve(config) is not None for config in configs] == [True, False]
    found = predict(surrogate, tried, configs)
    known_s, new_s = expected_trials_s(tried, known, found, drift)
    cost = TrialCost.of(tried)
    assert known_s == cost.around_s
    trained_s = min(tried.reference.budget_s, float(found.column("seconds_to_accuracy")[1]))
    assert new_s == pytest.approx(cost.seconds(trained_s / drift))
    assert expected_trial_s(surrogate, tried, configs[1], drift) == pytest.approx(new_s)


def test_a_lucky_measurement_is_not_what_is_to_be_improved_upon(tried: History) -> None:
    """What is believed of a configuration after all trials counts, not the best single one of them."""
    last = tried.trials[-1]
    assert last.metrics is not None
    lucky = dataclasses.replace(
        last.metrics,
        throughput_epochs_per_s=8 * last.metrics.throughput_epochs_per_s,
        throughput_replicates=tuple(8 * one for one in last.metrics.throughput_replicates),
    )
    measurement = dataclasses.replace(last.measurement, outcome=lucky)
    history = dataclasses.replace(
        tried, trials=(*tried.trials[:-1], dataclasses.replace(last, measurement=measurement))
    )
    best = history.best()
    assert best is not None
    assert best.trial.measurement.config == last.measurement.config
    seen = float(history.objectives.measured_score([best.figures])[0])
    believed = best_score(history, problem_of(history, fit_surrogate(history)))
    assert believed is not None
    assert believed < seen - 0.1


def test_the_same_history_has_the_same_proposals(tried: History) -> None:
    first, second = (propose(tried, fit_surrogate(tried)).proposals for _ in range(2))
    assert first == second


def test_partitions_that_could_not_be_made_are_not_proposed(tried: History) -> None:
    config = TrainConfig(num_partitions=2, partitioner="metis")
    failure = Failure(FailureKind.OUT_OF_MEMORY, f"{PARTITIONING}: passed the limit", 0, 1.0)
    longer = tried.with_trial(Trial("best", {}, measured(tried, config, failure)))
    assert longer.space.unmade_parts == (("metis", 2),)
    for one in propose(longer, fit_surrogate(longer)).proposals:
        assert one.config.num_partitions == 1 or one.config.partitioner != "metis"


@pytest.mark.parametrize("seed", range(5))
def test_the_least_memory_of_millions_is_found_from_any_start(
    tried: History, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    surrogate = fit_surrogate(tried)
    enumerated = smallest_memory(surrogate, tried)
    sample = SearchSpace.sample
    monkeypatch.setattr(expectations, "ENUMERABLE", 0)
    monkeypatch.setattr(SearchSpace, "sample", lambda space, count, _: sample(space, 3, seed))
    monkeypatch.setattr(SearchSpace, "enumerate", lambda space: pytest.fail("it enumerated the space"))
    descended = smallest_memory(surrogate, tried)
    assert descended is not None
    assert enumerated is not None
    assert descended.key() not in {trial.measurement.config.key() for trial in tried.trials}
    found = predict(surrogate, tried, [descended, enumerated]).column("peak_host_bytes")
    assert found[0] == pytest.approx(found[1], rel=0.02)


def test_nothing_is_proposed_where_all_is_tried(history: History, formulas: Callable[..., Formulas]) -> None:
    space = history.study.space
    for name in ("parallel_mode", "feature_tier", "cache_policy", "resources", "partitioner"):
        space = space.fix(name, getattr(TrainConfig(), name))
    history = dataclasses.replace(history, study=dataclasses.replace(history.study, space=space))
    rows = space.enumerate()
    for row in rows[:-1]:
        history = history.with_trial(made(history, space.decode(row), formulas))
    left = propose(history, fit_surrogate(history)).proposals
    assert [one.config for one in left] == [space.decode(rows[-1])]
    history = history.with_trial(made(history, left[0].config, formulas))
    assert propose(history, fit_surrogate(history)).proposals == ()
