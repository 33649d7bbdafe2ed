"""BGL's partitioner (section 3.3): blocks by breadth-first search, assigned greedily, in memory linear in the nodes."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.partitioning.coarsen_kernels import block_edges, grow_blocks, merge_consecutive, merge_into_large
from a3gnn.graphs.partitioning.greedy_kernels import PartCapacity, assign
from a3gnn.seeding import generator

BlockAffinity = Literal["blocks", "edges"]

#: Sources of the search. Guess: the 111 M nodes of ogbn-papers100M then make blocks of BGL's 100,000 nodes.
_BLOCKS = 1024
#: Sources per part at least. Guess.
_BLOCKS_PER_PART = 64
#: Nodes per block at most: BGL, section 3.3.1.
_MAX_NODES = 100_000
#: Share of the blocks, by size, that are large: BGL, section 3.3.1, footnote 3.
_LARGE_SHARE = 0.1
#: Large blocks per source at most. Guess: on a power-law graph, searches that meet full blocks on all sides leave
#: millions of tiny blocks, so single nodes are among the largest tenth.
_MAX_LARGE_PER_SOURCE = 4
#: Nodes of a merged block at most, as a share of a part, because larger blocks can't be balanced over parts. Guess.
_MERGED_SHARE = 1 / 8


class Coarsening(NamedTuple):
    """A graph's nodes grouped into blocks.

    Attributes:
        block_of: Block of each node, int32, shape (num_nodes,).
        num_blocks: Number of blocks.
    """

    block_of: NDArray[np.int32]
    num_blocks: int


class BlockGraph(NamedTuple):
    """The undirected, weighted graph of blocks (BGL, section 3.3.1).

    Attributes:
        indptr: int64, shape (num_blocks + 1,).
        indices: Neighbor blocks of each block except itself, int32, ascending.
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


def block_parts(graph: GraphArrays, num_parts: int, seed: int, affinity: BlockAffinity = "blocks") -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,).

    In a directed graph, blocks grow from a node to its in-neighbors, as sampling does. Two blocks are neighbors if an
    edge joins them in either direction.

    Args:
        graph: In RAM or on disk.
        num_parts: From 1 to the number of nodes.
        seed: Seed of the sources of blocks and of the random merges.
        affinity: How the neighborhood of a block and a part is counted; see `greedy_parts`.
    """
    coarse = coarsen(graph, num_parts, seed)
    part_of_block = greedy_parts(BlockGraph.of(graph, coarse.block_of, coarse.num_blocks), num_parts, affinity)
    return part_of_block[coarse.block_of]


def coarsen(graph: GraphArrays, num_parts: int, seed: int) -> Coarsening:
    """Returns some thousands of blocks.

    Random sources claim unvisited in-neighbors, breadth first and all at once. A block is complete when it has
    num_nodes / 1024 nodes (100,000 at most; fewer with more than 16 parts) or no unvisited in-neighbor. The remaining
    nodes start new blocks. Blocks with the top 10 % of sizes are large, at most four per source. The other blocks
    merge, larger ones first, into the large block from which they have most edges, unless it would exceed an eighth of
    a part. Blocks without such a large block merge at random.

    Memory next to the graph is 12 bytes per node while blocks grow, then 8 per node and about 32 per block; a power-law
    graph has one block per three nodes. Rows of the graph are read in the order of the search, then block by block.

    Args:
        graph: In RAM or on disk.
        num_parts: Parts that the blocks will be assigned to.
        seed: Seed of the sources and of the random merges.
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


def greedy_parts(blocks: BlockGraph, num_parts: int, affinity: BlockAffinity = "blocks") -> NDArray[np.int32]:
    """Returns the part of each block, int32, shape (num_blocks,).

    Blocks are assigned one by one, by decreasing size, ties by id, each to the part i with the highest

        (1 + |P(i) ∩ (Γ¹(B) ∪ Γ²(B))|) * (1 - |P(i)| / C) * (1 - |T(i)| / C_T)

    |P(i)| and |T(i)| are the nodes and train nodes of part i, and C and C_T their means over the parts. The
    intersection counts blocks, as in BGL ("the set of j-hop neighbor blocks"), each once. Three choices are ours. The
    added 1 sends a block without assigned neighbors to the part with most room. A part that the block would overfill is
    skipped, because two negative factors would make a high score. A block that would overfill every part goes to the
    part with the least excess. Ties go to the lower part.

    Args:
        blocks: The block graph.
        num_parts: Number of parts.
        affinity: "blocks" is BGL's score; "edges" counts the edges to neighbor blocks instead, one hop only.
    """
    capacity = PartCapacity(*(max(float(sizes.sum()) / num_parts, 1.0) for sizes in (blocks.sizes, blocks.train_sizes)))
    order = np.argsort(-blocks.sizes, kind="stable")
    parts: NDArray[np.int32] = assign(
        blocks.indptr,
        blocks.indices,
        blocks.weights,
        blocks.sizes,
        blocks.train_sizes,
        order,
        capacity,
        num_parts,
        affinity == "edges",
    )
    return parts


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
    """Returns the block that each block merges into, int32, shape (num_blocks,); its own id if it does not merge."""
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
