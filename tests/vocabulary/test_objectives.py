import dataclasses
from statistics import NormalDist

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.limits import FEASIBLE, Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.prediction import Prediction


def prediction(throughput: list[float], host: list[float], accuracy: list[float], spread: float = 0.1) -> Prediction:
    seconds = 12 / np.array(throughput)
    mean = np.stack([throughput, np.zeros(len(host)), host, accuracy, seconds], axis=1).astype(np.float64)
    return Prediction(mean, mean * (1 - spread), mean * (1 + spread))


Z = NormalDist().inv_cdf(FEASIBLE)


def test_a_limit_is_kept_with_the_probability_that_is_asked_for_everywhere() -> None:
    found = prediction([1, 1, 1, 1], [90, 98, 99, 200], [0.9, 0.82, 0.801, 0.7])
    worst = np.array([90, 98, 99, 200]) * np.exp(Z * np.log(1.1) / 1.645)
    assert Limits(host_bytes=100).violation(found) == pytest.approx(np.maximum(worst / 100 - 1, 0))
    least = np.array([0.9, 0.82, 0.801, 0.7]) * (1 - Z * 0.1 / 1.645)
    assert Limits(least_accuracy=0.8).violation(found) == pytest.approx(np.maximum(0.8 - least, 0))
    assert Limits().violation(found).tolist() == [0, 0, 0, 0]


def test_nothing_is_violated_exactly_where_each_limit_is_probably_kept() -> None:
    random = np.random.default_rng(0)
    host, accuracy = np.exp(random.normal(0, 0.1, 400)), random.normal(0.8, 0.02, 400)
    found = prediction(random.uniform(1, 3, 400).tolist(), host.tolist(), accuracy.tolist())
    limits = Limits(host_bytes=1, least_accuracy=0.79)
    for one in (
        found,
        dataclasses.replace(found, default_accuracy=0.8),
        dataclasses.replace(found, default_accuracy=0.8, budget_s=6.0),
        Prediction(found.mean, found.mean, found.mean, budget_s=6.0),
    ):
        kept = np.stack(list(limits.keeping(one).values())) >= FEASIBLE
        assert 20 < kept.all(axis=0).sum() < 380
        np.testing.assert_array_equal(limits.violation(one) == 0, kept.all(axis=0))


@pytest.mark.parametrize("metric", ["peak_host_bytes", "val_accuracy", "seconds_to_accuracy"])
@pytest.mark.parametrize("default", [None, 0.85])
def test_what_is_kept_with_a_probability_is_no_worse_with_that(metric: str, default: float | None) -> None:
    found = dataclasses.replace(prediction([2], [90], [0.8]), default_accuracy=default)
    for probability in (0.25, FEASIBLE, 0.95):
        limit = float(found.with_probability(metric, probability)[0])
        assert found.no_worse(metric, limit) == pytest.approx([probability])


def test_the_target_is_as_probable_as_the_less_probable_of_accuracy_and_seconds() -> None:
    found = dataclasses.replace(prediction([1, 2, 3], [1, 1, 1], [0.82, 0.8, 0.78]), default_accuracy=0.85)
    accuracy = found.no_worse("val_accuracy", 0.8)
    seconds = found.no_worse("seconds_to_accuracy", 6.0)
    assert (accuracy < seconds).any()
    assert (accuracy > seconds).any()
    kept = Limits(least_accuracy=0.8).keeping(dataclasses.replace(found, budget_s=6.0))["least_accuracy"]
    assert kept.tolist() == np.minimum(accuracy, seconds).tolist()
    assert Limits(least_accuracy=0.8).keeping(found)["least_accuracy"].tolist() == accuracy.tolist()


def test_what_reaches_the_target_too_late_does_not_keep_the_accuracy() -> None:
    found = dataclasses.replace(prediction([1], [1], [0.9], spread=0.01), budget_s=6.0)
    assert Limits(least_accuracy=0.8).violation(found) == pytest.approx([1.0], abs=0.01)  # 12 s


def test_costs_are_smaller_where_things_are_better() -> None:
    found = prediction([2, 4], [8, 4], [0.5, 0.6])
    by_throughput = Objectives(Limits(), Priority.parse("throughput"), has_device=False)
    assert by_throughput.costs(found).tolist() == [[-1, 3, -0.5], [-2, 2, -0.6]]
    by_time = Objectives(Limits(), Priority.parse("time"), has_device=False)
    assert by_time.costs(found) == pytest.approx(np.array([[np.log2(6), 3, -0.5], [np.log2(3), 2, -0.6]]))


def test_measured_costs_are_infinite_where_the_target_is_not_reached() -> None:
    reached = Figures(2.0, 2.0, 2.0, 8, 0, val_accuracy=0.5, seconds_to_accuracy=4.0)
    censored = Figures(4.0, 4.0, 4.0, 8, 0, val_accuracy=0.4)
    by_time = Objectives(Limits(), Priority.parse("time"), has_device=False)
    assert by_time.measured_costs([reached, censored]).tolist() == [[2, 3, -0.5], [np.inf, 3, -0.4]]
    assert by_time.best_index([censored, reached]) == 1


@pytest.mark.parametrize("name", ["throughput", "time", "balanced", "0,0,1"])
def test_the_score_s_spread_is_that_of_draws(name: str) -> None:
    objectives = Objectives(Limits(), Priority.parse(name), has_device=False)
    mean = np.array([[2.0, 0.0, 3e8, 0.8, 6.0]])
    deviation = np.array([0.2, 0.0, 0.1, 0.01, 0.3])
    factor = np.exp(1.645 * deviation)
    low, high = mean / factor, mean * factor
    low[:, 3], high[:, 3] = mean[:, 3] - 1.645 * 0.01, mean[:, 3] + 1.645 * 0.01
    found = Prediction(mean, low, high)
    normal = np.random.default_rng(0).normal(size=(40_000, 5)) * deviation
    drawn = mean * np.exp(normal)
    drawn[:, 3] = mean[:, 3] + normal[:, 3]
    sampled = objectives.score(Prediction(drawn, drawn, drawn))
    assert objectives.score_spread(found)[0] == pytest.approx(sampled.std(), rel=0.02)


@pytest.mark.parametrize("name", ["time", "throughput", "memory", "accuracy", "balanced", "2,1,1", "0,0,3"])
def test_score_is_monotone(name: str) -> None:
    priority = Priority.parse(name)
    assert sum(priority.weights) == pytest.approx(1)
    base = priority.score(np.array([[0.0, 3.0, -0.5]]))
    better = priority.score(np.array([[-1.0, 2.0, -0.6]]))
    assert better > base


@pytest.mark.parametrize("text", ["speed", "1,2", "0,0,0", "1,-1,1", "nan,1,1", "inf,1,1"])
def test_a_wrong_priority_names_the_choices(text: str) -> None:
    with pytest.raises(UsageError, match="time, throughput, memory, accuracy, balanced"):
        Priority.parse(text)


def test_limits_must_be_positive() -> None:
    with pytest.raises(UsageError, match="must be positive"):
        Limits(host_bytes=0)


def test_a_broken_limit_says_which_and_by_how_much() -> None:
    limits = Limits(host_bytes=300 * 2**20, least_accuracy=0.72)
    assert limits.broken_by(Figures(1.0, 1.0, 1.0, 300 * 2**20, 0, 0.72)) == ()
    both = limits.broken_by(Figures(1.0, 1.0, 1.0, 312 * 2**20, 0, 0.712))
    assert [breach.describe() for breach in both] == [
        "host memory 12.0 MiB over the limit of 300 MiB",
        "accuracy 0.8 points under the least allowed, 72.00%",
    ]
    assert [breach.excess for breach in both] == pytest.approx([0.04, 0.008])


@pytest.mark.parametrize("text", ["troughput", 3, None])
def test_a_priority_that_is_no_text_or_nearly_one(text: object) -> None:
    with pytest.raises(UsageError, match="priority must be one of") as caught:
        Priority.parse(text)
    assert ("did you mean 'throughput'" in str(caught.value)) == (text == "troughput")


@pytest.mark.parametrize(
    ("priority", "in_time"),
    [
        ("time", True),
        ("throughput", True),
        ("balanced", True),
        ("1,8,8", True),  # weights of one's own, whatever they are
        ("1,1,8", True),
        ("0,1,1", False),  # speed is worth nothing
        ("memory", False),
        ("accuracy", False),
        ("1,18,1", False),  # the weights of memory
    ],
)
def test_only_memory_and_accuracy_may_be_late(priority: str, in_time: bool) -> None:
    assert Priority.parse(priority).in_time is in_time
