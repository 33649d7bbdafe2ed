"""Predictions without a model, of pairs from known pairs and of nodes from known labels: what a model must beat."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from a3gnn.evaluation.ranking import Score, checked_pairs

#: Steps of label propagation, and the share of a label that comes from neighbors at each: Zhou et al. 2003 take 0.99;
#: with 0.9, labels from further away than these steps weigh less than 1%.
_STEPS, _FROM_NEIGHBORS = 50, 0.9


def popularity(known: Any, num_candidates: int) -> Score:
    """Returns the score of a candidate by its number of known pairs, the same for each query.

    Args:
        known: Queries and candidates, integers, shape (2, num_pairs), such as the train edges; repeats count.
        num_candidates: Candidates.
    """
    counts = torch.from_numpy(np.bincount(checked_pairs("known", known, num_candidates)[1], minlength=num_candidates))
    return lambda queries, candidates: counts[candidates].expand(len(queries), -1)


def repetition(known: Any, num_queries: int, num_candidates: int) -> Score:
    """Returns the score of a pair by how often it is known, and by popularity among equals.

    The first part is EdgeBank with counts (Poursafaei et al. 2022, section 4). `known` is as in `popularity`.
    """
    counts, popular = _counts(known, num_queries, num_candidates), popularity(known, num_candidates)
    most = counts.sum() + 1.0

    def score(queries: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        seen = torch.from_numpy(_dense(counts[queries.numpy()], candidates))
        return torch.add(seen, popular(queries, candidates), alpha=1 / most)

    return score


def item_neighbors(known: Any, num_queries: int, num_candidates: int) -> Score:
    """Returns the score of a pair by the cosine similarity of its candidate to those that its query is known with.

    Two candidates are similar if they have many queries in common (Sarwar et al. 2001, section 3.1.1, for 0 and 1).
    `known` is as in `popularity`; repeats count once.
    """
    counts = _counts(known, num_queries, num_candidates)
    counts.data[:] = 1
    degrees = np.maximum(counts.sum(axis=0), 1)
    scaled = csr_array(counts @ diags_array(1 / np.sqrt(degrees)))

    def score(queries: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        common = counts[queries.numpy()] @ scaled.T  # queries by queries, by the candidates that they share
        return torch.from_numpy(_dense(common @ scaled, candidates))

    return score


def label_propagation(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], known: NDArray[np.float32], ids: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Returns the mean of known labels around each node, which weigh less the further away they are.

    The weights are those of Zhou et al. 2003 (Learning with Local and Global Consistency, section 2). Nodes that no
    label reaches get the mean of all.

    Args:
        indptr: Begins of the nodes' in-neighbors, shape (num_nodes + 1,).
        indices: The in-neighbors, shape (num_edges,).
        known: Labels of the nodes `ids`, float32, shape (n, columns), such as a column per class with 0 and 1.
        ids: Distinct nodes, at least one.

    Returns:
        float32, shape (num_nodes, columns).
    """
    size = len(indptr) - 1
    edges = csr_array((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=(size, size))
    scale = 1 / np.sqrt(np.maximum(np.diff(indptr), 1)).astype(np.float32)[:, None]
    begin = np.zeros((size, known.shape[1] + 1), dtype=np.float32)
    begin[ids, :-1], begin[ids, -1] = known, 1  # the last column counts, with the same weights
    sums = begin
    for _ in range(_STEPS):
        sums = scale * (edges @ (scale * sums))
        sums *= _FROM_NEIGHBORS
        sums += begin
    reached = sums[:, -1:] > 0
    means: NDArray[np.float32] = np.divide(sums[:, :-1], sums[:, -1:], where=reached, out=sums[:, :-1])
    return np.where(reached, means, known.mean(axis=0))


def _counts(known: Any, num_queries: int, num_candidates: int) -> csr_array:
    queries, candidates = checked_pairs("known", known, num_candidates)
    shape = max(num_queries, int(queries.max(initial=-1)) + 1), num_candidates
    return csr_array((np.ones(len(queries)), (queries, candidates)), shape=shape)


def _dense(rows: csr_array, candidates: torch.Tensor) -> NDArray[np.float64]:
    """Returns the columns `candidates`, which are consecutive, of `rows`."""
    found: NDArray[np.float64] = rows[:, int(candidates[0]) : int(candidates[-1]) + 1].toarray()
    return found
