from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from a3gnn.storage.mapping import ReadAhead
from a3gnn.storage.npy import open_npy
from tests.storage.page_cache import in_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which pages are in memory")
COLUMNS = 300  # rows of 1,200 bytes lie across pages


@pytest.fixture
def rows(tmp_path: Path) -> NDArray[np.float32]:
    """16 MiB of rows on disk, none of them in memory."""
    path = tmp_path / "x.npy"
    np.save(path, np.arange(14_000 * COLUMNS, dtype=np.float32).reshape(-1, COLUMNS))
    array = open_npy(path)
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    if in_memory(array).mean() > 0.1:
        pytest.skip("this file system keeps files in memory")
    return array


def _addresses(array: NDArray[np.float32], ids: list[int]) -> NDArray[np.int64]:
    return array.ctypes.data + np.array(ids, dtype=np.int64) * array.strides[0]


def test_scattered_rows_leave_what_lies_between_on_the_disk(rows: NDArray[np.float32]) -> None:
    ids = list(range(13_999, 0, -700))
    with ReadAhead(rows).reading(_addresses(rows, ids)):
        np.testing.assert_array_equal(rows[ids, 7], np.array(ids, dtype=np.float32) * COLUMNS + 7)
    held = in_memory(rows)
    assert len(ids) <= held.sum() < 0.1 * len(held)


def test_rows_in_other_memory_are_passed_over(rows: NDArray[np.float32]) -> None:
    elsewhere = np.zeros((4, COLUMNS), dtype=np.float32)
    with ReadAhead(rows).reading(np.concatenate([_addresses(elsewhere, [0, 3]), _addresses(rows, [5_000])])):
        assert rows[5_000, 0] == 5_000 * COLUMNS
    assert in_memory(rows).mean() < 0.1
    with ReadAhead(elsewhere).reading(_addresses(elsewhere, [0, 1])):
        assert elsewhere.sum() == 0
    with ReadAhead(rows).reading(np.empty(0, dtype=np.int64)):
        pass
