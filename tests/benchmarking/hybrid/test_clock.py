"""Events, processes and shared bandwidth on the virtual clock."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from benchmarks.hybrid.clock import Bandwidth, Process, Slots, VirtualClock, _Flow, set_rates


def ends(clock: VirtualClock, *flows: tuple[float, float, dict[Bandwidth, float]]) -> list[float]:
    """When flows that begin now end."""
    found = [math.nan] * len(flows)

    def flow(place: int) -> Process:
        yield clock.flow(*flows[place])
        found[place] = clock.now

    for place in range(len(flows)):
        clock.start(flow(place))
    clock.run()
    return found


def test_flows_share_a_resource_and_take_over_what_others_leave() -> None:
    memory = Bandwidth("memory", 10.0)
    # Both at 5 bytes/s until the first has its 10 at t = 2; then 10 bytes/s for the other's last 20.
    assert ends(VirtualClock(), (10, 100, {memory: 1}), (30, 100, {memory: 1})) == pytest.approx([2.0, 4.0])


def test_a_flow_that_can_use_little_leaves_the_rest_to_others() -> None:
    memory = Bandwidth("memory", 10.0)
    assert ends(VirtualClock(), (10, 2, {memory: 1}), (40, 100, {memory: 1})) == pytest.approx([5.0, 5.0])


def test_a_weight_counts_so_many_bytes_of_the_resource() -> None:
    memory = Bandwidth("memory", 10.0)
    assert ends(VirtualClock(), (10, 100, {memory: 2})) == pytest.approx([2.0])
    assert ends(VirtualClock(), (10, 5, {memory: 0})) == pytest.approx([2.0])


def test_the_narrower_of_two_resources_bounds_a_flow() -> None:
    memory, link = Bandwidth("memory", 10.0), Bandwidth("link", 4.0)
    first, second = ends(VirtualClock(), (8, 100, {memory: 1, link: 1}), (12, 100, {memory: 1}))
    assert (first, second) == pytest.approx((2.0, 2.0))


def test_a_flow_that_could_never_end_is_refused() -> None:
    with pytest.raises(UsageError, match="finite rate above 0"):
        VirtualClock().flow(1.0, 0.0, {})
    with pytest.raises(UsageError, match="finite rate above 0"):
        VirtualClock().flow(1.0, math.inf, {})


@pytest.mark.parametrize("begin", [1000.0, 1e6])
def test_short_flows_end_however_late_it_is(begin: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late, rounding leaves more than a billionth of a short flow, and its end can't be told from now."""
    clock, memory, found = VirtualClock(), Bandwidth("memory", 10.0), []
    shared = 0

    def set_rates_unless_it_hangs(flows: list[_Flow]) -> None:
        nonlocal shared
        shared += 1
        assert shared <= 1000, f"the clock stands at {clock.now} s with {len(found)} of 100 flows done"
        set_rates(flows)

    monkeypatch.setattr("benchmarks.hybrid.clock.set_rates", set_rates_unless_it_hangs)

    def late() -> Process:
        yield clock.after(begin)
        for _ in range(100):
            yield clock.flow(1e-4, 100, {memory: 1})
            found.append(clock.now)

    clock.start(late())
    clock.run()
    assert len(found) == 100
    assert found[-1] - begin == pytest.approx(100 * 1e-5, abs=100 * math.ulp(begin))


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0.1, 20)), min_size=1, max_size=8))
def test_no_byte_is_lost_and_no_bound_exceeded(flows: list[tuple[float, float]]) -> None:
    memory = Bandwidth("memory", 10.0)
    found = ends(VirtualClock(), *((size, cap, {memory: 1.0}) for size, cap in flows))
    assert all(end >= size / min(cap, 10.0) - 1e-6 for end, (size, cap) in zip(found, flows, strict=True))
    assert max(found) >= sum(size for size, _ in flows) / 10.0 - 1e-6
    # Work-conserving: the last ends when all bytes have passed, unless its own cap held it back.
    assert max(found) <= sum(size for size, _ in flows) / 10.0 + max(size / cap for size, cap in flows) + 1e-6


def test_processes_wait_for_each_other_and_slots_are_served_in_order() -> None:
    clock, slots, order = VirtualClock(), Slots(1), []

    def user(name: str, seconds: float) -> Process:
        yield slots.take()
        yield clock.after(seconds)
        order.append((name, clock.now))
        slots.give()

    def whole() -> Process:
        yield clock.all_of([clock.start(user("a", 2.0)), clock.start(user("b", 1.0)), clock.start(user("c", 0.5))])
        order.append(("all", clock.now))

    clock.start(whole())
    clock.run()
    assert order == [("a", 2.0), ("b", 3.0), ("c", 3.5), ("all", 3.5)]
