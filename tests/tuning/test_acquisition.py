import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.knobs import KNOBS
from a3gnn.objectives import Priority
from a3gnn.prediction import Prediction
from a3gnn.space import SearchSpace
from a3gnn.tuning.acquisition import best_neighbours, choose_probes, scores, unmeasured


@pytest.fixture
def space() -> SearchSpace:
    return SearchSpace(KNOBS)


def predict(rows: np.ndarray) -> Prediction:
    """Throughput and memory both rise with the batch size; every value is distinct."""
    throughput = 1.0 + rows[:, 0] + 0.01 * rows.sum(axis=1)
    mean = np.stack([throughput, np.zeros(len(rows)), 1e8 * throughput**2, 0.9 - 0.01 * rows[:, 2]], axis=1)
    width = np.ones_like(mean)
    width[:, 0] += 0.5 * (rows[:, 0] == 2)
    return Prediction(mean, mean / width, mean * width)


def test_the_best_the_uncertain_and_the_spread_are_chosen(space: SearchSpace) -> None:
    rows = space.canonical(np.array([[i, *[0] * (len(space.knobs) - 1)] for i in range(5)]))
    chosen = choose_probes(rows, predict(rows), Priority.parse("throughput"), has_device=False, count=4)
    assert [reason for reason, _ in chosen] == ["best", "uncertain", "front", "front"]
    assert chosen[0][1][0] == 4
    assert chosen[1][1][0] == 2
    assert len({row.tobytes() for _, row in chosen}) == 4


def test_no_more_than_there_are(space: SearchSpace) -> None:
    rows = space.enumerate()[:2]
    assert len(choose_probes(rows, predict(rows), Priority.parse("memory"), has_device=False, count=4)) == 2
    assert choose_probes(rows[:0], predict(rows[:0]), Priority.parse("memory"), has_device=False, count=4) == []


def test_neighbours_come_best_first_and_unmeasured(space: SearchSpace) -> None:
    row = space.encode(TrainConfig(batch_size=256))
    priority = Priority.parse("throughput")
    around = best_neighbours(space, row, predict, priority, has_device=False, measured={row.tobytes()})
    assert row.tobytes() not in {r.tobytes() for r in around}
    assert (np.diff(scores(predict(around), priority, has_device=False)) <= 0).all()
    everything = {r.tobytes() for r in space.neighbours(row)}
    assert not len(best_neighbours(space, row, predict, priority, has_device=False, measured=everything))


def test_unmeasured_keeps_order(space: SearchSpace) -> None:
    rows = space.enumerate()[:5]
    left = unmeasured(rows, {rows[1].tobytes(), rows[3].tobytes()})
    assert left.tolist() == rows[[0, 2, 4]].tolist()
