"""Throughput from timed windows of mini-batches, by a clock and a count of other work that the test turns."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.profiling.request import TrialPlan
from a3gnn.profiling.timing import MOST_REPEATS, Clocks, Epochs, Timing, Window, time_windows
from a3gnn.threads.core_time import stretch


class Work:
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
        return time_windows(self.epochs, TrialPlan(**plan), self.machine())  # type: ignore[arg-type]

    @property
    def epochs(self) -> Epochs[int]:
        return Epochs(self.steps, lambda _: self.firsts, self.batches)

    def machine(
        self, other_seconds: Callable[[], float] = lambda: 0.0, stolen_seconds: Callable[[], float] = lambda: 0.0
    ) -> Clocks:
        return Clocks(other_seconds, stolen_seconds, 2, self.clock)

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
    machine = Work(batches, batch_s, part_s, parts=min(parts, batches // 2))
    timing = machine.time(warmup_batches=warm, least_timed_batches=least, timed_seconds=seconds)
    assert timing.throughput == pytest.approx(1 / machine.epoch_s, rel=1e-6)
    assert all(len(window.steps) >= least for window in timing.windows)
    assert machine.open == 0


def test_the_end_of_whole_epochs_counts() -> None:
    machine = Work(batches=4, batch_s=0.5, part_s=0.25, end_s=1.0)
    timing = machine.time(warmup_batches=1, timed_seconds=30.0)
    assert timing.windows[0].batch_s == pytest.approx(0.5)
    assert timing.epoch_overhead_s == pytest.approx(1.25)
    assert timing.throughput == pytest.approx(1 / 3.25)


def test_one_batch_an_epoch_is_all_work() -> None:
    machine = Work(batches=1, batch_s=0.5, part_s=0.25)
    timing = machine.time(timed_seconds=2.0)
    assert timing.throughput == pytest.approx(1 / 0.75)
    assert timing.epoch_overhead_s == 0


def test_warm_up_is_not_timed_and_timing_begins_an_epoch() -> None:
    machine = Work(batches=10, batch_s=1.0)
    timing = machine.time(warmup_batches=13, timed_seconds=0.0, least_timed_batches=5, windows=1)
    assert machine.seen == [*((0, i) for i in range(10)), *((1, i) for i in range(3)), *((2, i) for i in range(5))]
    assert len(timing.steps) == 5


def test_short_epochs_are_repeated() -> None:
    machine = Work(batches=3, batch_s=1.0)
    assert len(machine.time(timed_seconds=0.0, least_timed_batches=7, windows=1).steps) == 7


def test_first_batches_that_are_faster_do_not_make_overhead_negative() -> None:
    window: Window[int] = Window(first=[1.0], other=[2.0, 3.0], endings=[], starts_per_epoch=1, steps=[0, 1, 2])
    assert window.epoch_overhead_s == 0
    assert window.throughput(3) == pytest.approx(1 / 6)


@given(windows=st.integers(1, 6), seconds=st.floats(0, 30))
def test_windows_share_the_seconds_and_each_begins_an_epoch(windows: int, seconds: float) -> None:
    work = Work(batches=10, batch_s=0.5)
    timing = work.time(warmup_batches=0, windows=windows, timed_seconds=seconds)
    assert (len(timing.windows), timing.disturbed) == (windows, 0)
    assert work.now >= seconds
    for window in timing.windows:
        assert window.steps[0] == 0
        assert sum(window.first + window.other) + 1e-9 >= seconds / windows


def test_the_median_of_the_windows_is_the_throughput() -> None:
    work = Work(batches=2, batch_s=1.0)
    speeds = iter([1.0, 4.0, 2.0])

    def slower(epoch: int) -> Generator[int, None, None]:
        work.batch_s = next(speeds)
        yield from work.steps(epoch)

    epochs = Epochs(slower, lambda _: {0}, 2)
    plan = TrialPlan(warmup_batches=0, timed_seconds=0.0, windows=3)
    timing = time_windows(epochs, plan, work.machine())
    assert timing.replicates == (1 / 2, 1 / 8, 1 / 4)
    assert timing.throughput == 1 / 4


class Neighbor:
    """Takes a share of two cores in each window of ten seconds that `Work` is timed for."""

    def __init__(self, work: Work, shares: list[float]) -> None:
        self.work, self.shares = work, shares

    def seconds(self) -> float:
        whole, rest = divmod(self.work.now, 10.0)
        reached = sum(self.shares[: int(whole)])
        return 2 * (10.0 * reached + (rest * self.shares[int(whole)] if rest else 0.0))


@pytest.mark.parametrize(
    ("shares", "kept", "disturbed"),
    [
        ([0.0, 0.09, 0.0], [0, 1, 2], 0),
        ([0.0, 0.11, 0.0, 0.0], [0, 2, 3], 1),
        ([0.5, 0.0, 0.4, 0.05, 0.02], [1, 3, 4], 2),
        ([0.5, 0.3, 0.4, 0.2, 0.6, 0.05], [1, 3, 5], 5),
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [3, 4, 5], 6),
    ],
)
def test_a_disturbed_window_is_timed_again_and_the_least_disturbed_count(
    shares: list[float], kept: list[int], disturbed: int
) -> None:
    work = Work(batches=10, batch_s=1.0)
    plan = TrialPlan(warmup_batches=0, timed_seconds=30.0, windows=3)
    named = Epochs(lambda epoch: ((epoch, index) for index in work.steps(epoch)), lambda _: {0}, 10)
    timing = time_windows(named, plan, work.machine(Neighbor(work, shares).seconds))
    assert timing.disturbed == disturbed
    assert [window.steps[0][0] for window in timing.windows] == kept
    assert len(work.seen) == 10 * len(shares)
    assert len(shares) <= 3 + MOST_REPEATS


def test_ticks_of_the_kernel_disturb_no_short_window() -> None:
    work = Work(batches=2, batch_s=0.001)
    ticks = iter(range(100))
    plan = TrialPlan(warmup_batches=0, timed_seconds=0.0)
    timing = time_windows(work.epochs, plan, work.machine(lambda: next(ticks) * 0.02))
    assert timing.disturbed == 0


class Host(Work):
    """A machine whose hypervisor takes a share of both cores' time in each epoch, which then takes so much longer."""

    def __init__(self, shares: list[float], **work: Any) -> None:
        super().__init__(**work)
        self.shares, self.stolen = shares, 0.0

    def steps(self, epoch: int) -> Generator[int, None, None]:
        share = self.shares[epoch]
        own = self.batch_s, self.part_s, self.end_s
        self.batch_s, self.part_s, self.end_s = (stretch(share) * seconds for seconds in own)
        begun = self.now
        try:
            for step in super().steps(epoch):
                self.stolen += 2 * share * (self.now - begun)
                begun = self.now
                yield step
            self.stolen += 2 * share * (self.now - begun)
        finally:
            self.batch_s, self.part_s, self.end_s = own

    def timing(self) -> Timing[int]:
        plan = TrialPlan(warmup_batches=0, timed_seconds=0.0, least_timed_batches=self.batches, windows=3)
        return time_windows(self.epochs, plan, self.machine(lambda: self.stolen, lambda: self.stolen))


@given(shares=st.lists(st.floats(0, 0.29), min_size=3, max_size=3), part_s=st.floats(0, 1), end_s=st.floats(0, 2))
def test_stolen_time_is_taken_out_and_disturbs_nothing(shares: list[float], part_s: float, end_s: float) -> None:
    host = Host(shares, batches=10, batch_s=0.5, part_s=part_s, end_s=end_s)
    timing = host.timing()
    assert timing.disturbed == 0
    assert timing.replicates == pytest.approx([1 / host.epoch_s] * 3)
    assert timing.epoch_overhead_s == pytest.approx(part_s + end_s)
    stolen = [stretch(share) for share in shares]
    assert timing.mean_seconds(lambda index: stolen[0]) == pytest.approx(sum(stolen[0] / one for one in stolen) / 3)


def test_a_window_of_which_too_much_was_stolen_is_timed_again() -> None:
    timing = Host([0.1, 0.5, 0.0, 0.2], batches=10, batch_s=0.5).timing()
    assert timing.disturbed == 1
    assert [round(window.stretch, 3) for window in timing.windows] == [
        round(stretch(one), 3) for one in (0.1, 0.0, 0.2)
    ]
