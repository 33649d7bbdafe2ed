import ctypes

import numpy as np
import pytest

from a3gnn.process import heap
from a3gnn.process.heap import heap_bytes, kept_pages, map_blocks, trim_heap
from a3gnn.process.memory_guard import host_bytes

MIB = 1 << 20
#: Bytes of a block; verdicts are its halves, because other threads of this process take and free memory, too.
TAKEN = 64 * MIB


def has_glibc() -> bool:
    return hasattr(ctypes.CDLL(None), "mallinfo2")


def growth() -> int:
    """Returns the bytes by which memory grows as a block of `TAKEN` bytes is taken and freed."""
    before = host_bytes()
    np.ones(TAKEN // 8)
    return host_bytes() - before


pytestmark = pytest.mark.skipif(not has_glibc(), reason="needs glibc")


def test_blocks_count_while_they_are_in_use() -> None:
    before = heap_bytes()
    blocks = [np.ones(MIB // 80, dtype=np.float64) for _ in range(200)]  # 20 MiB
    during = heap_bytes()
    del blocks
    after = heap_bytes()
    assert before is not None
    assert during is not None
    assert after is not None
    assert during - before > 10 * MIB
    assert after - before < 10 * MIB


def test_free_blocks_go_back_to_the_system() -> None:
    blocks = [np.ones(MIB // 80, dtype=np.float64) for _ in range(400)]  # 40 MiB
    kept = blocks[::2]
    del blocks
    before = host_bytes()
    assert trim_heap()
    assert host_bytes() < before - 10 * MIB
    assert all(block.sum() == MIB // 80 for block in kept)


def test_pages_of_freed_blocks_are_kept_until_they_go_back() -> None:
    trim_heap()
    assert growth() < TAKEN / 2
    with kept_pages(), kept_pages():
        assert growth() > TAKEN / 2
        assert growth() < TAKEN / 2
        trim_heap()
        assert growth() > TAKEN / 2
    trim_heap()
    assert growth() < TAKEN / 2


def test_mapped_blocks_go_back_once_they_are_freed() -> None:
    trim_heap()
    with kept_pages():
        map_blocks(True)
        assert growth() < TAKEN / 2
        map_blocks(False)
        assert growth() > TAKEN / 2
    trim_heap()
    assert growth() < TAKEN / 2


def test_without_glibc_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        def __init__(self, name: None) -> None:
            pass

    heap._function.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", Bare)
    try:
        assert heap_bytes() is None
        assert not trim_heap()
        with kept_pages():
            assert heap_bytes() is None
    finally:
        heap._function.cache_clear()
