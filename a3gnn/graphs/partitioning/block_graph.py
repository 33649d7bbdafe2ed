"""`BlockGraph`: the coarsened graph, with one node per block."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.partitioning.kernels import block_edges


class BlockGraph(NamedTuple):
    """The undirected, weighted graph of blocks (BGL, section 3.3.1).

    Attributes:
        indptr: int64, shape (num_blocks + 1,).
        indices: Neighbours of each block, itself excepted, int32, ascending.
        weights: Edges of the original graph between the two blocks, in both directions, int64.
        sizes: Nodes of each block, int32, shape (num_blocks,).
        train_sizes: Train nodes of each block, int64, shape (num_blocks,).
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.int64]
    sizes: NDArray[np.int32]
    train_sizes: NDArray[np.int64]

    @classmethod
    def of(cls, graph: GraphArrays, block: NDArray[np.int32], num_blocks: int) -> Self:
        """Returns the graph of `num_blocks` blocks; node v is in `block[v]`."""
        sizes = np.bincount(block, minlength=num_blocks).astype(np.int32)
        train_sizes = np.bincount(block[graph.train_ids], minlength=num_blocks)
        indptr, indices, weights = block_edges(graph.indptr, graph.indices, block, sizes)
        one_way = csr_array((weights, indices, indptr), shape=(num_blocks, num_blocks))
        # Reversing the block graph is cheap; reversing the graph would cost as much memory as the graph.
        both_ways = (one_way + one_way.T).tocsr()
        both_ways.sort_indices()
        return cls(
            both_ways.indptr.astype(np.int64),
            both_ways.indices.astype(np.int32),
            both_ways.data.astype(np.int64),
            sizes,
            train_sizes.astype(np.int64),
        )
