"""What a tune believes after some trials, by formulas."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.learning_curve import CONFIRMED
from a3gnn.objectives import Priority
from a3gnn.space import SearchSpace
from a3gnn.tuning.beliefs import expectations
from a3gnn.tuning.beliefs.beliefs import UNLIKELY, Beliefs
from a3gnn.tuning.beliefs.expectations import (
    TrialCost,
    expected_trial_s,
    expected_trials_s,
    fit_surrogate,
    predict,
    smallest_memory,
)
from a3gnn.tuning.study.history import History


def test_a_trial_whose_curve_is_known_is_expected_to_take_less(tried: History) -> None:
    surrogate, drift = fit_surrogate(tried), 0.5
    configs = [TrainConfig(parallel_mode="mode2", num_workers=2), TrainConfig(num_partitions=8, partitioner="blocks")]
    known = surrogate.knows_curve(configs, tried.study.setting)
    assert known.tolist() == [tried.curve(config) is not None for config in configs] == [True, False]
    found = predict(surrogate, tried, configs)
    known_s, new_s = expected_trials_s(tried, known, found, drift)
    cost = TrialCost.of(tried)
    assert known_s == cost.around_s
    trained_s = min(tried.reference.budget_s, CONFIRMED * float(found.column("seconds_to_accuracy")[1]))
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
    believed = Beliefs(history, fit_surrogate(history)).best()
    assert believed is not None
    assert believed < seen - 0.1


@pytest.mark.parametrize("seed", range(5))
def test_the_least_memory_of_millions_is_found_from_any_start(
    tried: History, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    surrogate = fit_surrogate(tried)
    enumerated = smallest_memory(surrogate, tried)
    sample = SearchSpace.sample
    monkeypatch.setattr(expectations, "ENUMERABLE", 0)
    monkeypatch.setattr(SearchSpace, "sample", lambda space, count, _: sample(space, 30, seed))
    monkeypatch.setattr(SearchSpace, "enumerate", lambda space: pytest.fail("it enumerated the space"))
    descended = smallest_memory(surrogate, tried)
    assert descended is not None
    assert enumerated is not None
    assert descended.key() not in {trial.measurement.config.key() for trial in tried.trials}
    found = predict(surrogate, tried, [descended, enumerated]).column("peak_host_bytes")
    assert found[0] == pytest.approx(found[1], rel=0.02)


def by(history: History, priority: str, **options: object) -> Beliefs:
    request = dataclasses.replace(history.study.request, priority=Priority.parse(priority), **options)
    other = dataclasses.replace(history, study=dataclasses.replace(history.study, request=request))
    return Beliefs(other, fit_surrogate(other))


@pytest.mark.parametrize("priority", ["time", "throughput", "2,1,1"])
def test_at_the_slowest_speed_a_trial_is_unlikely_to_win(tried: History, priority: str) -> None:
    """By draws of what is believed of memory and accuracy, and of the noise of a trial."""
    beliefs, config = by(tried, priority), TrainConfig(num_partitions=8, partitioner="blocks").canonical()
    slowest, best, objectives = beliefs.slowest(config), beliefs.best(), beliefs.objectives
    assert slowest is not None
    assert best is not None
    prediction, random = beliefs.predict_configs([config]), np.random.default_rng(0)
    normal = random.normal(size=(3, 200_000))
    noise = beliefs.surrogate.noise(tried.study.setting.hardware)
    memory = np.log2(prediction.column("peak_host_bytes")[0])
    memory = memory + normal[1] * prediction.spread("peak_host_bytes")[0] / np.log(2)
    accuracy = prediction.column("val_accuracy")[0]
    if objectives.priority.accuracy_counts:
        accuracy = accuracy + normal[2] * prediction.spread("val_accuracy")[0]
    else:
        accuracy = min(accuracy, objectives.limits.least_accuracy)
    sign = 1 if objectives.priority.time else -1
    speed = sign * np.log2(slowest) + normal[0] * noise / np.log(2)
    costs = np.stack([speed, memory, np.broadcast_to(-accuracy, speed.shape)], axis=1)
    assert (objectives.priority.score(costs) > best).mean() == pytest.approx(UNLIKELY, abs=0.005)


@pytest.mark.parametrize(("priority", "once"), [("time", True), ("throughput", False), ("balanced", False)])
def test_where_seconds_alone_decide_the_target_is_a_part_of_the_score(
    tried: History, priority: str, once: bool
) -> None:
    beliefs, rows = by(tried, priority), tried.space.sample(200, 0)
    assert beliefs.ranked
    prediction, limits = beliefs.predict(rows), beliefs.objectives.limits
    of_memory = dataclasses.replace(limits, least_accuracy=None).feasibility(prediction)
    every = limits.feasibility(prediction)
    assert (every < of_memory).any()
    np.testing.assert_array_equal(beliefs.of(rows).probability, of_memory if once else every)


def test_where_the_baseline_misses_the_target_its_probability_counts(tried: History) -> None:
    beliefs, rows = by(tried, "time", target_accuracy=99.0), tried.space.sample(200, 0)
    beliefs.ranked = beliefs.history.measured()  # as if one of them had reached it
    prediction = beliefs.predict(rows)
    assert prediction.budget_s is None
    np.testing.assert_array_equal(beliefs.of(rows).probability, beliefs.objectives.limits.feasibility(prediction))


@pytest.mark.parametrize("priority", ["memory", "accuracy"])
def test_where_speed_does_not_count_no_trial_is_too_slow(tried: History, priority: str) -> None:
    assert by(tried, priority).slowest(TrainConfig(num_partitions=8).canonical()) is None


def test_ratios_are_not_taken_for_seconds(tried: History) -> None:
    """Where the default misses the target, seconds are predicted as ratios to its own, and end no trial."""
    beliefs = by(tried, "time", target_accuracy=99.0)
    prediction = beliefs.predict_configs([TrainConfig(num_partitions=8)])
    assert prediction.budget_s is None
    assert beliefs.slowest(TrainConfig(num_partitions=8).canonical()) is None


def test_before_anything_is_measured_nothing_is_to_be_beaten(history: History) -> None:
    beliefs = Beliefs(history, fit_surrogate(history))
    assert beliefs.best() is None
    assert beliefs.ranked == []
    assert beliefs.slowest(TrainConfig()) is None


def test_the_predicted_front_is_that_of_all_rows_seen(tried: History) -> None:
    beliefs = Beliefs(tried, fit_surrogate(tried))
    assert len(beliefs.predicted_front()) == 0
    every = tried.space.enumerate()
    half = len(every) // 2
    beliefs.of(every[:half])
    beliefs.of(every[half - 5 :])
    assert beliefs.evaluations == len(every) + 5
    found, prediction = beliefs.predicted_front(), beliefs.predict(every)
    kept = prediction.take(np.flatnonzero(tried.objectives.limits.violation(prediction) == 0))
    costs, own = tried.objectives.costs(kept), tried.objectives.costs(found)
    dominated = [((costs <= one).all(axis=1) & (costs < one).any(axis=1)).any() for one in own]
    assert not any(dominated)
    assert 0 < len(found) < len(every)


def test_learning_rows_are_equal_where_learning_keys_are(tried: History) -> None:
    beliefs = Beliefs(tried, fit_surrogate(tried))
    rows = tried.space.enumerate()[::5]
    keys = [tried.space.decode(row).learning_key() for row in rows]
    codes = [row.tobytes() for row in beliefs.learning_rows(rows)]
    assert len(set(codes)) == len(set(keys)) == len(set(zip(codes, keys, strict=True)))
