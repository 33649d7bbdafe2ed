"""Kernels of `rank_pairs`: counts of competitors above a pair and beside it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit

#: Start of each query's candidates, and the candidates.
Lists: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


@njit(cache=True, nogil=True)
def pick(
    scores: NDArray[Any],
    first: int,
    owners: NDArray[np.int64],
    targets: NDArray[np.int64],
    own: NDArray[np.float64],
) -> None:
    """Writes the score of each pair whose candidate is in the block to `own`."""
    for pair in range(len(owners)):
        place = targets[pair] - first
        if 0 <= place < scores.shape[1]:
            own[pair] = scores[owners[pair], place]


@njit(cache=True, nogil=True)
def add_competitors(
    scores: NDArray[Any],
    first: int,
    owners: NDArray[np.int64],
    targets: NDArray[np.int64],
    own: NDArray[np.float64],
    excluded: tuple[Lists, Lists],
    ranks: NDArray[np.float64],
) -> None:
    """Adds the candidates of a block that are above each pair, and half of those beside it, to its ranks.

    Args:
        scores: Of the block, shape (num_queries, num_candidates).
        first: The block's first candidate.
        owners: The query of each pair.
        targets: The candidate of each pair, which is no competitor.
        own: The score of each pair.
        excluded: Candidates that are no competitors for the filtered rank: the true and the known ones; and for the
            other rank: the known ones.
        ranks: Filtered and among the true ones, shape (2, num_pairs).
    """
    for pair in range(len(owners)):
        owner, mine, target = owners[pair], own[pair], targets[pair] - first
        row = scores[owner]
        above, beside = 0, 0
        for place in range(len(row)):
            above += row[place] > mine
            beside += row[place] == mine
        for kind in range(2):
            indptr, ids = excluded[kind]
            higher, equal, is_out = above, beside, False
            for at in range(indptr[owner], indptr[owner + 1]):
                place = ids[at] - first
                is_out |= place == target
                if 0 <= place < len(row):
                    higher -= row[place] > mine
                    equal -= row[place] == mine
            if not is_out and 0 <= target < len(row):
                equal -= 1
            ranks[kind, pair] += higher + 0.5 * equal
