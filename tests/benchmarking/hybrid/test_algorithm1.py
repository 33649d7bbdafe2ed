"""Algorithm 1 over all orderings of its stages, with ties, and with stages that have no work."""

from __future__ import annotations

import dataclasses
from itertools import permutations, product

import pytest

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.controller import ShareBounds
from a3gnn.hybrid.stage_times import StageTimes, TrainerKind
from benchmarks.hybrid.algorithm1 import (
    BALANCED_STAGES,
    PARTNERS,
    PROCESSOR_STAGES,
    Action,
    Algorithm1,
    apply,
    decide,
)
from tests.hybrid.test_control import BATCH, division, measured

SC, SA, LOAD, TC, ACCEL = BALANCED_STAGES
#: Lines 10 to 32: bottleneck, then what the fastest and the second must be (None: anything else), and the action; "CPU"
#: is the fastest of the processors' stages.
LISTING = [
    (SA, None, None, ("work", SC)),
    (ACCEL, None, None, ("work", TC)),
    (LOAD, None, None, ("threads", "CPU")),
    (SC, SA, None, ("work", SA)),
    (SC, ACCEL, SA, ("work", SA)),
    (SC, None, None, ("threads", "CPU")),
    (TC, ACCEL, None, ("work", ACCEL)),
    (TC, SA, ACCEL, ("work", ACCEL)),
    (TC, None, None, ("threads", "CPU")),
]
ORDERINGS = list(permutations(BALANCED_STAGES))


def listed(ordering: tuple[str, ...]) -> Action:
    """The first line of the listing that fits an ordering, slowest stage first."""
    for bottleneck, fastest, second, (kind, fast) in LISTING:
        fits = ordering[0] == bottleneck and fastest in (None, ordering[-1]) and second in (None, ordering[-2])
        if fits:
            on_processors = [stage for stage in ordering if stage in PROCESSOR_STAGES]
            return Action(kind, bottleneck, on_processors[-1] if fast == "CPU" else fast)
    raise AssertionError(ordering)


def seconds(ordering: tuple[str, ...]) -> dict[str, float]:
    return {stage: float(len(ordering) - place) for place, stage in enumerate(ordering)}


@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda o: "-".join(str(BALANCED_STAGES.index(s)) for s in o))
def test_every_ordering_does_what_the_listing_says(ordering):
    assert decide(seconds(ordering)) == listed(ordering)


def test_the_listing_moves_work_in_64_orderings_and_threads_in_56():
    kinds = [decide(seconds(ordering)).kind for ordering in ORDERINGS]
    assert (kinds.count("work"), kinds.count("threads")) == (64, 56)


@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda o: "-".join(str(BALANCED_STAGES.index(s)) for s in o))
def test_threads_come_from_a_stage_on_processors_and_go_to_one(ordering):
    """The misprint of lines 23 and 31: `fastest` may be the accelerators."""
    action = decide(seconds(ordering))
    if action.kind == "threads":
        assert {action.slow, action.fast} <= set(PROCESSOR_STAGES)
        assert action.slow != action.fast
    else:
        assert PARTNERS[action.slow] == action.fast


def test_swapping_the_seconds_of_two_stages_changes_what_is_done():
    """Of any two stages of which one is the bottleneck."""
    for ordering in ORDERINGS:
        before = seconds(ordering)
        for other in ordering[1:]:
            swapped = before | {ordering[0]: before[other], other: before[ordering[0]]}
            assert decide(swapped) != decide(before)


def test_ties_count_in_the_order_of_the_listing():
    for values in product((1.0, 2.0, 3.0), repeat=len(BALANCED_STAGES)):
        tied = dict(zip(BALANCED_STAGES, values, strict=True))
        ordering = tuple(sorted(BALANCED_STAGES, key=lambda stage: -tied[stage]))
        backwards = dict(reversed(tied.items()))
        assert decide(tied) == decide(backwards) == listed(ordering)


@pytest.mark.parametrize("absent", BALANCED_STAGES)
def test_a_stage_without_work_neither_gives_nor_gets(absent):
    for ordering in permutations([stage for stage in BALANCED_STAGES if stage != absent]):
        action = decide(seconds(ordering))
        assert action is None or absent not in (action.slow, action.fast)
        if action is None:
            assert PARTNERS.get(ordering[0]) == absent


def test_without_accelerators_only_threads_move():
    for ordering in permutations(PROCESSOR_STAGES):
        assert decide(seconds(ordering)) == Action("threads", ordering[0], ordering[-1])


def test_a_single_stage_on_processors_has_nobody_to_take_threads_from():
    for bottleneck, other in product((LOAD,), (SA, ACCEL)):
        assert decide({bottleneck: 2.0, other: 1.0}) is None


def test_algorithm1_moves_what_makes_both_equally_long():
    start = division(own=424)
    moved = Algorithm1(ShareBounds(BATCH)).adjust(start, measured(accelerator=3.0, processor=1.0))
    own = moved.seeds_of("processor")
    assert 3.0 / 600 * (BATCH - own) == pytest.approx(1.0 / 424 * own, rel=0.01)
    assert moved.threads == start.threads


def test_algorithm1_takes_threads_from_the_fastest_stage_on_processors():
    start = division(threads=(4, 4, 8))
    moved = Algorithm1(ShareBounds(BATCH)).adjust(
        start, measured(loading=4.0, here=0.5, processor=1.0, accelerator=0.1)
    )
    assert moved.threads == Threads(1, 7, 8)  # 4 * 4 / 7 s and 0.5 * 4 / 1 s
    assert moved.shares == start.shares


def test_what_is_within_the_hysteresis_stays():
    start = division(own=341)
    assert Algorithm1(ShareBounds(BATCH)).adjust(start, measured(accelerator=1.04)) is start
    assert Algorithm1(ShareBounds(BATCH)).adjust(start, measured(accelerator=1.10)) is not start


def test_a_bound_on_the_accelerators_memory_holds_back_what_they_are_given():
    moved = Algorithm1(ShareBounds(700)).adjust(
        division(own=400), measured(processor=50.0, accelerator=0.1, transfer=0.1)
    )
    assert moved.seeds_of("accelerator") == 700


def test_a_share_keeps_a_seed_and_a_stage_a_thread():
    start = division(own=2, threads=(1, 1, 1))
    work = Action("work", "training on processors", "accelerators")
    assert apply(work, start, 100.0, 1e-9, ShareBounds(BATCH)).seeds_of("processor") == 1
    threads = Action("threads", "loading", "sampling on processors")
    assert apply(threads, start, 100.0, 1e-9, ShareBounds(BATCH)) == start


def test_algorithm_1_moves_no_threads_where_stages_have_their_own():
    kinds: tuple[TrainerKind, ...] = ("processor", "accelerator")
    first = Assignment(kinds, (600, 400), 0, Threads(2, 2, 1), trainer_threads=(1, 0))
    times = StageTimes(kinds, 0.1, 0.0, 5.0, (0.0, 0.1), (0.2, 0.2), 0.0, 5.0)
    assert Algorithm1(ShareBounds(1000, threads=False)).adjust(first, times) is first
    assert Algorithm1(ShareBounds(1000)).adjust(dataclasses.replace(first, trainer_threads=()), times) != first
