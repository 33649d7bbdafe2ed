import ctypes
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from a3gnn.loader import memory_model
from a3gnn.loader.memory_model import MemoryLevel
from a3gnn.process.heap import trim_heap
from a3gnn.process.memory_guard import host_bytes
from tests.loader.alone import alone

MIB = 1 << 20

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc")


@pytest.fixture
def level() -> Iterator[MemoryLevel]:
    """A limit of 512 MiB above the memory in use."""
    trim_heap()
    made = MemoryLevel(host_bytes() + 512 * MIB)
    with made.watched():
        made.trimmed()
        yield made
    trim_heap()


def freed(nbytes: int, blocks: int = 8) -> None:
    """Takes blocks of `nbytes` in all at once, and frees them."""
    held = [np.ones(nbytes // blocks // 8) for _ in range(blocks)]
    del held


def comes(true: Callable[[], bool]) -> bool:
    """Returns whether `true` comes to hold: the thread that looks may wait for a core, but not for a minute."""
    ended = time.monotonic() + 60
    while not true():
        if time.monotonic() > ended:
            return False
        time.sleep(0.001)
    return True


def test_free_blocks_stay_up_to_a_level(level: MemoryLevel) -> None:
    level.keep(host_bytes() + 256 * MIB)
    freed(128 * MIB)
    now = level.now()
    assert now.held - now.used > 64 * MIB


def test_beyond_it_blocks_go_back_as_they_are_freed(level: MemoryLevel) -> None:
    before = host_bytes()
    level.keep(before)
    freed(128 * MIB)
    assert host_bytes() - before < 64 * MIB


@alone
def test_close_to_the_limit_free_blocks_go_back(level: MemoryLevel) -> None:
    """They do so while a pass runs, which is counted."""
    level.keep(level.cap_bytes)
    before = host_bytes()
    hole, pin = np.ones(250 * MIB // 8), np.ones(MIB // 8)
    del hole
    block = np.ones(300 * MIB // 8)  # does not fit into the hole
    assert comes(lambda: host_bytes() - before < 400 * MIB)
    del block, pin
    assert level.keep(level.cap_bytes) >= 1
    assert level.keep(level.cap_bytes) == 0


def test_a_limit_below_the_memory_in_use_returns_blocks_only_as_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    held, looks = [host_bytes()], [0]

    def look() -> int:
        looks[0] += 1
        return held[0]

    def looked() -> bool:
        wanted = looks[0] + 20
        return comes(lambda: looks[0] >= wanted)

    level = MemoryLevel(held[0] - 64 * MIB)
    monkeypatch.setattr(memory_model, "host_bytes", look)
    with level.watched():
        assert looked()
        assert level.keep(0) == 1
        assert looked()
        assert level.keep(0) == 0
        held[0] += 64 * MIB
        assert looked()
        assert level.keep(0) == 1


def test_an_epoch_within_another_leaves_its_brake(level: MemoryLevel) -> None:
    level.keep(host_bytes())
    with level.watched():
        level.keep(level.cap_bytes)
    near, before = level.near_bytes, host_bytes()
    assert near == 48 * MIB

    def goes_back() -> bool:
        freed(128 * MIB)
        grown = host_bytes() - before
        trim_heap()
        return grown < 64 * MIB

    assert comes(goes_back)
