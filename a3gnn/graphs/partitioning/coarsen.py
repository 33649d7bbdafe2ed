"""Coarsening: every node to a block, and blocks to larger ones (BGL, section 3.3.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.partitioning.kernels import grow_blocks, merge_in_turn, merge_into_large
from a3gnn.seeding import generator

# On the 111 M nodes of ogbn-papers100M a thousand blocks have BGL's 100,000 nodes each.
_BLOCKS = 1024
_BLOCKS_A_PART = 64
_MOST_NODES = 100_000
_LARGE_SHARE = 0.1
# Large blocks for each source: searches hemmed in by full blocks leave millions of scraps on a power-law graph, a tenth
# of which are large by no other measure.
_MOST_LARGE = 4
# Merged blocks that are this small a share of a part can still be dealt out evenly.
_MERGED_SHARE = 1 / 8


def coarsen(graph: GraphArrays, num_parts: int, seed: int) -> tuple[NDArray[np.int32], int]:
    """Returns the block of each node, int32, shape (num_nodes,), and the number of blocks, some thousands.

    Random sources claim unvisited in-neighbours, breadth first and all together, until each block has num_nodes / 1024
    nodes (100,000 at most; fewer where there are more than 16 parts) or is hemmed in; nodes that are left start new
    blocks. Blocks with the top 10 % of sizes are large, four times the sources at most. The others merge, larger ones
    first, into the large block that sends them most edges, unless that would pass an eighth of a part; those that touch
    no such block merge at random.

    It takes 12 bytes a node beside the graph while blocks grow, then 8 a node and about 32 a block, of which a
    power-law graph has one for three nodes. Rows of the graph are read in the order of the search, then block by block.

    Args:
        graph: Any graph.
        num_parts: Parts that the blocks are for.
        seed: Decides the sources and what merges at random.
    """
    wanted = max(_BLOCKS, _BLOCKS_A_PART * num_parts)
    most = min(max(graph.num_nodes // wanted, 1), _MOST_NODES)
    order = np.arange(graph.num_nodes, dtype=np.int32)
    generator(seed, "block sources").shuffle(order)
    block, sizes = grow_blocks(graph.indptr, graph.indices, order, graph.num_nodes // most, most)
    del order
    into = _merge(graph, block, sizes, most=most, num_large=_MOST_LARGE * wanted, num_parts=num_parts, seed=seed)
    kept = into == np.arange(len(into))
    label = (np.cumsum(kept) - 1).astype(np.int32)[into]
    return label[block], int(np.count_nonzero(kept))


def _merge(
    graph: GraphArrays,
    block: NDArray[np.int32],
    sizes: NDArray[np.int32],
    *,
    most: int,
    num_large: int,
    num_parts: int,
    seed: int,
) -> NDArray[np.int32]:
    """Returns the block that each block becomes part of, int32, shape (num_blocks,); its own id where it stays."""
    by_size = np.argsort(-sizes, kind="stable").astype(np.int32)
    large = by_size[: min(int(np.ceil(_LARGE_SHARE * len(sizes))), num_large)]
    into = np.full(len(sizes), -1, dtype=np.int32)
    into[large] = large
    capacity = graph.num_nodes / num_parts
    most_merged = max(most, int(_MERGED_SHARE * capacity))
    merge_into_large(graph.indptr, graph.indices, block, sizes, by_size[len(large) :], most_merged, into)
    rest = np.flatnonzero(into < 0).astype(np.int32)
    generator(seed, "block merges").shuffle(rest)
    merge_in_turn(sizes, rest, most, into)
    return into
