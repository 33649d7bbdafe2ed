"""Compiled kernel of the hardware probe; it releases the GIL."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def random_reads(table: NDArray[np.int32], reads: int, seed: np.uint64) -> np.int64:
    """Returns the sum of `reads` entries of `table` at independent pseudo-random places; its size is a power of two."""
    mask = np.uint64(len(table) - 1)
    state, total = seed, np.int64(0)
    for _ in range(reads):
        # Knuth's MMIX generator; its high bits are the random ones.
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        total += table[(state >> np.uint64(33)) & mask]
    return total
