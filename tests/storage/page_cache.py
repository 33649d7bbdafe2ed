"""Which pages of a memory-mapped file are in memory, asked of the system."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.mapping import mapping_of


def in_memory(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns which pages of the array's file are in memory, bool, shape (pages,)."""
    mapping = mapping_of(array)
    assert mapping is not None
    pages = np.zeros(-(-len(mapping) // mmap.PAGESIZE), dtype=np.uint8)
    begin = np.frombuffer(mapping, dtype=np.uint8).ctypes.data
    mincore = ctypes.CDLL(None, use_errno=True).mincore
    assert mincore(ctypes.c_void_p(begin), ctypes.c_size_t(len(mapping)), ctypes.c_void_p(pages.ctypes.data)) == 0
    return (pages & 1).astype(bool)
