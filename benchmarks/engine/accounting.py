"""The random reads of a sampler, those that it cannot avoid, and the time that they take at the machine's limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_ENTRIES_PER_LINE = 16  # int32 in a cache line of 64 bytes


class Reads(NamedTuple):
    """Random reads of one mini-batch.

    Attributes:
        pointers: Reads of `indptr`: one per row, since a row's two pointers are adjacent.
        slots: Reads of `indices`.
        relabel: Reads of the map from global to local ids.
    """

    pointers: float
    slots: float
    relabel: float


def issued_reads(picks: NDArray[np.int64], num_nodes: int) -> Reads:
    """Returns the reads of sampling: a slot and a look-up per pick, and clearing each node's entry in the map.

    Args:
        picks: In-neighbours sampled of each row, shape (num_rows,).
        num_nodes: Distinct nodes of the mini-batch.
    """
    total = float(picks.sum())
    return Reads(float(len(picks)), total, total + num_nodes)


def unavoidable_lines(degrees: NDArray[np.int64], picks: NDArray[np.int64], num_nodes: int) -> Reads:
    """Returns the distinct cache lines that a mini-batch needs, `picks` of `degrees` in-neighbours per row.

    All lines of a row that is taken whole; else `picks` random ones among `lines` lines touch
    `lines * (1 - (1 - 1 / lines) ** picks)` of them on average. Of the map each node when it is first met and when
    it is cleared.
    """
    lines = np.ceil(degrees / _ENTRIES_PER_LINE)
    safe = np.maximum(lines, 1)
    touched = np.where(picks >= degrees, lines, safe * (1 - (1 - 1 / safe) ** picks))
    return Reads(float(len(degrees)), float(touched.sum()), 2.0 * num_nodes)


def least_seconds(reads: Reads, rates: Reads) -> float:
    """Returns the seconds that `reads` take where each array's random reads run at the limit measured for its size."""
    return reads.pointers / rates.pointers + reads.slots / rates.slots + reads.relabel / rates.relabel
