"""Partitions, and the graph without the edges between parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import PARTITIONERS, Partitioner
from a3gnn.errors import GraphError, unknown_name
from a3gnn.graphs.arrays import GraphArrays, row_spans
from a3gnn.graphs.derived import noting_seconds, read_parts, read_rows, seconds_of_making, write_parts, write_rows
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partitioning.blocks import block_parts
from a3gnn.graphs.partitioning.metis import metis_parts
from a3gnn.seeding import generator

# Edges per comparison, so a graph of any size costs tens of MiB. Guess.
_EDGES_PER_PIECE = 1 << 23


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


_MAKERS: dict[Partitioner, Callable[[GraphArrays, int, int], NDArray[np.int32]]] = {
    "metis": metis_parts,
    "random": random_parts,
    "blocks": block_parts,
}


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

    Existing files count with their recorded seconds; without a record they are made once more.

    Args:
        graph: A graph on disk.
        num_parts: As for `partition`, and at least 2.
        seed: As for `partition`.
        partitioner: As for `partition`.

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
    for first, last in row_spans(graph.indptr, _EDGES_PER_PIECE):
        kept = np.concatenate([[0], np.cumsum(_within(graph, parts, first, last))])
        rows = graph.indptr[first : last + 1]
        indptr[first + 1 : last + 1] = np.diff(kept[rows - rows[0]])
    return np.cumsum(indptr)


def _kept_pieces(graph: GraphArrays, parts: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for first, last in row_spans(graph.indptr, _EDGES_PER_PIECE):
        yield graph.indices[graph.indptr[first] : graph.indptr[last]][_within(graph, parts, first, last)]
