"""Algorithm 3 of HitGNN: every mini-batch once, in as few iterations as there can be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.hitgnn.algorithms.iterations import IDLE, RankSchedule, own_schedule, two_stage_schedule

PARTITIONS = st.lists(st.integers(0, 40), min_size=1, max_size=9)


def trained(schedule: RankSchedule) -> list[tuple[int, int]]:
    """Which mini-batches are trained, as pairs of partition and number, those that are trained twice twice."""
    busy = schedule.partition != IDLE
    assert ((schedule.batch != IDLE) == busy).all()
    return sorted(zip(schedule.partition[busy].tolist(), schedule.batch[busy].tolist(), strict=True))


def every(num_batches: list[int]) -> list[tuple[int, int]]:
    return [(partition, batch) for partition, count in enumerate(num_batches) for batch in range(count)]


def test_figure_5() -> None:
    """Partition 2 is exhausted after iteration 3; FPGA 2 then takes extras from partitions 1 and 3."""
    schedule = two_stage_schedule([6, 3, 6])
    assert (schedule.partition + 1).tolist() == [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 1, 3], [1, 3, 3]]
    assert np.argwhere(schedule.moved).tolist() == [[3, 1], [4, 1]]


def test_a_partition_that_is_exhausted_in_an_iteration_gives_no_extra_in_it() -> None:
    """As printed, the idle rank would get a mini-batch that partition 0 no longer has, and another iteration follow."""
    schedule = two_stage_schedule([1, 0, 2])
    assert schedule.partition.tolist() == [[0, 2, 2]]


def test_the_last_iteration_may_leave_ranks_idle() -> None:
    schedule = two_stage_schedule([5, 0, 0])
    assert schedule.partition.tolist() == [[0, 0, 0], [0, 0, IDLE]]
    assert schedule.weights.tolist() == [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]]


@given(PARTITIONS)
def test_every_mini_batch_is_trained_once_in_the_fewest_iterations(num_batches: list[int]) -> None:
    schedule = two_stage_schedule(num_batches)
    assert trained(schedule) == every(num_batches)
    assert len(schedule) == math.ceil(sum(num_batches) / len(num_batches))
    assert (schedule.partition[:-1] != IDLE).all()  # only the last one may lack mini-batches


@given(PARTITIONS)
def test_ranks_train_their_own_partition_while_it_lasts(num_batches: list[int]) -> None:
    schedule = two_stage_schedule(num_batches)
    for rank, count in enumerate(num_batches):
        own = schedule.partition[:, rank] == rank
        assert own[: own.sum()].all()
        assert own.sum() <= count


@given(PARTITIONS)
def test_weights_average_the_mini_batches_of_an_iteration(num_batches: list[int]) -> None:
    for schedule in (two_stage_schedule(num_batches), own_schedule(num_batches)):
        assert np.allclose(schedule.weights.sum(axis=1), 1)
        assert ((schedule.weights == 0) == (schedule.partition == IDLE)).all()


@given(st.integers(2, 8), st.integers(1, 30))
def test_extras_take_turns_over_the_partitions(ranks: int, count: int) -> None:
    """Where no partition runs out before the others, none gives two extras more than another."""
    schedule = two_stage_schedule([0] + [count * ranks] * (ranks - 1))
    taken = np.bincount(schedule.partition[schedule.moved], minlength=ranks)[1:]
    assert taken.max() - taken.min() <= 1


@given(PARTITIONS)
def test_without_balancing_the_largest_partition_decides(num_batches: list[int]) -> None:
    schedule = own_schedule(num_batches)
    assert trained(schedule) == every(num_batches)
    assert len(schedule) == max(num_batches)
    assert not schedule.moved.any()


@pytest.mark.parametrize("wrong", [[3, -1], [2.5], [True], ["2"]])
def test_what_is_no_number_of_mini_batches_is_refused(wrong: list[object]) -> None:
    with pytest.raises(UsageError, match="num_batches must be an integer >= 0"):
        two_stage_schedule(wrong)  # type: ignore[arg-type]


def test_there_must_be_a_rank() -> None:
    with pytest.raises(UsageError, match="a number for each rank"):
        own_schedule([])
