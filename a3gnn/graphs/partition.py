"""Partitions by METIS, by BGL's blocks or at random, and the graph without the edges between parts.

METIS makes parts with few edges between them, for graphs whose adjacency fits in RAM several times over. BGL grows
blocks of nodes and assigns them to parts greedily, in memory linear in the nodes (BGL, section 3.3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from a3gnn.config import PARTITIONERS, Partitioner
from a3gnn.errors import GraphError, MemoryLimitError, unknown_name
from a3gnn.graphs.arrays import GraphArrays, row_spans
from a3gnn.graphs.derived import noting_seconds, read_parts, read_rows, seconds_of_making, write_parts, write_rows
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition_kernels import (
    PartCapacity,
    assign,
    block_edges,
    grow_blocks,
    merge_consecutive,
    merge_into_large,
)
from a3gnn.seeding import generator
from a3gnn.storage.npy import PIECE

# METIS seeds C's srand, for which 0 and 1 are the same seed.
_NUM_SEEDS = 2**31 - 2
BlockAffinity = Literal["blocks", "edges"]
#: Sources of the search: the 111 M nodes of ogbn-papers100M then make blocks of BGL's 100,000 nodes.
_BLOCKS = 1024
#: Sources per part at least. Guess.
_BLOCKS_PER_PART = 64
#: Nodes per block at most: BGL, section 3.3.1.
_MAX_NODES = 100_000
#: Share of the blocks, by size, that are large: BGL, section 3.3.1, footnote 3.
_LARGE_SHARE = 0.1
#: Large blocks per source at most (docs/design/partitioning.md). On power-law graphs, searches that meet full blocks on
#: all sides leave millions of tiny blocks, so single nodes are among the largest tenth.
_MAX_LARGE_PER_SOURCE = 4
#: Nodes of a merged block at most, as a share of a part, because larger blocks can't be balanced over parts.
_MERGED_SHARE = 1 / 8


def partition(graph: Graph, num_parts: int, seed: int = 0, partitioner: Partitioner = "metis") -> NDArray[np.int32]:
    """Returns the part of each node, int32 in [0, num_parts), shape (num_nodes,).

    METIS cuts fewest edges and needs memory for several copies of the adjacency. Blocks are BGL's, in memory linear in
    the nodes, with even train nodes. Random parts are the most even. For a graph on disk, the result is stored beside
    its files.

    Args:
        graph: In RAM or on disk.
        num_parts: From 1 to the number of nodes.
        seed: The partitioner's seed.
        partitioner: One of PARTITIONERS.

    Raises:
        GraphError: `num_parts` is out of range, or the file beside the graph can't be written or is damaged.
        MemoryLimitError: There is too little memory for METIS.
        UsageError: The partitioner is unknown.
    """
    if partitioner not in _MAKERS:
        raise unknown_name("partitioner", partitioner, PARTITIONERS)
    if not 1 <= num_parts <= graph.num_nodes:
        raise GraphError(
            f"num_partitions must be in [1, {graph.num_nodes}] (the nodes of {graph.name}), got {num_parts}; "
            "1 trains on the whole graph"
        )
    if num_parts == 1:
        return np.zeros(graph.num_nodes, dtype=np.int32)
    if graph.folder is None:
        return _MAKERS[partitioner](graph, num_parts, seed)
    kept = _parts_file(graph, num_parts, seed, partitioner)
    if not kept.exists():
        _make_parts(graph, num_parts, seed, partitioner)
    return read_parts(graph, kept, num_parts)


def restrict_to_parts(graph: Graph, parts: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Returns the adjacency without edges between parts.

    For a graph on disk both arrays are memory maps of files beside it, written once for each `parts`.

    Args:
        graph: In RAM or on disk.
        parts: Part of each node, int32, shape (num_nodes,).

    Returns:
        indptr, int64, shape (num_nodes + 1,), and indices, int32, ascending in each row.

    Raises:
        GraphError: The files can't be written, or are damaged.
    """
    if graph.folder is None:
        return _restricted_indptr(graph, parts), np.concatenate(list(_kept_pieces(graph, parts)))
    folder = _rows_folder(graph, parts)
    if not folder.exists():
        _make_rows(graph, parts)
    return read_rows(graph, folder)


def partition_seconds(graph: Graph, num_parts: int, seed: int = 0, partitioner: Partitioner = "metis") -> float:
    """Returns the seconds to make the parts and the adjacency within them, which lie beside the graph afterwards.

    Existing files count with their recorded seconds; without a record they are made once more. Arguments are those of
    `partition`, with two parts or more.

    Raises:
        GraphError: As in `partition` and `restrict_to_parts`.
        MemoryLimitError: There is too little memory for METIS.
        UsageError: The partitioner is unknown.
    """
    parts = partition(graph, num_parts, seed, partitioner)
    restrict_to_parts(graph, parts)
    made = (
        (_parts_file(graph, num_parts, seed, partitioner), partial(_make_parts, graph, num_parts, seed, partitioner)),
        (_rows_folder(graph, parts), partial(_make_rows, graph, parts)),
    )
    return sum(seconds_of_making(path, make) for path, make in made)


def _make_parts(graph: Graph, num_parts: int, seed: int, partitioner: Partitioner) -> None:
    kept = _parts_file(graph, num_parts, seed, partitioner)
    with noting_seconds(graph, kept):
        write_parts(graph, kept, _MAKERS[partitioner](graph, num_parts, seed))


def _make_rows(graph: Graph, parts: NDArray[np.int32]) -> None:
    folder = _rows_folder(graph, parts)
    with noting_seconds(graph, folder):
        write_rows(graph, folder, _restricted_indptr(graph, parts), _kept_pieces(graph, parts))


def _parts_file(graph: Graph, num_parts: int, seed: int, partitioner: Partitioner) -> Path:
    # METIS's files have no suffix, because they are older than the other partitioners.
    suffix = "" if partitioner == "metis" else f"-{partitioner}"
    return graph.derived(f"parts-{num_parts}-seed-{seed}{suffix}.npy")


def _rows_folder(graph: Graph, parts: NDArray[np.int32]) -> Path:
    return graph.derived(f"within-{hashlib.blake2b(np.ascontiguousarray(parts).data, digest_size=8).hexdigest()}")


def _within(graph: GraphArrays, parts: NDArray[np.int32], first: int, last: int) -> NDArray[np.bool_]:
    """Returns which edges into rows [first, last) stay within a part, bool, shape (number of these edges,)."""
    indptr = graph.indptr[first : last + 1]
    same: NDArray[np.bool_] = (
        np.repeat(parts[first:last], np.diff(indptr)) == parts[graph.indices[indptr[0] : indptr[-1]]]
    )
    return same


def _restricted_indptr(graph: GraphArrays, parts: NDArray[np.int32]) -> NDArray[np.int64]:
    indptr = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    for first, last in row_spans(graph.indptr, PIECE):
        kept = np.concatenate([[0], np.cumsum(_within(graph, parts, first, last))])
        rows = graph.indptr[first : last + 1]
        indptr[first + 1 : last + 1] = np.diff(kept[rows - rows[0]])
    return np.cumsum(indptr)


def _kept_pieces(graph: GraphArrays, parts: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for first, last in row_spans(graph.indptr, PIECE):
        yield graph.indices[graph.indptr[first] : graph.indptr[last]][_within(graph, parts, first, last)]


def random_parts(graph: GraphArrays, num_parts: int, seed: int) -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,), drawn at random.

    Parts differ by at most one in their nodes and by at most one in their train nodes.
    """
    rng = generator(seed, "random parts")
    is_train = np.zeros(graph.num_nodes, dtype=np.bool_)
    is_train[graph.train_ids] = True
    parts = np.empty(graph.num_nodes, dtype=np.int32)
    dealt = 0
    for mask in (is_train, ~is_train):
        nodes = np.flatnonzero(mask).astype(np.int32)
        rng.shuffle(nodes)
        # The other nodes continue round-robin after the last train node's part.
        parts[nodes] = np.arange(dealt, dealt + len(nodes), dtype=np.int32) % num_parts
        dealt += len(nodes)
    return parts


def metis_seed(seed: int) -> int:
    """Returns the seed for METIS, in [1, 2**31 - 2], from any `seed` >= 0."""
    return seed % _NUM_SEEDS + 1


def symmetrised(graph: GraphArrays) -> csr_array:
    """Returns the graph in METIS's form: each edge once in both directions, and no self loops."""
    targets = np.repeat(np.arange(graph.num_nodes, dtype=np.int32), np.diff(graph.indptr))
    proper = targets != graph.indices  # METIS takes no self loops
    ones = np.ones(np.count_nonzero(proper), dtype=np.int8)
    one_way = coo_array((ones, (targets[proper], graph.indices[proper])), shape=(graph.num_nodes,) * 2).tocsr()
    return one_way + one_way.T.tocsr()


def out_of_memory(graph: GraphArrays, error: Exception, instead: str) -> MemoryLimitError:
    """Returns the error for METIS, or the preparation of its input, out of memory; `instead` names an alternative."""
    return MemoryLimitError(
        f"METIS needs several copies of the {graph.num_edges:,} edges of {graph.name} in RAM, and memory ran out "
        f"({error}); {instead}, or partition the graph on a larger machine"
    )


def metis_parts(graph: GraphArrays, num_parts: int, seed: int) -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,), cutting few edges of the symmetrised graph.

    Raises:
        MemoryLimitError: Memory ran out, for our copies of the adjacency or for METIS's.
    """
    try:
        return cut_by_metis(symmetrised(graph), num_parts, seed)
    except (MemoryError, RuntimeError) as error:  # on a valid graph, METIS raises for lack of memory only
        raise out_of_memory(graph, error, "partitioner 'blocks' needs a few bytes per node") from error


def cut_by_metis(both_ways: csr_array, num_parts: int, seed: int) -> NDArray[np.int32]:
    """Returns the part of each node of a symmetrised graph, int32, shape (num_nodes,).

    Raises:
        MemoryError: Memory ran out.
        RuntimeError: It ran out in METIS.
    """
    import pymetis

    _, parts = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(both_ways.indptr, both_ways.indices),
        options=pymetis.Options(seed=metis_seed(seed)),
    )
    return np.asarray(parts, dtype=np.int32)


class Coarsening(NamedTuple):
    """A graph's nodes grouped into blocks."""

    block_of: NDArray[np.int32]  # block of each node, int32, shape (num_nodes,)
    num_blocks: int


class BlockGraph(NamedTuple):
    """The undirected, weighted graph of blocks (BGL, section 3.3.1)."""

    indptr: NDArray[np.int64]  # int64, shape (num_blocks + 1,)
    indices: NDArray[np.int32]  # neighbor blocks of each block except itself, int32, ascending
    weights: NDArray[np.int64]  # edges of the original graph between the two blocks, in both directions, int64
    sizes: NDArray[np.int32]  # nodes of each block, int32, shape (num_blocks,)
    train_sizes: NDArray[np.int64]  # train nodes of each block, int64, shape (num_blocks,)

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
    added 1 sends a block without assigned neighbors to the part with most room. A part that the block would overfill
    is skipped, because two negative factors would make a high score. A block that would overfill every part goes to the
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


#: The function of each partitioner; it takes the graph, the number of parts and a seed.
_MAKERS: dict[Partitioner, Callable[[GraphArrays, int, int], NDArray[np.int32]]] = {
    "metis": metis_parts,
    "random": random_parts,
    "blocks": block_parts,
}
