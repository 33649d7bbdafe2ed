"""`Balanced`: trainers of a kind that are not alike, on a machine of numbers whose best division is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.balanced import Balanced
from a3gnn.hybrid.control.controller import Controller, ShareBounds
from a3gnn.hybrid.control.drift import drifts
from a3gnn.hybrid.control.fitted import FittedScaling
from a3gnn.hybrid.schedule import Schedule
from a3gnn.hybrid.stage_times import StageTimes, TrainerKind

BATCH = 1000
TWO: tuple[TrainerKind, ...] = ("processor", "processor")
IN_TURN, BESIDE = Schedule(0, 0, 0), Schedule(0, 0, 1)
Speeds = Callable[[tuple[int, ...]], tuple[float, ...]]


class Machine:
    """Seconds of trainers by their seeds and threads; each measurement scatters.

    Args:
        speeds: Seeds per second of each trainer, by the threads of all.
        scatter: Standard deviation of a measurement's logarithm.
        ahead_s: What sampling takes.
        schedule: Which stages overlap.
    """

    def __init__(self, speeds: Speeds, scatter: float = 0.0, ahead_s: float = 1e-3, schedule: Schedule = IN_TURN):
        self.speeds, self._scatter, self._ahead_s, self.schedule = speeds, scatter, ahead_s, schedule
        self._rng = np.random.default_rng(0)

    def times(self, one: Assignment) -> StageTimes:
        noise = np.exp(self._scatter * self._rng.standard_normal(len(one.kinds)))
        pairs = zip(one.shares, self.speeds(one.trainer_threads), noise, strict=True)
        training = tuple(float(share / speed * by) for share, speed, by in pairs)
        sent = tuple(1e-3 * (kind == "accelerator") for kind in one.kinds)
        times = StageTimes(one.kinds, self._ahead_s, 0.0, 1e-3, sent, training, 0.0)
        return times.with_iteration(self.schedule.iteration_seconds(times.by_stage))

    def run(self, controller: Controller, start: Assignment, steps: int) -> list[Assignment]:
        """Returns the division after each step."""
        found, current = [], start
        for _ in range(steps):
            current = controller.adjust(current, self.times(current))
            found.append(current)
        return found


def start(shares: tuple[int, ...] = (500, 500), threads: tuple[int, ...] = (1, 1), kinds: Any = TWO) -> Assignment:
    return Assignment(kinds, shares, 0, Threads(2, 2, sum(threads)), trainer_threads=threads)


def balanced(
    schedule: Schedule = IN_TURN, threads: tuple[int, ...] = (1, 1), most: tuple[int | None, ...] = (), **others: Any
) -> Balanced:
    def between(bounds: ShareBounds, hysteresis: float) -> Controller:
        return FittedScaling(bounds, schedule, hysteresis)

    return Balanced(between, schedule, threads, lambda: most or (None,) * len(threads), **others)


def constant(*speeds: float) -> Speeds:
    return lambda threads: speeds


def test_shares_follow_the_speeds_and_stay():
    found = Machine(constant(300.0, 100.0)).run(balanced(), start(), 30)
    assert found[2].shares == (500, 500)  # too little was measured
    assert found[3].shares == pytest.approx((750, 250), abs=2)
    assert found[-1] == found[3]


@pytest.mark.parametrize("seed", range(3))
def test_the_division_is_near_the_best_however_measurements_scatter(seed):
    machine = Machine(constant(300.0, 100.0), scatter=0.1)
    machine._rng = np.random.default_rng(seed)
    found = machine.run(balanced(), start(), 60)
    assert max(found[-1].shares[0] / 300, found[-1].shares[1] / 100) <= 1.1 * BATCH / 400


def test_what_is_expected_to_gain_less_than_measurements_scatter_stays():
    """3 % of imbalance below a scatter of 20 % stay in most runs of 200 steps, and go where nothing scatters."""
    changed = 0
    for seed in range(10):
        machine = Machine(constant(103.0, 97.0), scatter=0.2)
        machine._rng = np.random.default_rng(seed)
        found = machine.run(balanced(), start(), 200)
        changed += sum(one != other for one, other in pairwise(found))
    assert changed <= 5
    assert Machine(constant(103.0, 97.0)).run(balanced(), start(), 8)[-1].shares == (515, 485)


def test_less_than_the_hysteresis_stays():
    assert set(Machine(constant(101.0, 99.5)).run(balanced(), start(), 20)) == {start()}


def test_swapping_what_two_stages_took_changes_the_action():
    """Which of two trainers was slow; and, where sampling overlaps, whether it was sampling that was."""
    slow = StageTimes(TWO, 1.0, 0.0, 0.0, (0.0, 0.0), (4.0, 2.0), 0.0, 4.0)
    actions = []
    for training, sampling in (((4.0, 2.0), 1.0), ((2.0, 4.0), 1.0), ((1.0, 2.0), 4.0), ((4.0, 2.0), 1.0)):
        times = dataclasses.replace(slow, training=training, sampling_processor=sampling)
        controller, current = balanced(BESIDE), start()
        for _ in range(4):
            current = controller.adjust(start(), times)
        actions.append(current.shares)
    assert actions[0][0] < 500 < actions[1][0]
    assert actions[2] == (500, 500)
    assert actions[3] == actions[0]


def test_what_is_measured_not_to_be_faster_is_taken_back_and_left_alone():
    """A trainer that takes as long whatever its share: seeds given to the other only make that slower."""

    class Fixed(Machine):
        def times(self, one: Assignment) -> StageTimes:
            own = super().times(one)
            training = (1.0, one.shares[1] / 600)
            return dataclasses.replace(own, training=training, iteration=max(*training, 1.4 * (one.shares[1] > 510)))

    found = Fixed(constant(500.0, 600.0)).run(balanced(), start(), 60)
    assert {one.shares for one in found[-20:]} == {(500, 500)}
    assert {one.shares for one in found} != {(500, 500)}


def test_a_disturbance_changes_shares_and_its_end_changes_them_back():
    machine, controller = Machine(constant(200.0, 200.0), scatter=0.02), balanced()
    before = machine.run(controller, start(), 20)
    assert before[-1].shares == (500, 500)
    machine.speeds = constant(200.0, 100.0)
    during = machine.run(controller, before[-1], 20)
    assert during[-1].shares == pytest.approx((667, 333), abs=25)
    machine.speeds = constant(200.0, 200.0)
    after = machine.run(controller, during[-1], 20)
    assert after[-1].shares == pytest.approx((500, 500), abs=25)


def test_threads_that_wait_for_a_core_are_given_up_and_taken_again():
    """On two cores, a trainer of two threads halves its speed where one of them has to wait."""

    def free(threads: tuple[int, ...]) -> tuple[float, ...]:
        return tuple(100.0 * number for number in threads)

    def taken(threads: tuple[int, ...]) -> tuple[float, ...]:
        return tuple(100.0 if number == 1 else 60.0 for number in threads)

    machine, controller = Machine(free, scatter=0.01), balanced(threads=(2, 1))
    before = machine.run(controller, start((667, 333), (2, 1)), 20)
    assert before[-1].trainer_threads == (2, 1)
    machine.speeds = taken
    during = machine.run(controller, before[-1], 40)
    assert during[-1].trainer_threads == (1, 1)
    assert during[-1].threads.training == 2
    machine.speeds = lambda threads: (100.0 * 2.0 ** (threads[0] - 1), 50.0 * threads[1])
    after = machine.run(controller, during[-1], 40)
    assert after[-1].trainer_threads == (2, 1)


def test_threads_stay_without_a_disturbance():
    found = Machine(lambda threads: tuple(60.0 / number for number in threads), scatter=0.02).run(
        balanced(threads=(2, 1)), start((333, 667), (2, 1)), 60
    )
    assert {one.trainer_threads for one in found} == {(2, 1)}


def test_kinds_are_divided_by_the_other_controller():
    kinds: tuple[TrainerKind, ...] = ("processor", "processor", "accelerator")
    first = start((300, 300, 400), (1, 1, 0), kinds)
    found = Machine(constant(100.0, 50.0, 600.0)).run(balanced(threads=(1, 1, 0)), first, 120)
    seconds = [share / speed for share, speed in zip(found[-1].shares, (100.0, 50.0, 600.0), strict=True)]
    assert max(seconds) <= 1.05 * BATCH / 750
    assert {one.threads for one in found} == {first.threads}


def test_no_accelerator_gets_more_than_fits():
    kinds: tuple[TrainerKind, ...] = ("processor", "accelerator", "accelerator")
    first = start((600, 200, 200), (1, 0, 0), kinds)
    machine = Machine(constant(100.0, 600.0, 300.0))
    found = machine.run(balanced(threads=(1, 0, 0), most=(None, 250, 400)), first, 120)
    assert max(one.shares[1] for one in found) <= 250
    assert max(one.shares[2] for one in found) <= 400
    assert found[-1].shares[0] < 600


def test_a_drift_is_of_a_stage_that_matters():
    before = StageTimes(TWO, 0.001, 0.0, 0.2, (0.0, 0.0), (1.0, 1.0), 0.0, 1.2)
    assert drifts(before, before) == []
    assert drifts(before, dataclasses.replace(before, sampling_processor=0.01)) == []  # ten times as long, of nothing
    assert drifts(before, dataclasses.replace(before, training=(1.0, 1.1))) == []
    longest, shorter = drifts(before, dataclasses.replace(before, training=(1.0, 2.0), loading=0.1))
    assert (longest.stage, longest.trainer, longest.before_s, longest.now_s) == ("propagation", 1, 1.0, 2.0)
    assert (shorter.stage, shorter.trainer, shorter.slower) == ("loading", None, False)
