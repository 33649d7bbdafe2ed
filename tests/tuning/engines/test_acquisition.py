import dataclasses
import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest

from a3gnn.limits import FEASIBLE, Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.prediction import Prediction, log_points
from a3gnn.search.searchable import Problem
from a3gnn.space import SearchSpace
from a3gnn.tuning.beliefs.expectations import unmeasured
from a3gnn.tuning.engines.propose import MIN_GAIN, Expected, choose_trials, true_spread

DEVIATIONS = 1.645
#: Small enough to be enumerated.
SPACE = SearchSpace.from_dict(
    {
        "batch_size": (64, 128, 256, 512, 1024),
        "seed_fanout": (None,),
        "deep_fanout": (None,),
        "learning_rate_scale": (1.0,),
    }
)


def predict(rows: np.ndarray) -> Prediction:
    """Throughput and memory both rise with the batch size; every value is distinct.

    Deviations: 0.1 of log throughput (0.5 at the third batch size), log memory and log seconds, 0.01 of accuracy.
    """
    throughput = 1.0 + rows[:, 0] + 0.01 * rows.sum(axis=1)
    nothing = np.zeros(len(rows))
    mean = np.stack([throughput, nothing, 1e8 * throughput**2, 0.9 - 0.01 * rows[:, 2], 10 / throughput], axis=1)
    deviation = np.full(mean.shape, 0.1)
    deviation[:, 0] += 0.4 * (rows[:, 0] == 2)
    factor = np.exp(DEVIATIONS * deviation)
    low, high = mean / factor, mean * factor
    low[:, 3], high[:, 3] = mean[:, 3] - DEVIATIONS * 0.01, mean[:, 3] + DEVIATIONS * 0.01
    return Prediction(mean, low, high)


def vaguely(rows: np.ndarray) -> Prediction:
    """As `predict`, with deviations of 2 where that has 0.1, and of 0.1 of accuracy: anything may be the best."""
    mean, factor = predict(rows).mean, math.exp(DEVIATIONS * 2)
    low, high = mean / factor, mean * factor
    low[:, 3], high[:, 3] = mean[:, 3] - DEVIATIONS * 0.1, mean[:, 3] + DEVIATIONS * 0.1
    return Prediction(mean, low, high)


def apart(rows: np.ndarray) -> np.ndarray:
    """Points of which none says anything of another."""
    return 100.0 * np.arange(len(rows))[:, None]


def expected(rows: np.ndarray, noise: float = 0.0) -> Expected:
    """Every trial takes a second."""
    return Expected(predict(rows), np.ones(len(rows)), noise, apart(rows))


@pytest.fixture
def problem() -> Problem:
    objectives = Objectives(Limits(), Priority.parse("throughput"), has_device=False)
    return Problem(SPACE, predict, objectives)


@pytest.fixture
def batches(problem: Problem) -> np.ndarray:
    """One row for each batch size."""
    return problem.space.canonical(np.array([[i, *[0] * (len(problem.space.knobs) - 1)] for i in range(5)]))


def judged(problem: Problem, priority: str = "throughput", **limits: float) -> Problem:
    objectives = Objectives(Limits(**limits), Priority.parse(priority), has_device=False)
    return dataclasses.replace(problem, objectives=objectives)


def test_what_gains_the_priority_nothing_serves_the_front(problem: Problem, batches: np.ndarray) -> None:
    chosen = choose_trials(problem, batches, expected(batches), count=4, best=math.log2(4))
    assert [one.row[0] for one in chosen[:2]] == [4, 2]  # with the first found, only what is uncertain may be better
    assert [one.reason for one in chosen] == ["best", "best", "front", "front"]
    least = math.log2(1 + MIN_GAIN)
    assert chosen[0].gain > chosen[1].gain >= least > chosen[2].gain
    assert len({one.row.tobytes() for one in chosen}) == 4
    assert {one.reason for one in choose_trials(problem, batches, expected(batches), count=4, best=20.0)} == {"front"}


def test_as_long_as_the_priority_gains_all_serve_it(problem: Problem, batches: np.ndarray) -> None:
    uncertain = predict(batches).take(np.full(5, 2))
    chosen = choose_trials(problem, batches, Expected(uncertain, np.ones(5), 0.0, apart(batches)), count=4, best=None)
    assert [one.reason for one in chosen] == ["best"] * 4


def test_no_more_than_there_are(problem: Problem, batches: np.ndarray) -> None:
    assert len(choose_trials(problem, batches[:2], expected(batches[:2]), count=4, best=None)) == 2
    assert choose_trials(problem, batches[:0], expected(batches[:0]), count=4, best=None) == []


NOISE = 0.06


def priced(rows: np.ndarray) -> Expected:
    """Large batches take longer, and part of what is uncertain of their speed is noise."""
    return Expected(predict(rows), 2.0 + rows[:, 0] ** 2, NOISE, apart(rows))


def by_hand(problem: Problem, rows: np.ndarray, best: float, before: int | None = None) -> dict[int, float]:
    """The gains of probable rows: improvement times probability, that of the largest per second first.

    Over `best`, or the score of row `before`, which is taken to be found as predicted. Accuracy is a limit alone: none
    of these misses it, and more of it scores nothing.
    """
    limits, weights = problem.objectives.limits, problem.objectives.priority.weights
    normal, gains, least = NormalDist(), {}, weights[2] * 50 * limits.least_accuracy
    if before is not None:
        throughput, _, host, *_ = predict(rows).mean[before]
        best = max(best, weights[0] * math.log2(throughput) - weights[1] * math.log2(host) + least)
    for i, found in enumerate(predict(rows).mean):
        throughput, _, host, accuracy, _ = found
        in_memory = normal.cdf(math.log(limits.host_bytes / host) / 0.1)
        accurate = normal.cdf((accuracy - limits.least_accuracy) / 0.01)
        score = weights[0] * math.log2(throughput) - weights[1] * math.log2(host) + least
        log_deviation = math.sqrt((0.5 if rows[i, 0] == 2 else 0.1) ** 2 - NOISE**2)
        deviation = math.hypot(weights[0] * log_deviation, weights[1] * 0.1) / math.log(2)
        z = (score - best) / deviation
        if min(in_memory, accurate) >= FEASIBLE:
            gains[i] = deviation * (z * normal.cdf(z) + normal.pdf(z)) * in_memory * accurate
    return dict(sorted(gains.items(), key=lambda one: -one[1] / (2.0 + rows[one[0], 0] ** 2)))


@pytest.mark.parametrize("best", [-2.0, -0.3, 0.5])
@pytest.mark.parametrize("host_bytes", [3e8, 1e9, 2.2e9])
def test_the_best_are_those_of_a_small_case_by_hand(problem: Problem, best: float, host_bytes: float) -> None:
    rows = problem.space.canonical(
        np.array([[i, 0, j, *[0] * (len(problem.space.knobs) - 3)] for i, j in itertools.product(range(5), range(3))])
    )
    tight = judged(problem, host_bytes=int(host_bytes), least_accuracy=0.88)
    chosen = choose_trials(tight, rows, priced(rows), count=2, best=best)
    wanted = by_hand(tight, rows, best)
    assert 0 < len(wanted) < len(rows)
    first = next(iter(wanted))
    key = problem.space.decode(rows[first]).learning_key()
    others = {i: gain for i, gain in by_hand(tight, rows, best, before=first).items() if i != first}
    second = next((i for i in others if problem.space.decode(rows[i]).learning_key() != key), next(iter(others)))
    gains = [(first, wanted[first]), (second, others[second])]
    worth = list(itertools.takewhile(lambda one: one[1] >= math.log2(1 + MIN_GAIN), gains))
    found = [one for one in chosen if one.reason == "best"]
    assert [one.row.tolist() for one in found] == [rows[i].tolist() for i, _ in worth]
    assert [one.gain for one in found] == pytest.approx([gain for _, gain in worth])
    assert len(worth) == 2 or best > -2, "far below what is predicted, both gain"


def test_of_equals_the_trial_that_takes_less_comes_first(problem: Problem, batches: np.ndarray) -> None:
    alike = np.stack([batches[1], batches[3]])
    same = Prediction(
        *(np.tile(bound[:1], (2, 1)) for bound in (predict(alike).mean, predict(alike).low, predict(alike).high))
    )
    for seconds in ([3.0, 1.0], [1.0, 3.0]):
        chosen = choose_trials(problem, alike, Expected(same, np.array(seconds), 0.0, apart(alike)), count=1, best=None)
        assert chosen[0].row.tolist() == alike[int(np.argmin(seconds))].tolist()


def test_noise_is_no_reason_to_measure(problem: Problem, batches: np.ndarray) -> None:
    """The third batch size has the widest interval: all of it noise or none decides whether it is worth a trial."""
    spread = true_spread(problem.objectives, expected(batches))
    np.testing.assert_allclose(spread, problem.objectives.score_spread(predict(batches)))
    noisy = true_spread(problem.objectives, expected(batches, noise=10.0))
    assert noisy.tolist() == [0.0] * 5
    less = true_spread(problem.objectives, expected(batches, noise=0.05))
    share = problem.objectives.priority.throughput * 0.05 / np.log(2)
    np.testing.assert_allclose(less**2 + share**2, spread**2)


def test_all_that_is_chosen_is_probable(problem: Problem) -> None:
    tight = judged(problem, host_bytes=int(1e9), least_accuracy=0.87)
    rows = np.unique(problem.space.sample(500, seed=0), axis=0)
    limits = tight.objectives.limits
    assert 0 < (limits.keeping(predict(rows))["host_bytes"] >= FEASIBLE).sum() < len(rows)
    for seed in range(5):
        some = np.random.default_rng(seed).permutation(rows)[:100]
        chosen = np.stack([one.row for one in choose_trials(tight, some, expected(some), count=4, best=None)])
        assert len(chosen) == 4
        assert all((kept >= FEASIBLE).all() for kept in limits.keeping(predict(chosen)).values())


def slow_and_sure(probability: float, gain: float) -> tuple[np.ndarray, Prediction]:
    """A row that keeps the least accuracy of 0.9 for sure and is `gain` times as fast as 1, and one 4 times as fast.

    The second keeps it with `probability`.
    """
    rows = np.zeros((2, len(SPACE.knobs)), dtype=np.int64)
    rows[1, 0] = 4
    accuracy = 0.9 + 0.01 * NormalDist().inv_cdf(probability)
    mean = np.array([[gain, 0.0, 1e8, 0.9, 10.0], [4.0, 0.0, 1e8, accuracy, 10.0]])
    low = mean.copy()
    low[1, 3] -= DEVIATIONS * 0.01
    return SPACE.canonical(rows), Prediction(mean, low, mean)


@pytest.mark.parametrize(("probability", "gain"), [(0.61, 1.3), (0.61, 1.05), (0.59, 1.3), (0.59, 1.05)])
def test_nothing_is_worth_a_risk(problem: Problem, probability: float, gain: float) -> None:
    """Which gains most per second matters among what is predicted to keep the limits alone."""
    tight = judged(problem, least_accuracy=0.9)
    rows, found = slow_and_sure(probability, gain)
    best = float(tight.objectives.score(slow_and_sure(probability, 1.0)[1])[0])
    chosen = choose_trials(tight, rows, Expected(found, np.ones(2), 0.0, apart(rows)), 1, best)
    assert [(one.reason, one.row[0]) for one in chosen] == [("best", 4 if probability >= FEASIBLE else 0)]


def test_what_may_lose_much_and_probably_loses_nothing_is_likely_to_keep_the_accuracy() -> None:
    """Its interval of 90 % reaches 20 points down, which says nothing of a point where losses have a long tail."""
    mean, low = np.array([[1.0, 0.0, 1e8, 0.9, 10.0]]), np.array([[1.0, 0.0, 1e8, 0.7, 10.0]])
    limits, drop = Limits(least_accuracy=0.89), float(log_points(0.2))
    (as_lost,) = limits.feasibility(Prediction(mean, low, mean, default_accuracy=0.9))
    (as_it_is,) = limits.feasibility(Prediction(mean, low, mean))
    assert as_lost == pytest.approx(NormalDist(0, drop / DEVIATIONS).cdf(float(log_points(0.01))))
    assert as_lost > 0.64 > 0.54 > as_it_is


def test_where_none_is_probable_the_most_probable_come_first(problem: Problem, batches: np.ndarray) -> None:
    tight = judged(problem, host_bytes=int(9e7))
    chosen = choose_trials(tight, batches[::-1], expected(batches[::-1]), count=4, best=None)
    assert [(one.reason, one.row[0]) for one in chosen] == [("closest", i) for i in range(4)]
    hopeless = judged(problem, host_bytes=1)  # no probability is above 0: the limits' violation decides
    assert not hopeless.objectives.limits.feasibility(predict(batches)).any()
    chosen = choose_trials(hopeless, batches[::-1], expected(batches[::-1]), count=2, best=None)
    assert [one.row[0] for one in chosen] == [0, 1]


def test_feasibility_is_the_product_over_the_limits(problem: Problem, batches: np.ndarray) -> None:
    found = predict(batches)
    host, accuracy = Limits(host_bytes=int(1e9)), Limits(least_accuracy=0.895)
    both = Limits(host_bytes=int(1e9), least_accuracy=0.895)
    assert both.feasibility(found) == pytest.approx(host.feasibility(found) * accuracy.feasibility(found))
    assert Limits().feasibility(found).tolist() == [1.0] * 5
    assert Limits(device_bytes=1).feasibility(found).tolist() == [1.0] * 5  # there is no device


def test_the_least_accuracy_is_kept_where_it_is_reached_in_time(problem: Problem, batches: np.ndarray) -> None:
    """Accuracy and seconds both say whether: the geometric mean counts, and what either rules out is out."""
    found, limits = predict(batches), Limits(least_accuracy=0.895)
    logs, deviation = np.log(found.column("seconds_to_accuracy")), found.one_sided("seconds_to_accuracy", "high")
    budget_s = float(np.exp(np.median(logs)))
    in_time = [NormalDist(mean, off).cdf(math.log(budget_s)) for mean, off in zip(logs, deviation, strict=True)]
    timed = dataclasses.replace(found, budget_s=budget_s)
    assert limits.feasibility(timed) == pytest.approx(np.sqrt(limits.feasibility(found) * in_time))
    sure = Prediction(found.mean, found.mean, found.mean)  # as where a curve is known
    assert limits.feasibility(dataclasses.replace(sure, budget_s=1e9)).tolist() == limits.feasibility(sure).tolist()
    assert not limits.feasibility(dataclasses.replace(sure, budget_s=1e-9)).any()


def test_a_certain_accuracy_is_kept_or_not(problem: Problem, batches: np.ndarray) -> None:
    found = predict(batches[:1])
    exact = Prediction(found.mean, found.mean, found.mean)
    assert Limits(least_accuracy=0.9).feasibility(exact).tolist() == [1.0]
    assert Limits(least_accuracy=0.9001).feasibility(exact).tolist() == [0.0]


@pytest.mark.parametrize("priority", ["time", "accuracy", "throughput"])
def test_the_best_learn_differently(problem: Problem, priority: str) -> None:
    wanted = judged(problem, priority)
    rows = np.unique(problem.space.sample(400, seed=1), axis=0)
    keys = [problem.space.decode(row).learning_key() for row in rows]
    score = wanted.objectives.score(predict(rows))
    first = int(score.argmax())
    twins = [i for i, key in enumerate(keys) if key == keys[first] and i != first]
    near = rows[twins[:1]] if twins else problem.space.neighbors(rows[first])
    same = [
        row for row in near if problem.space.decode(row).learning_key() == keys[first] and (row != rows[first]).any()
    ]
    assert same
    few = np.stack([rows[first], same[0], rows[int(score.argmin())]])
    few_keys = [problem.space.decode(row).learning_key() for row in few]
    assert few_keys[0] != few_keys[2]
    some = Expected(vaguely(few), np.ones(3), 0.0, apart(few))
    chosen = [one.row for one in choose_trials(wanted, few, some, 4, None) if one.reason == "best"]
    assert len(chosen) == 3
    found = [problem.space.decode(row).learning_key() for row in chosen]
    assert found[0] != found[1]
    two = Expected(vaguely(few[:2]), np.ones(2), 0.0, apart(few[:2]))
    alike = choose_trials(wanted, few[:2], two, 4, None)
    assert [one.reason for one in alike] == ["best", "best"]


def test_what_resembles_a_trial_is_known_by_it(problem: Problem, batches: np.ndarray) -> None:
    """The first, with the largest score, is wanted most; its neighbor would be next, were it not so close to it."""
    three = batches[[4, 3, 1]]
    level = vaguely(three)
    for points, second in (([0.0, 100.0, 200.0], 3), ([0.0, 0.1, 200.0], 1)):
        some = Expected(level, np.ones(3), 0.0, np.array(points)[:, None])
        chosen = choose_trials(problem, three, some, count=2, best=None)
        assert [(one.reason, one.row[0]) for one in chosen] == [("best", 4), ("best", second)]


def test_unmeasured_keeps_order(problem: Problem) -> None:
    rows = problem.space.enumerate()[:5]
    left = unmeasured(rows, {rows[1].tobytes(), rows[3].tobytes()})
    assert left.tolist() == rows[[0, 2, 4]].tolist()
