import dataclasses

import numpy as np
import pytest

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.objectives import Limits, Objectives, Priority
from a3gnn.prediction import Prediction
from a3gnn.search.problem import Problem
from a3gnn.space import SearchSpace
from a3gnn.tuning.acquisition import best_neighbours, choose_trials, unmeasured


def predict(rows: np.ndarray) -> Prediction:
    """Throughput and memory both rise with the batch size; every value is distinct."""
    throughput = 1.0 + rows[:, 0] + 0.01 * rows.sum(axis=1)
    mean = np.stack([throughput, np.zeros(len(rows)), 1e8 * throughput**2, 0.9 - 0.01 * rows[:, 2]], axis=1)
    width = np.ones_like(mean)
    width[:, 0] += 0.5 * (rows[:, 0] == 2)
    return Prediction(mean, mean / width, mean * width)


@pytest.fixture
def problem() -> Problem:
    objectives = Objectives(Limits(), Priority.parse("throughput"), has_device=False)
    return Problem(SearchSpace(KNOBS), predict, objectives, np.zeros(1, dtype=np.float32))


@pytest.fixture
def batches(problem: Problem) -> np.ndarray:
    """One row for each batch size."""
    return problem.space.canonical(np.array([[i, *[0] * (len(problem.space.knobs) - 1)] for i in range(5)]))


def limited(problem: Problem, host_bytes: float) -> Problem:
    tight = dataclasses.replace(problem.objectives, limits=Limits(host_bytes=int(host_bytes)))
    return dataclasses.replace(problem, objectives=tight)


def test_the_best_the_uncertain_and_the_spread_are_chosen(problem: Problem, batches: np.ndarray) -> None:
    chosen = choose_trials(problem, batches, predict(batches), count=4)
    assert [reason for reason, _ in chosen] == ["best", "uncertain", "front", "front"]
    assert chosen[0][1][0] == 4
    assert chosen[1][1][0] == 2
    assert len({row.tobytes() for _, row in chosen}) == 4


def test_no_more_than_there_are(problem: Problem, batches: np.ndarray) -> None:
    assert len(choose_trials(problem, batches[:2], predict(batches[:2]), count=4)) == 2
    assert choose_trials(problem, batches[:0], predict(batches[:0]), count=4) == []


def test_only_what_is_predicted_to_fit_is_chosen(problem: Problem, batches: np.ndarray) -> None:
    chosen = choose_trials(limited(problem, 1e8 * 3.5**2), batches, predict(batches), count=4)
    assert chosen[0][0] == "best"
    assert [row[0] for _, row in chosen] == [2, 0, 1]


def test_where_nothing_is_predicted_to_fit_the_least_violation_comes_first(
    problem: Problem, batches: np.ndarray
) -> None:
    tight = limited(problem, 9e7)
    twins = np.concatenate([batches, batches])  # equal violations: the score decides
    chosen = choose_trials(tight, batches[::-1], predict(batches[::-1]), count=4)
    assert [(reason, row[0]) for reason, row in chosen] == [("closest", i) for i in range(4)]
    faster = predict(twins)
    faster.mean[5:, 0] *= 2
    assert [int(i) for i in tight.objectives.order(faster)[:4]] == [5, 0, 6, 1]


def test_neighbours_come_best_first_and_unmeasured(problem: Problem) -> None:
    row = problem.space.encode(TrainConfig(batch_size=256))
    around = best_neighbours(problem, row, measured={row.tobytes()})
    assert row.tobytes() not in {r.tobytes() for r in around}
    assert (np.diff(problem.objectives.score(predict(around))) <= 0).all()
    everything = {r.tobytes() for r in problem.space.neighbours(row)}
    assert not len(best_neighbours(problem, row, measured=everything))


def test_neighbours_keep_the_limits_where_any_do(problem: Problem) -> None:
    row = problem.space.encode(TrainConfig(batch_size=256))
    mine = float(predict(row[None]).column("peak_host_bytes")[0])
    some = limited(problem, mine * 1.2)
    around = best_neighbours(some, row, measured={row.tobytes()})
    assert 0 < len(around) < len(best_neighbours(problem, row, measured={row.tobytes()}))
    assert (some.objectives.limits.violation(predict(around)) == 0).all()


def test_where_no_neighbour_fits_those_come_first_that_miss_by_least(problem: Problem) -> None:
    row = problem.space.encode(TrainConfig(batch_size=256))
    none = limited(problem, 9e7)
    around = best_neighbours(none, row, measured={row.tobytes()})
    violation = none.objectives.limits.violation(predict(around))
    assert violation[0] > 0
    assert (np.diff(violation) >= 0).all()


def test_unmeasured_keeps_order(problem: Problem) -> None:
    rows = problem.space.enumerate()[:5]
    left = unmeasured(rows, {rows[1].tobytes(), rows[3].tobytes()})
    assert left.tolist() == rows[[0, 2, 4]].tolist()
