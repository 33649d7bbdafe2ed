"""Algorithm 1 over all orderings of its stages, with ties, and with stages that have no work."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from a3gnn.hybrid.control.controller import BALANCED_STAGES, PARTNERS, PROCESSOR_STAGES, Action, decide

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
