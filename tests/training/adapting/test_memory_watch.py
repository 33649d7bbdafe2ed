"""`MemoryWatch`: the cache shrinks by what is needed, and grows again only where it leaves a reserve."""

from __future__ import annotations

import pytest

from a3gnn.storage.host_limits import available_bytes, host_memory_bytes
from a3gnn.training.adapting.memory_watch import MemoryWatch, Room

WHOLE = 1000 << 20
CACHE = 400 << 20


class Memory:
    """So many MiB are left beside the cache, whatever that takes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def rooms(self) -> list[Room]:
        return [Room(self.left << 20, WHOLE, "of the memory limit")]


def watch(memory: Memory, can_resize: bool = True, calm_s: float = 5.0) -> MemoryWatch:
    return MemoryWatch(CACHE, memory.rooms, can_resize=can_resize, map_bytes=8 << 20, period_s=0.0, calm_s=calm_s)


def after_look(own: MemoryWatch) -> int:
    own.look(1, 2)
    return own.cache_bytes


def test_where_there_is_room_nothing_changes():
    own = watch(Memory(300))
    assert after_look(own) == CACHE
    assert own.changes == own.lines == []


def test_the_cache_gives_what_is_needed_and_a_quarter_at_least():
    own = watch(Memory(40))
    assert after_look(own) == CACHE - (100 << 20)
    (line,) = own.lines
    assert line == (
        "adapt: epoch 1, mini-batch 2: cache 400 MiB -> 300 MiB: only 40.0 MiB of the memory limit are free"
    )
    assert after_look(watch(Memory(-150))) == CACHE - (250 << 20)


def test_a_cache_that_could_hold_its_map_alone_is_none():
    own = watch(Memory(-295))
    assert after_look(own) == 0
    assert after_look(own) == 0
    assert len(own.changes) == 1


def test_a_cache_of_a_fixed_volume_stays_and_a_line_says_so():
    own = watch(Memory(0), can_resize=False)
    assert after_look(own) == CACHE
    assert own.lines == [
        "adapt: nothing can change, because the cache is on a device or read ahead, or sampling prefers its nodes"
    ]
    none = MemoryWatch(0, Memory(0).rooms, can_resize=False, map_bytes=8)
    assert none.lines == ["adapt: nothing can change, because the cache has no bytes"]


def test_between_two_periods_nothing_is_looked_up():
    own = watch(Memory(300))
    own.look(1, 1)
    own.period_s = 1e9
    own._rooms = Memory(0).rooms
    assert after_look(own) == CACHE
    own.period_s = 0.0
    assert after_look(own) < CACHE


def test_the_cache_grows_once_there_was_room_for_a_while():
    memory = Memory(40)
    own = watch(memory)
    after_look(own)
    memory.left = 300
    assert after_look(own) < CACHE
    own.calm_s = 0.0
    assert after_look(own) == CACHE
    assert own.lines[-1].endswith("300 MiB of the memory limit are free again")


@pytest.mark.parametrize("left", range(0, 600, 25))
def test_what_grew_does_not_shrink_again(left):
    """Whatever is left, the watch comes to an end: it never takes back what it did."""
    taken = Memory(left)
    own, shrunk, grew = watch(taken, calm_s=0.0), False, False
    for _ in range(20):
        before = own.cache_bytes
        change = after_look(own) - before
        if not change:
            break
        shrunk, grew = shrunk or change < 0, grew or change > 0
        taken.left -= change >> 20
    else:
        pytest.fail("it goes on and on")
    assert not (shrunk and grew)


def test_a_run_that_goes_on_knows_what_the_watch_shrank():
    before = watch(Memory(40))
    after_look(before)
    again = watch(Memory(300), calm_s=0.0)
    again.load_state_dict(before.state_dict())
    assert again.cache_bytes == before.cache_bytes < CACHE
    assert again.changes == before.changes
    assert again.lines == []
    assert after_look(again) == CACHE
    elsewhere = MemoryWatch(CACHE // 2, Memory(300).rooms, can_resize=True, map_bytes=8)
    elsewhere.load_state_dict(before.state_dict())
    assert elsewhere.cache_bytes == CACHE // 2


def old_preparation(mode: str, workers: int, cache_bytes: int) -> dict[str, object]:
    return {"mode": mode, "workers": workers, "depth": workers, "cache_bytes": cache_bytes}


def test_a_checkpoint_of_a_version_that_searched_is_gone_on_with():
    """Its changes of the cache alone are kept, and one line says what else it changed."""
    first, tried = old_preparation("sequential", 0, CACHE), old_preparation("mode1", 2, CACHE)
    shrunk = old_preparation("mode1", 2, CACHE // 4)
    common = {"before_s": 1e-3, "after_s": None, "reason": "only 1 MiB is free"}
    state = {
        "shrunk": [CACHE, CACHE // 4],
        "start": first,
        "preparation": shrunk,
        "changes": [
            {"epoch": 1, "batches": 9, "now": tried, "before": first} | common,
            {"epoch": 2, "batches": 3, "now": shrunk, "before": tried} | common,
        ],
    }
    own = watch(Memory(600), calm_s=0.0)
    own.load_state_dict(state)
    assert own.cache_bytes == CACHE // 4
    (change,) = own.changes
    assert (change.epoch, change.batches, change.before, change.now) == (2, 3, CACHE, CACHE // 4)
    assert own.lines == [
        "adapt: the checkpoint is of a version that also changed mode, workers and depth; these are as configured "
        "from now on"
    ]
    assert after_look(own) == CACHE


def test_what_the_machine_has_is_known():
    found = available_bytes()
    assert found is not None
    assert 0 < found <= host_memory_bytes()
