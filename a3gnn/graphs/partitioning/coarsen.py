"""Coarsening: nodes to blocks, and small blocks to large ones (BGL, section 3.3.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.partitioning.kernels import grow_blocks, merge_consecutive, merge_into_large
from a3gnn.seeding import generator

#: Sources. Guess: the 111 M nodes of ogbn-papers100M then make blocks of BGL's 100,000 nodes.
_BLOCKS = 1024
#: Sources per part at least. Guess.
_BLOCKS_PER_PART = 64
#: Nodes per block at most: BGL, section 3.3.1.
_MAX_NODES = 100_000
#: Share of the blocks, by size, that are large: BGL, section 3.3.1, footnote 3.
_LARGE_SHARE = 0.1
#: Large blocks per source at most. Guess: on a power-law graph, searches that meet full blocks on all sides leave
#: millions of tiny blocks, so that single nodes are among the largest tenth.
_MAX_LARGE_PER_SOURCE = 4
#: Nodes of a merged block at most, as a share of a part, so that parts can still be balanced. Guess.
_MERGED_SHARE = 1 / 8


class Coarsening(NamedTuple):
    """A graph's nodes grouped into blocks.

    Attributes:
        block_of: Block of each node, int32, shape (num_nodes,).
        num_blocks: Number of blocks.
    """

    block_of: NDArray[np.int32]
    num_blocks: int


def coarsen(graph: GraphArrays, num_parts: int, seed: int) -> Coarsening:
    """Returns some thousands of blocks.

    Random sources claim unvisited in-neighbours, breadth first and all at once, until each block has num_nodes / 1024
    nodes (100,000 at most; fewer with more than 16 parts) or no unvisited in-neighbour is left; remaining nodes start
    new blocks. Blocks with the top 10 % of sizes are large, at most four per source. The others merge, larger ones
    first, into the large block from which they have most edges, unless it would exceed an eighth of a part; those with
    no such block merge at random.

    Memory next to the graph is 12 bytes per node while blocks grow, then 8 per node and about 32 per block; a power-law
    graph has one block per three nodes. Rows of the graph are read in the order of the search, then block by block.

    Args:
        graph: Any graph.
        num_parts: Parts that the blocks are for.
        seed: Decides the sources and the random merges.
    """
    wanted = max(_BLOCKS, _BLOCKS_PER_PART * num_parts)
    max_nodes = min(max(graph.num_nodes // wanted, 1), _MAX_NODES)
    order = np.arange(graph.num_nodes, dtype=np.int32)
    generator(seed, "block sources").shuffle(order)
    block, sizes = grow_blocks(graph.indptr, graph.indices, order, graph.num_nodes // max_nodes, max_nodes)
    del order
    into = _merge(
        graph,
        block,
        sizes,
        max_nodes=max_nodes,
        num_large=_MAX_LARGE_PER_SOURCE * wanted,
        num_parts=num_parts,
        seed=seed,
    )
    kept = into == np.arange(len(into))
    label = (np.cumsum(kept) - 1).astype(np.int32)[into]
    return Coarsening(label[block], int(np.count_nonzero(kept)))


def _merge(
    graph: GraphArrays,
    block: NDArray[np.int32],
    sizes: NDArray[np.int32],
    *,
    max_nodes: int,
    num_large: int,
    num_parts: int,
    seed: int,
) -> NDArray[np.int32]:
    """Returns the block that each block merges into, int32, shape (num_blocks,); its own id where it does not merge."""
    by_size = np.argsort(-sizes, kind="stable").astype(np.int32)
    large = by_size[: min(int(np.ceil(_LARGE_SHARE * len(sizes))), num_large)]
    into = np.full(len(sizes), -1, dtype=np.int32)
    into[large] = large
    capacity = graph.num_nodes / num_parts
    max_merged = max(max_nodes, int(_MERGED_SHARE * capacity))
    merge_into_large(graph.indptr, graph.indices, block, sizes, by_size[len(large) :], max_merged, into)
    rest = np.flatnonzero(into < 0).astype(np.int32)
    generator(seed, "block merges").shuffle(rest)
    merge_consecutive(sizes, rest, max_nodes, into)
    return into
