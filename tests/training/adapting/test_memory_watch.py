"""`CacheShrinker`: the cache shrinks first, by what is needed, and grows again only where it leaves a reserve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from a3gnn.pipeline.preparation import Preparation
from a3gnn.storage.host_limits import available_bytes, host_memory_bytes
from a3gnn.training.adapting import preparing as memory_watch
from a3gnn.training.adapting.preparing import CacheShrinker, Preparing, Room, Shrunk
from tests.training.adapting.controllers import Stays

WHOLE = 1000 << 20
CACHE = 400 << 20
START = Preparation("mode1", 2, 3, CACHE)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "_PERIOD_S", 0.0)


class Memory:
    """So many MiB are left beside the cache, whatever that takes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def rooms(self) -> list[Room]:
        return [Room(self.left << 20, WHOLE, "of the memory limit")]


def watch(memory: Memory, can_resize: bool = True) -> CacheShrinker:
    return CacheShrinker(START, memory.rooms, can_resize=can_resize, map_bytes=8 << 20)


def test_where_there_is_room_nothing_changes():
    assert watch(Memory(300)).look(START) is None


def test_the_cache_gives_what_is_needed_and_a_quarter_at_least():
    (found, why) = watch(Memory(40)).look(START) or (START, "")
    assert found == replace(START, cache_bytes=CACHE - (100 << 20))
    assert why == "only 40.0 MiB of the memory limit are free"
    (found, _) = watch(Memory(-150)).look(START) or (START, "")
    assert found.cache_bytes == CACHE - (250 << 20)
    assert found == replace(START, cache_bytes=found.cache_bytes)


def test_a_cache_that_could_hold_its_map_alone_is_none():
    (found, _) = watch(Memory(-295)).look(START) or (START, "")
    assert found.cache_bytes == 0


def test_then_fewer_mini_batches_are_ahead():
    now, seen = replace(START, cache_bytes=0), []
    starving = watch(Memory(0))
    while (found := starving.look(now)) is not None:
        now, _ = found
        seen.append((now.mode, now.workers, now.depth))
    assert seen == [("mode1", 2, 2), ("mode1", 1, 1), ("sequential", 0, 0)]


def test_a_cache_of_a_fixed_volume_stays():
    (found, _) = watch(Memory(0), can_resize=False).look(START) or (START, "")
    assert found == replace(START, depth=2)


def test_the_cache_grows_once_there_was_room_for_a_while(monkeypatch):
    memory = Memory(40)
    own = watch(memory)
    (now, _) = own.look(START) or (START, "")
    memory.left = 300
    assert own.look(now) is None
    monkeypatch.setattr(memory_watch, "_CALM_S", 0.0)
    (found, why) = own.look(now) or (now, "")
    assert found == START
    assert why == "300 MiB of the memory limit are free again"


@pytest.mark.parametrize("left", range(0, 600, 25))
def test_what_grew_does_not_shrink_again(left, monkeypatch):
    """Whatever is left, the watch comes to an end: it never takes back what it did."""
    monkeypatch.setattr(memory_watch, "_CALM_S", 0.0)
    now, taken = START, Memory(left)
    own, shrunk, grew = watch(taken), False, False
    for _ in range(20):
        found = own.look(now)
        if found is None:
            break
        change = found[0].cache_bytes - now.cache_bytes
        shrunk, grew = shrunk or change < 0, grew or change > 0
        taken.left -= change >> 20
        now = found[0]
    else:
        pytest.fail("it goes on and on")
    assert not (shrunk and grew)


def test_what_is_tried_must_fit():
    own = watch(Memory(150))
    own.batch_bytes = 20 << 20
    assert own.fits(replace(START, depth=99), START)  # nothing was looked up yet
    own.look(START)
    assert own.fits(replace(START, depth=5), START)
    assert not own.fits(replace(START, depth=6), START)
    assert own.fits(replace(START, depth=2), START)
    assert own.refuses(replace(START, depth=8), START) is None
    refused = own.refuses(replace(START, depth=9), START)
    assert refused == "it needs 120 MiB more, but only 150 MiB of the memory limit are free"


def test_what_ran_at_the_last_look_may_come_back():
    """A search that tried half the cache goes back to all of it though less than twice the reserve was left."""
    own = watch(Memory(60))
    assert own.look(START) is None
    half = replace(START, cache_bytes=CACHE // 2)
    assert own.refuses(START, half) is None
    assert own.refuses(replace(START, cache_bytes=CACHE + (20 << 20)), half) is not None


def test_a_volume_that_somebody_else_chose_stays_however_much_is_left(monkeypatch):
    monkeypatch.setattr(memory_watch, "_CALM_S", 0.0)
    chosen, memory = replace(START, cache_bytes=CACHE // 2), Memory(500)
    own = watch(memory)
    assert own.look(chosen) is None
    memory.left = 40
    (shrunk, _) = own.look(chosen) or (chosen, "")
    assert shrunk.cache_bytes == chosen.cache_bytes - (100 << 20)
    memory.left = 500
    other = replace(shrunk, cache_bytes=50 << 20)
    assert own.look(other) is None
    (grown, _) = own.look(shrunk) or (shrunk, "")
    assert grown == chosen
    assert own.look(grown) is None


def test_a_run_that_goes_on_knows_what_the_watch_shrank():
    own = watch(Memory(40))
    before = Preparing(Stays(START), START, own)
    before.change(*(own.look(START) or (START, "")))
    after = watch(Memory(300))
    again = Preparing(Stays(START), START, after)
    again.load_state_dict(before.state_dict())
    assert after.shrunk == own.shrunk == Shrunk(CACHE, again.current.cache_bytes)
    elsewhere, other = watch(Memory(300)), replace(START, workers=3, depth=3)
    Preparing(Stays(other), other, elsewhere).load_state_dict(before.state_dict())
    assert elsewhere.shrunk is None


def test_what_the_machine_has_is_known():
    found = available_bytes()
    assert found is not None
    assert 0 < found <= host_memory_bytes()
