"""What controllers keep, whatever is measured: the mini-batch, the threads, a thread and a seed per stage."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.hybrid.assignment import Assignment, Threads, divide
from a3gnn.hybrid.control.controller import ShareBounds
from a3gnn.hybrid.control.fitted import Divisions, FittedScaling, Scaling
from a3gnn.hybrid.stage_times import StageTimes
from benchmarks.hybrid.algorithm1 import Algorithm1

KINDS = ("processor", "accelerator", "accelerator")
BATCH = 1024


def measured(here=1.0, there=0.0, loading=1.0, transfer=1.0, processor=1.0, accelerator=1.0) -> StageTimes:
    """Seconds of stages; an iteration takes what the slowest takes."""
    longest = max(here, there, loading, transfer, processor, accelerator)
    return StageTimes(
        KINDS, here, there, loading, (0.0, transfer, transfer), (processor, accelerator, accelerator), 0.0, longest
    )


def division(own=400, there=0, threads=(4, 4, 8)) -> Assignment:
    return Assignment(KINDS, (own, *divide(BATCH - own, [1, 1])), there, Threads(*threads))


assignments = st.builds(
    lambda own, there, one, two, three: division(own, there, (one, two, three)),
    *(st.integers(1, BATCH - 2), st.integers(0, BATCH), *(st.integers(1, 40) for _ in range(3))),
)
times = st.builds(measured, *(st.floats(1e-4, 10.0) for _ in range(6)))


@pytest.mark.parametrize("controller", [Algorithm1, FittedScaling])
@settings(max_examples=30, deadline=None)
@given(start=assignments, steps=st.lists(times, min_size=1, max_size=4), most=st.integers(BATCH // 2, BATCH))
def test_the_mini_batch_and_the_threads_stay_whole_and_no_stage_starves(controller, start, steps, most):
    managing, current = controller(ShareBounds(most)), start
    for step in steps:
        current = managing.adjust(current, step)
        assert current.batch_size == BATCH
        assert current.threads.total == start.threads.total
        assert min(current.threads.loading, current.shares[1] + 1) >= 1
        assert current.seeds_of("processor") == 0 or current.threads.training >= 1
        assert current.sampled_on_accelerators == BATCH or current.threads.sampling >= 1
        assert current == start or current.seeds_of("accelerator") <= max(most, start.seeds_of("accelerator"))


def test_swapping_what_two_stages_took_changes_the_action():
    start = division()
    for controller in (Algorithm1, FittedScaling):
        slow_loading, slow_sampling = (
            controller(ShareBounds(BATCH)).adjust(start, measured(**{name: 5.0})) for name in ("loading", "here")
        )
        assert slow_loading.threads.loading > slow_sampling.threads.loading
        assert slow_loading.threads.sampling < slow_sampling.threads.sampling
        slow_processor, slow_accelerator = (
            controller(ShareBounds(BATCH)).adjust(start, measured(**{name: 5.0}))
            for name in ("processor", "accelerator")
        )
        assert (
            slow_processor.seeds_of("processor") < start.seeds_of("processor") < slow_accelerator.seeds_of("processor")
        )


def test_fitted_scaling_stays_with_the_best_it_measured_where_nothing_helps():
    """Whatever the division, an iteration takes as long: it tries a few, and returns to the first."""
    controller, start = FittedScaling(ShareBounds(BATCH)), division()
    current, tried = start, []
    for _ in range(12):
        current = controller.adjust(current, measured())
        tried.append(current)
    assert set(tried[-6:]) == {tried[-1]}


def test_fitted_scaling_leaves_out_a_trainer_that_costs_more_than_it_gives():
    controller, current = FittedScaling(ShareBounds(BATCH)), division(own=100, threads=(1, 1, 14))

    def run(one: Assignment) -> StageTimes:
        own = one.seeds_of("processor")
        slow = 0.1 * own / max(one.threads.training, 1)
        return measured(1.0 / one.threads.sampling, 0.0, 8.0 / one.threads.loading, 0.1, slow, 0.5)

    for _ in range(12):
        current = controller.adjust(current, run(current))
    assert current.seeds_of("processor") == 0
    assert current.threads.training == 0
    assert run(current).iteration < 0.7


def test_fitted_scaling_forgets_what_it_measured_once_the_machine_has_changed():
    controller, start = FittedScaling(ShareBounds(BATCH)), division(own=341)
    balanced = measured(transfer=0.5)
    current = start
    for _ in range(8):
        current = controller.adjust(current, balanced)
    settled = current
    slower = measured(transfer=0.5, processor=4.0)
    assert controller.adjust(settled, slower).seeds_of("processor") < settled.seeds_of("processor")


def test_scaling_expects_proportion_and_learns_where_threads_do_not_help():
    scaling, one = Scaling(), np.ones(1)
    scaling.add(100, 2, 0.0, 1.0)
    assert scaling.seconds(200 * one, 2 * one, 0 * one)[0] == pytest.approx(2.0)
    assert scaling.seconds(100 * one, 4 * one, 0 * one)[0] == pytest.approx(0.5)
    for threads in (4, 8, 8):
        scaling.add(100, threads, 0.0, 1.0)
    assert scaling.seconds(100 * one, 16 * one, 0 * one)[0] > 0.85
    assert scaling.seconds(0 * one, 2 * one, 0 * one)[0] == 0.0


def test_scaling_learns_what_another_stage_costs():
    scaling, one = Scaling(), np.ones(1)
    for beside, seconds in ((0.0, 1.0), (0.5, 1.5), (0.25, 1.2)):
        scaling.add(100, 4, beside, seconds)
    assert scaling.seconds(100 * one, 4 * one, one)[0] > 1.9


def test_divisions_keep_the_threads_of_stages_that_have_their_own():
    divisions = Divisions.grid(division(), ShareBounds(700, threads=False))
    assert {divisions.assignment(place).threads for place in range(len(divisions.processor))} == {Threads(4, 4, 8)}
    assert divisions.processor.min() == BATCH - 700


def test_weights_divide_what_a_kind_of_trainers_has():
    start = dataclasses.replace(division(), weights=(1.0, 1.0, 3.0))
    assert start.divided(224, 0, start.threads).shares == (224, 200, 600)
    assert division().divided(224, 0, start.threads).shares == (224, 400, 400)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: division(threads=(0, 4, 8)), "threads.sampling must be an integer >= 1"),
        (lambda: division(threads=(4, 0, 8)), "threads.loading must be an integer >= 1"),
        (lambda: division(threads=(4, 4, 0)), "threads.training must be an integer >= 1"),
        (lambda: division(there=BATCH + 1), "sampled_on_accelerators must be in"),
        (lambda: Assignment(("processor",), (8,), 1, Threads(1, 1, 1)), "without an accelerator"),
        (lambda: Assignment(KINDS, (8,), 0, Threads(1, 1, 1)), "one number per trainer"),
        (lambda: division().divided(-1, 0, Threads(1, 1, 1)), "shares must be an integer >= 0"),
        (
            lambda: Assignment(("processor",), (8,), 0, Threads(1, 1, 1)).divided(4, 0, Threads(1, 1, 1)),
            "none of their kind exists",
        ),
        (lambda: dataclasses.replace(division(), weights=(1.0, 0.0, 1.0)), "above 0"),
        (lambda: dataclasses.replace(division(), trainer_threads=(4, 2, 1)), "sum to threads.training 8, got"),
        (lambda: dataclasses.replace(division(), trainer_threads=(8,)), "one number per trainer"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()
    assert dataclasses.replace(division(own=0), threads=Threads(4, 4, 0)).threads.training == 0
