"""Throughput from timed mini-batches, by a clock that the test turns."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.profiling.trial.request import TrialPlan
from a3gnn.profiling.trial.timing import Timing, time_steps


class Machine:
    """An epoch of mini-batches that take known seconds; first ones of a part take more, and so does the end."""

    def __init__(self, batches: int, batch_s: float, part_s: float = 0.0, end_s: float = 0.0, parts: int = 1) -> None:
        self.batches, self.batch_s, self.part_s, self.end_s = batches, batch_s, part_s, end_s
        self.firsts = {batches * part // parts for part in range(parts)}
        self.now = 0.0
        self.open = 0
        self.seen: list[tuple[int, int]] = []

    def clock(self) -> float:
        return self.now

    def steps(self, epoch: int) -> Generator[int, None, None]:
        self.open += 1
        try:
            for index in range(self.batches):
                self.now += self.batch_s + (self.part_s if index in self.firsts else 0.0)
                self.seen.append((epoch, index))
                yield index
            self.now += self.end_s
        finally:
            self.open -= 1

    def time(self, **plan: float) -> Timing[int]:
        starts: Callable[[int], set[int]] = lambda _: self.firsts  # noqa: E731
        settings = TrialPlan(accuracy_epochs=1, **plan)  # type: ignore[arg-type]
        return time_steps(self.steps, starts, self.batches, settings, self.clock)

    @property
    def epoch_s(self) -> float:
        return self.batches * self.batch_s + len(self.firsts) * self.part_s + self.end_s


@given(
    batches=st.integers(2, 40),
    batch_s=st.floats(0.01, 1),
    part_s=st.floats(0, 2),
    parts=st.integers(1, 4),
    warm=st.integers(0, 50),
    least=st.integers(2, 100),
    seconds=st.floats(0, 20),
)
def test_extrapolation_is_exact_where_batches_are_alike(
    batches: int, batch_s: float, part_s: float, parts: int, warm: int, least: int, seconds: float
) -> None:
    machine = Machine(batches, batch_s, part_s, parts=min(parts, batches // 2))
    timing = machine.time(warmup_batches=warm, least_timed_batches=least, timed_seconds=seconds)
    assert timing.throughput(batches) == pytest.approx(1 / machine.epoch_s, rel=1e-6)
    assert len(timing.steps) >= least
    assert machine.open == 0


def test_the_end_of_whole_epochs_counts() -> None:
    machine = Machine(batches=4, batch_s=0.5, part_s=0.25, end_s=1.0)
    timing = machine.time(warmup_batches=1, timed_seconds=30.0)
    assert timing.batch_s == pytest.approx(0.5)
    assert timing.epoch_overhead_s == pytest.approx(1.25)
    assert timing.throughput(4) == pytest.approx(1 / 3.25)


def test_one_batch_an_epoch_is_all_work() -> None:
    machine = Machine(batches=1, batch_s=0.5, part_s=0.25)
    timing = machine.time(timed_seconds=2.0)
    assert timing.throughput(1) == pytest.approx(1 / 0.75)
    assert timing.epoch_overhead_s == 0


def test_warm_up_is_not_timed_and_timing_begins_an_epoch() -> None:
    machine = Machine(batches=10, batch_s=1.0)
    timing = machine.time(warmup_batches=13, timed_seconds=0.0, least_timed_batches=5)
    assert machine.seen == [*((0, i) for i in range(10)), *((1, i) for i in range(3)), *((2, i) for i in range(5))]
    assert len(timing.steps) == 5


def test_short_epochs_are_repeated() -> None:
    machine = Machine(batches=3, batch_s=1.0)
    assert len(machine.time(timed_seconds=0.0, least_timed_batches=7).steps) == 7


def test_first_batches_that_are_faster_do_not_make_overhead_negative() -> None:
    timing: Timing[int] = Timing(first=[1.0], other=[2.0, 3.0], endings=[], starts_per_epoch=1, steps=[0, 1, 2])
    assert timing.epoch_overhead_s == 0
    assert timing.throughput(3) == pytest.approx(1 / 6)
