"""`MemoryGuard`: what a run takes, however short, whoever looks, and whatever else is watched."""

from __future__ import annotations

import mmap
import os
import random
import sys
import threading

import pytest

from a3gnn.errors import MemoryLimitError
from a3gnn.process import memory_guard as memory
from a3gnn.process.memory import MemoryUse, PeakMemory
from a3gnn.process.memory_guard import MemoryGuard, host_bytes

MIB = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak between looks is the Linux kernel's")


def hold_for_a_moment(size: int) -> None:
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def test_a_peak_that_was_given_back_at_once_passes_the_limit() -> None:
    before = host_bytes()
    with MemoryGuard(before + 32 * MIB) as guard:
        guard.check()
        hold_for_a_moment(64 * MIB)
        with pytest.raises(
            MemoryLimitError, match=r"it took .* [MG]iB for a moment, and takes .* [MG]iB now; raise the limit"
        ):
            guard.check()
    assert guard.peak_bytes - before > 32 * MIB


def test_what_was_before_and_what_comes_after_does_not_count() -> None:
    hold_for_a_moment(256 * MIB)
    before = host_bytes()
    with MemoryGuard() as guard:
        pass
    hold_for_a_moment(128 * MIB)
    assert guard.peak_bytes < before + 64 * MIB


def test_one_guard_takes_no_peak_from_another() -> None:
    before = host_bytes()
    with MemoryGuard() as one, MemoryGuard() as other:
        for _ in range(10):
            hold_for_a_moment(64 * MIB)
            assert one.recent_bytes() - before > 32 * MIB
            assert other.recent_bytes() - before > 32 * MIB
        assert min(one.peak_bytes, other.peak_bytes) - before > 32 * MIB


def test_the_peak_never_falls_whoever_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads look at once, each of which sees another figure; an update that is lost would lower the peak."""
    draw, seen = random.Random(3), list[int]()

    class Drawn(PeakMemory):
        def look(self) -> MemoryUse:
            now = draw.randrange(10**6)
            seen.append(now)
            sys.setswitchinterval(1e-6)
            return MemoryUse(now)

    with MemoryGuard() as guard:
        guard.limit, highest, falls = 1, 0, list[int]()

        def look() -> None:
            last = 0
            for _ in range(500):
                assert guard.is_over in (True, False)
                now = guard.peak_bytes
                falls.extend([now] if now < last else [])
                last = now

        monkeypatch.setattr(memory._OWN, "_peak", Drawn(os.getpid()))
        monkeypatch.setattr(guard, "_peak", 0)
        interval = sys.getswitchinterval()
        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
        highest = max(seen)
        assert not falls
        assert guard.peak_bytes >= highest


def test_a_forked_child_knows_its_own_memory_alone() -> None:
    held = mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
    with MemoryGuard():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            held.close()
            guard = MemoryGuard()
            os.write(write, str(guard.peak_bytes).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        assert int(os.read(read, 64)) < host_bytes() - 32 * MIB
        os.close(read)
