"""`side_by_side`: neighbourhoods that were sampled independently, as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from a3gnn.sampling.subgraph import Subgraph


def side_by_side(parts: Sequence[Subgraph]) -> Subgraph:
    """Returns one neighbourhood that holds all `parts`, without an edge from one to another.

    Seeds are those of the parts, in order; `a3gnn.sampling.share.cut` gives each part back. A node that several parts
    reach is there several times.

    Args:
        parts: Of as many hops each, one at least, without ids of edges.
    """
    sizes = np.array([part.hop_sizes for part in parts])  # (n_parts, n_hops + 1)
    found = np.diff(sizes, axis=1, prepend=0)
    by_hop = found.T.ravel()  # nodes come hop by hop, and within a hop part by part
    begins = (np.cumsum(by_hop) - by_hop).reshape(found.T.shape).T
    places = [
        np.repeat(begin - known + new, new) + np.arange(known[-1])
        for begin, known, new in zip(begins, sizes, found, strict=True)
    ]
    n_id = np.empty(sizes[:, -1].sum(), dtype=np.int32)
    rows = [place[: len(part.indptr) - 1] for part, place in zip(parts, places, strict=True)]
    degrees = np.zeros(sum(map(len, rows)), dtype=np.int64)
    for part, place, row in zip(parts, places, rows, strict=True):
        n_id[place] = part.n_id
        degrees[row] = np.diff(part.indptr)
    indptr = np.zeros(len(degrees) + 1, dtype=np.int32)
    np.cumsum(degrees, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int32)
    for part, place, row in zip(parts, places, rows, strict=True):
        edges = np.repeat(indptr[row] - part.indptr[:-1], np.diff(part.indptr)) + np.arange(part.num_edges)
        indices[edges] = place[part.indices]
    return Subgraph(n_id, indptr, indices, tuple(sizes.sum(axis=0).tolist()))
