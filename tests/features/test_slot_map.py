"""The kernels of the dynamic policies against each policy in plain Python, over ordered dictionaries."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.config import DYNAMIC_POLICIES
from a3gnn.errors import UsageError
from a3gnn.features.slot_map import SlotMap, slot_bytes, slots_that_fit


class Fifo:
    """Serves queries of distinct or repeated ids: hits first, then misses one by one. Evicts in order of arrival."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.held: OrderedDict[int, int] = OrderedDict()

    def touch(self, node: int) -> None:
        pass

    def victim(self) -> int:
        return next(iter(self.held))

    def query(self, ids: list[int]) -> int:
        hits = [node for node in ids if node in self.held]
        misses = [node for node in ids if node not in self.held]
        for node in hits:
            self.touch(node)
        for node in misses:
            if self.slots and node not in self.held:
                if len(self.held) == self.slots:
                    del self.held[self.victim()]
                self.held[node] = 0
        return len(hits)


class Clock(Fifo):
    """A queue whose head goes to its end instead, once, if it was read since it came or was spared."""

    def touch(self, node: int) -> None:
        self.held[node] = 1

    def victim(self) -> int:
        while self.held[node := next(iter(self.held))]:
            self.held[node] = 0
            self.held.move_to_end(node)
        return node


REFERENCES = {"fifo": Fifo, "clock": Clock}


@settings(max_examples=150, deadline=None)
@given(
    policy=st.sampled_from(DYNAMIC_POLICIES),
    num_nodes=st.integers(1, 40),
    slots=st.integers(0, 42),
    distinct=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_each_policy_does_what_it_does_in_plain_python(policy, num_nodes, slots, distinct, seed) -> None:
    draw = np.random.default_rng(seed)
    cache, reference = SlotMap(policy, slots, num_nodes), REFERENCES[policy](slots)
    for _ in range(12):
        count = int(draw.integers(0, num_nodes + 1))
        ids = (draw.permutation(num_nodes)[:count] if distinct else draw.integers(0, num_nodes, count)).astype(np.int32)
        before = set(reference.held)
        found, hits = cache.look_up(ids)
        assert hits == reference.query(ids.tolist())
        assert set(ids[found >= 0]) == set(ids.tolist()) & before
        places, targets = cache.admit(ids, found)
        assert set(np.flatnonzero(cache.position >= 0).tolist()) == set(reference.held)
        # Exactly the rows that came in are to be copied, each to its slot, and no slot gets two rows.
        assert set(ids[places].tolist()) == set(reference.held) - before
        assert np.array_equal(cache.position[ids[places]], targets)
        held = cache.position[cache.position >= 0]
        assert len(np.unique(held)) == len(held) <= slots


def run(policy: str, slots: int, queries: list[list[int]]) -> set[int]:
    cache = SlotMap(policy, slots, 10)
    for query in queries:
        ids = np.array(query, dtype=np.int32)
        cache.admit(ids, cache.look_up(ids)[0])
    return set(np.flatnonzero(cache.position >= 0).tolist())


@pytest.mark.parametrize(
    ("policy", "held"),
    [("fifo", {2, 3, 4}), ("clock", {1, 2, 4})],
)
def test_policies_differ_as_their_names_say(policy: str, held: set[int]) -> None:
    # 1 came first and is read often, 2 was read often but longest ago, 3 came last and was never read again.
    assert run(policy, 3, [[1], [2], [2], [2], [1], [3], [4]]) == held


@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
def test_a_query_larger_than_the_cache_fills_it(policy: str) -> None:
    assert len(run(policy, 3, [list(range(10))])) == 3


@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
def test_maps_take_what_is_counted_and_not_a_slot_less(policy: str) -> None:
    for cache_bytes in [*range(0, 2000, 7), 10**6]:
        slots = slots_that_fit(policy, cache_bytes, 100, 64)
        taken = SlotMap(policy, slots, 100).nbytes + 64 * slots
        assert slots == 0 or taken <= cache_bytes
        assert slots == 100 or SlotMap(policy, slots + 1, 100).nbytes + 64 * (slots + 1) > cache_bytes
    assert {name: slot_bytes(name) for name in DYNAMIC_POLICIES} == {"fifo": 4, "clock": 5}


@pytest.mark.parametrize(
    ("policy", "slots", "message"), [("fifo", -1, "must be >= 0, got -1"), ("fifa", 1, "did you mean 'fifo'")]
)
def test_wrong_arguments_are_refused(policy: str, slots: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SlotMap(policy, slots, 10)
