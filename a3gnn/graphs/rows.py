"""Rows of CSR arrays: all of them in pieces, and where the entries of some lie."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def row_spans(indptr: NDArray[np.integer], most: int, most_rows: int = sys.maxsize) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows, in order, that hold `most` entries at most, or of one row that holds more.

    Args:
        indptr: Where each row begins and the last one ends, shape (n_rows + 1,).
        most: Entries per range.
        most_rows: Rows per range.
    """
    first, rows = 0, len(indptr) - 1
    while first < rows:
        reach = int(np.searchsorted(indptr, int(indptr[first]) + most, side="right")) - 1
        last = min(max(first + 1, reach), first + most_rows)
        yield first, last
        first = last


def row_slots(indptr: NDArray[np.int64], ids: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the rows `ids` as a CSR of their own: its indptr, and where each entry lies in the whole; both int64."""
    starts = indptr[ids]
    counts = indptr[ids.astype(np.int64) + 1] - starts
    own = np.concatenate([[0], np.cumsum(counts)])
    return own, np.arange(own[-1]) + np.repeat(starts - own[:-1], counts)
