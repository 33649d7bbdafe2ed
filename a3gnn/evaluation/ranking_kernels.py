"""Kernels of `rank_pairs`: counts of competitors above a pair and beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


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
    true_indptr: NDArray[np.int64],
    true_ids: NDArray[np.int64],
    known_indptr: NDArray[np.int64],
    known_ids: NDArray[np.int64],
    ranks: NDArray[np.float64],
) -> None:
    """Adds the candidates of a block that are above each pair, and half of those beside it, to its ranks.

    Args:
        scores: Of the block, shape (num_queries, num_candidates).
        first: The block's first candidate.
        owners: The query of each pair.
        targets: The candidate of each pair, which is no competitor.
        own: The score of each pair.
        true_indptr: Of the true and known candidates, by query, which are no competitors for the filtered rank.
        true_ids: These candidates.
        known_indptr: Of the known candidates, by query, which are no competitors for either rank.
        known_ids: These candidates.
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
            indptr, ids = (true_indptr, true_ids) if kind == 0 else (known_indptr, known_ids)
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
