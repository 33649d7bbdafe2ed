"""Memory of a process tree."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from a3gnn.process import memory
from a3gnn.process.memory import MemoryUse, PeakMemory, process_memory, process_tree, spare_bytes
from a3gnn.process.worker import MemoryWatch

MIB = 1 << 20
HOLDER = "import sys, time; held = bytearray(b'1') * int(sys.argv[1]); print('ready', flush=True); time.sleep(60)"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the figures are the Linux kernel's")


def hold(size: int) -> subprocess.Popen[bytes]:
    """A process, leader of its group, that holds `size` bytes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(size)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_anonymous_memory_is_counted() -> None:
    before = process_memory(os.getpid()).anonymous_bytes
    held = np.ones(64 * MIB, dtype=np.uint8)
    grown = process_memory(os.getpid()).anonymous_bytes - before
    assert abs(grown - held.nbytes) < held.nbytes / 2
    assert held[-1] == 1


def test_shared_anonymous_memory_is_counted() -> None:
    before = process_memory(os.getpid())
    with mmap.mmap(-1, 32 * MIB, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS) as shared:
        shared.write(b"1" * len(shared))
        after = process_memory(os.getpid())
    assert after.anonymous_bytes - before.anonymous_bytes > 16 * MIB


def test_pages_of_a_mapped_file_are_reclaimable(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.ones(32 * MIB, dtype=np.uint8))
    before = process_memory(os.getpid())
    mapped = np.load(path, mmap_mode="c")
    assert mapped.sum(dtype=np.int64) == 32 * MIB
    after = process_memory(os.getpid())
    if after.file_bytes - before.file_bytes < 16 * MIB:
        pytest.skip("the temporary folder is in RAM")
    assert after.anonymous_bytes - before.anonymous_bytes < 16 * MIB


def test_a_tree_holds_its_children() -> None:
    child = hold(48 * MIB)
    try:
        assert process_tree(os.getpid())[0] == os.getpid()
        assert child.pid in process_tree(os.getpid())
        own, childs = process_memory(os.getpid()), process_memory(child.pid)
        tree = sum(map(process_memory, process_tree(os.getpid())), start=MemoryUse())
        assert tree.anonymous_bytes - own.anonymous_bytes > childs.anonymous_bytes / 2 > 24 * MIB
    finally:
        end(child)


def test_a_process_that_is_gone_has_no_memory() -> None:
    child = hold(MIB)
    end(child)
    assert process_tree(child.pid) == [child.pid]
    assert process_memory(child.pid) == MemoryUse()


def test_watch_keeps_the_peak_of_each_figure() -> None:
    assert MemoryUse(3, 10).peak(MemoryUse(5, 7)) == MemoryUse(5, 10)
    before = process_memory(os.getpid()).anonymous_bytes
    with MemoryWatch(os.getpid()) as watch:
        held = np.ones(64 * MIB, dtype=np.uint8)
        end = time.monotonic() + 60
        while watch.peak.anonymous_bytes < before + held.nbytes / 2 and time.monotonic() < end:
            time.sleep(0.01)
        del held
        left = process_memory(os.getpid()).anonymous_bytes
    assert watch.peak.anonymous_bytes > max(before, left) + 32 * MIB
    assert not watch.passed_limit


def test_watch_ends_what_passes_its_limit() -> None:
    child = hold(64 * MIB)
    try:
        limit = process_memory(child.pid).anonymous_bytes // 2
        with MemoryWatch(child.pid, limit_bytes=limit) as watch:
            assert child.wait(timeout=50) == -9
        assert watch.passed_limit
        assert watch.peak.anonymous_bytes > limit
    finally:
        end(child)


def populated(size: int) -> None:
    """Takes `size` bytes and gives them back."""
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


@pytest.mark.parametrize("resets", [True, False])
def test_no_peak_between_looks_is_too_short(resets: bool) -> None:
    own = PeakMemory(os.getpid(), resets=True)
    own.look()  # lowers the mark, which earlier tests may have raised
    peak, before = PeakMemory(os.getpid(), resets=resets), process_memory(os.getpid()).anonymous_bytes
    peak.look()
    populated(64 * MIB)
    # Halves of what was taken, because the kernel's counts are as exact as it has cores.
    assert 32 * MIB < peak.look().anonymous_bytes - before < 96 * MIB
    assert peak.look().anonymous_bytes - before < 16 * MIB
    populated(32 * MIB)
    assert (peak.look().anonymous_bytes - before > 16 * MIB) == resets
    populated(128 * MIB)
    assert peak.look().anonymous_bytes - before > 96 * MIB


def test_pages_of_files_are_no_peak(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.ones(32 * MIB, dtype=np.uint8))
    peak = PeakMemory(os.getpid(), resets=True)
    before = peak.look()
    mapped = np.load(path, mmap_mode="r")
    assert mapped.sum() == 32 * MIB
    touched = peak.look()
    assert touched.file_bytes - before.file_bytes > 16 * MIB
    del mapped
    assert max(touched.anonymous_bytes, peak.look().anonymous_bytes) - before.anonymous_bytes < 16 * MIB


def touched(path: Path) -> mmap.mmap:
    """A map of the file at `path`, in RAM as a whole."""
    with path.open("rb") as file:
        found = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    assert sum(found[:: mmap.PAGESIZE]) > 0
    return found


@pytest.mark.parametrize("resets", [True, False])
def test_a_burst_shows_beside_pages_of_files_that_were_given_back(resets: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"1" * 32 * MIB)
    PeakMemory(os.getpid(), resets=True).look()  # lowers the mark, which earlier tests may have raised
    peak = PeakMemory(os.getpid(), resets=resets)
    mapped = touched(path)
    before = peak.look()
    mapped.close()
    populated(96 * MIB)  # of which the file's 32 MiB hide as much
    assert peak.look().anonymous_bytes - before.anonymous_bytes > 32 * MIB


def test_pages_of_a_file_that_came_and_went_between_two_looks_count(tmp_path: Path) -> None:
    """The kernel's mark does not tell them from a burst of anonymous memory, which must not pass a limit unseen."""
    path = tmp_path / "rows"
    path.write_bytes(b"1" * 32 * MIB)
    peak = PeakMemory(os.getpid(), resets=True)
    before = peak.look().anonymous_bytes
    touched(path).close()
    assert peak.look().anonymous_bytes - before > 16 * MIB
    assert peak.look().anonymous_bytes - before < 16 * MIB


@pytest.mark.parametrize(
    ("machine", "free", "spare"),
    [(1 << 40, 50 << 30, 37.5 * 2**30), (16 << 30, 8 << 30, 7.2 * 2**30), (16 << 30, 0, 0), (16 << 30, None, None)],
)
def test_a_reserve_leaves_something_where_anything_is_free(
    machine: int, free: int | None, spare: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "host_memory_bytes", lambda: machine)
    monkeypatch.setattr(memory, "available_bytes", lambda: free)
    assert spare_bytes() == (None if spare is None else pytest.approx(spare, abs=1))


def test_a_process_that_is_gone_has_no_peak() -> None:
    process = hold(MIB)
    peak = PeakMemory(process.pid)
    assert peak.look().anonymous_bytes > MIB
    end(process)
    assert peak.look() == MemoryUse()
