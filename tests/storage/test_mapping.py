from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from a3gnn.storage import mapping
from a3gnn.storage.mapping import in_large_pages, mapping_of, settle
from a3gnn.storage.npy import open_npy
from tests.storage.page_cache import in_memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux about its pages")
VALUES = np.arange(1 << 20, dtype=np.int32)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """4 MiB of ids on disk, and in the page cache."""
    np.save(tmp_path / "ids.npy", VALUES)
    return tmp_path / "ids.npy"


def _flags(array: np.ndarray) -> set[str]:
    """What the system was told about the map that `array` lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        first = line.split()[0]
        if not first.endswith(":"):
            low, high = (int(end, 16) for end in first.split("-"))
            inside = low <= array.ctypes.data < high
        elif inside and first == "VmFlags:":
            return set(line.split()[1:])
    raise AssertionError("no map holds the array")


def test_a_map_is_found_behind_views(written: Path) -> None:
    array = open_npy(written)
    assert isinstance(mapping_of(array[5:].reshape(-1, 1)[::2].T), mmap.mmap)
    assert mapping_of(array.copy()) is None


@linux
def test_settled_files_leave_the_page_cache_and_keep_their_bytes(written: Path) -> None:
    (written.parent / "small").write_bytes(b"too small for a large page")
    array = open_npy(written)
    assert in_memory(array).all()
    settle(written.parent)
    if in_memory(array).any():
        pytest.skip("this file system keeps files in memory")
    np.testing.assert_array_equal(array, VALUES)


@linux
def test_large_pages_are_asked_for_where_memory_allows(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = open_npy(written)
    monkeypatch.setattr(mapping, "host_memory_bytes", lambda: array.nbytes)
    assert in_large_pages(array) is array
    assert "hg" not in _flags(array)
    monkeypatch.undo()
    in_large_pages(array)
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this kernel has no large pages")
    assert "hg" in _flags(array)


def test_an_array_in_ram_stays_as_it_is() -> None:
    array = VALUES.copy()
    assert in_large_pages(array) is array
