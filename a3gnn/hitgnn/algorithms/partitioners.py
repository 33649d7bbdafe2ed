"""The partitioners of DistDGL (Zheng et al., 2020) and of PaGraph (Lin et al., 2020).

DistDGL's is METIS, balanced in nodes and in train nodes. `pymetis.part_graph` has one constraint: given two weights per
node, it uses the first half of the array for all nodes, without an error. The METIS library below it has more
constraints, and is called here by ctypes. PaGraph's assigns train nodes greedily, each with its in-neighborhood.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import cut_by_metis, metis_seed, out_of_memory, symmetrised
from a3gnn.graphs.partition_kernels import cut_edges
from a3gnn.hitgnn.algorithms.partitioning_kernels import deal_out, move_excess
from a3gnn.seeding import generator

# From METIS 5's metis.h: the number of options, and the status codes of success and of too little memory.
_NUM_OPTIONS, _OK, _NO_MEMORY = 40, 1, -3
# METIS bisects up to this many parts, as pymetis does and METIS's manual advises; beyond, it cuts k ways at once.
_MOST_BISECTED = 8
_FUNCTIONS = "METIS_PartGraphRecursive", "METIS_PartGraphKway"
#: Most nodes of a part, in percent of the mean.
_PERCENT = 105
# Least nodes per part; with fewer, METIS may get a graph without nodes to bisect. Guess.
_LEAST_PER_PART = 8


def distdgl_partition(graph: Graph, parts: int, seed: int = 0) -> NDArray[np.int32]:
    """Returns the part of each node, int32 in [0, parts), shape (num_nodes,), cutting few edges.

    No part has more than 1.05 times the mean of the nodes, or of the train nodes. If that is below the mean rounded up
    (fewer than 20 per part), the mean rounded up is the limit. Three train nodes over two parts are two and one. With
    fewer train nodes than parts, some parts have none.

    METIS cuts twice: once with two weights per node, 1 and whether it is a train node (DistDGL's "multi-constraint"),
    and once without weights. It may miss bounds. In each result, nodes then move at the least cost in cut edges until
    both bounds hold (`balanced`), and the result with fewer cut edges is returned. If pymetis hides its library's
    symbols, METIS cuts only once, without weights. Both directions of an edge count alike, and self-loops do not count.
    Parts of fewer than 8 nodes, too small for METIS, start as consecutive nodes.

    METIS needs memory for the edges several times over. Deterministic given graph, parts, seed and METIS's version.

    Args:
        graph: Any graph.
        parts: From 1 to the number of nodes.
        seed: METIS's seed.

    Raises:
        UsageError: `parts` is out of range.
        MemoryLimitError: There is too little memory for METIS.
    """
    check_parts(graph, parts)
    if parts == 1:
        return np.zeros(graph.num_nodes, dtype=np.int32)
    is_train = np.zeros(graph.num_nodes, dtype=np.bool_)
    is_train[graph.train_ids] = True
    try:
        both_ways = symmetrised(graph)
        found = [balanced(both_ways, cut, is_train, parts) for cut in _cuts(both_ways, is_train, parts, seed)]
    except (MemoryError, RuntimeError) as error:  # on a valid graph, METIS raises only for lack of memory
        raise out_of_memory(graph, error, "algorithm 'pagraph' needs some bytes per node") from error
    return min(found, key=lambda one: cut_edges(graph.indptr, graph.indices, one))


def _cuts(both_ways: csr_array, is_train: NDArray[np.bool_], parts: int, seed: int) -> Iterator[NDArray[np.int32]]:
    num_nodes = len(is_train)
    if num_nodes < _LEAST_PER_PART * parts:
        yield (np.arange(num_nodes) * parts // num_nodes).astype(np.int32)
        return
    if has_two_constraints() and is_train.any():
        yield two_constraint_parts(both_ways, is_train, parts, seed)
    yield cut_by_metis(both_ways, parts, seed)


def balanced(
    both_ways: csr_array, parts: NDArray[np.int32], is_train: NDArray[np.bool_], num_parts: int
) -> NDArray[np.int32]:
    """Returns `parts` with nodes moved until no part exceeds `part_limit` in nodes or in train nodes.

    Train nodes move first. Then other nodes move, which leaves train nodes as they are. The node whose move adds the
    fewest cut edges goes next, to the part that has room and most of its neighbors. A part within both limits loses no
    node, so balanced parts are returned as they are.

    This always succeeds: a part with too many nodes has some that are no train nodes, and some part has room.
    O((nodes + edges of moved nodes) log nodes) time.

    Args:
        both_ways: The symmetrized graph.
        parts: Part of each node, int32, shape (num_nodes,); not changed.
        is_train: Whether each node is a train node, bool, same shape.
        num_parts: Number of parts.
    """
    moved = parts.copy()
    for movable, counted in ((is_train, is_train), (~is_train, np.ones_like(is_train))):
        held = np.bincount(moved[counted], minlength=num_parts)
        limit = part_limit(int(counted.sum()), num_parts)
        if held.max() > limit:
            move_excess(both_ways.indptr.astype(np.int64), both_ways.indices, movable, limit, moved, held)
    return moved


def part_limit(total: int, num_parts: int) -> int:
    """Returns the most of `total` nodes that a part may have: 1.05 times the mean, or the mean rounded up if larger.

    Below 20 per part the second is larger: three train nodes over two parts are two and one.
    """
    return max(_PERCENT * total // (100 * num_parts), -(-total // num_parts))


def has_two_constraints() -> bool:
    """Returns whether METIS's functions can be called; some builds of pymetis hide their symbols."""
    return _library() is not None


def two_constraint_parts(
    both_ways: csr_array, is_train: NDArray[np.bool_], num_parts: int, seed: int
) -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,), by METIS with two weights per node.

    METIS aims at no more than 1.03 times the mean in both, and does not always reach it.

    Args:
        both_ways: The symmetrized graph.
        is_train: Whether each node is a train node, shape (num_nodes,); at least one is.
        num_parts: At least 2.
        seed: METIS's seed.

    Raises:
        MemoryError: METIS had too little memory.
        RuntimeError: METIS refused the graph.
    """
    library = _library()
    assert library is not None
    internal = _internal()
    width = np.dtype(np.int64 if internal._idx_type_width() == 64 else np.int32)
    num_nodes = len(is_train)
    options = np.empty(_NUM_OPTIONS, dtype=width)
    library.METIS_SetDefaultOptions(_pointer(options))
    options[int(internal.options_indices.SEED)] = metis_seed(seed)
    weights = np.stack([np.ones(num_nodes, dtype=width), is_train.astype(width)], axis=1)
    starts, neighbors = both_ways.indptr.astype(width), both_ways.indices.astype(width)
    counts = [np.array([count], dtype=width) for count in (num_nodes, weights.shape[1], num_parts)]
    cut, parts = np.empty(1, dtype=width), np.empty(num_nodes, dtype=width)
    nodes, constraints, wanted = map(_pointer, counts)
    inputs = (nodes, constraints, _pointer(starts), _pointer(neighbors), _pointer(weights))
    status = getattr(library, _FUNCTIONS[num_parts > _MOST_BISECTED])(
        *inputs, None, None, wanted, None, None, _pointer(options), _pointer(cut), _pointer(parts)
    )
    if status == _NO_MEMORY:
        raise MemoryError("METIS could not allocate")
    if status != _OK:
        raise RuntimeError(f"METIS refused the graph with status {status}")
    return parts.astype(np.int32)


@cache
def _library() -> ctypes.CDLL | None:
    library = ctypes.CDLL(_internal().__file__)
    return library if all(hasattr(library, name) for name in _FUNCTIONS) else None


def _internal() -> Any:
    return import_module("pymetis._internal")


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class PaGraphParts(NamedTuple):
    """PaGraph's partition, in which a node may be in several parts.

    Attributes:
        home: Part of each node, int32 in [0, parts), shape (num_nodes,): a train node's own part; another node's first
            part with a train node that reaches it. Nodes that no train node reaches fill the parts with the fewest
            homes.
        sizes: |PV_i|, the number of nodes that part i needs, other parts' homes included, int64, shape (parts,).
    """

    home: NDArray[np.int32]
    sizes: NDArray[np.int64]


def pagraph_partition(graph: Graph, parts: int, seed: int = 0, hops: int = 2) -> NDArray[np.int32]:
    """Returns the part of each node, int32 in [0, parts), shape (num_nodes,): `home` of `pagraph_parts`.

    Raises:
        UsageError: `parts` or `hops` is out of range.
    """
    return pagraph_parts(graph, parts, seed, hops).home


def pagraph_parts(graph: Graph, parts: int, seed: int = 0, hops: int = 2) -> PaGraphParts:
    """Assigns train nodes one by one, each to the part i with the highest score (PaGraph, section 3.4).

        |TV_i ∩ IN(v)| (TV_avg - |TV_i|) / |PV_i|

    TV_i are the train nodes of part i, TV_avg is the number of train nodes per part, IN(v) are the in-neighbors of v
    within `hops` hops, and PV_i are the nodes of part i: its train nodes and their IN.

    Three choices are ours. Train nodes come in random order. A part without nodes scores 0. Ties, such as zeros, go to
    the part with the fewest train nodes, then the fewest nodes, then the lower number. So no part has more train nodes
    than the mean rounded up; other nodes are as even as the neighborhoods happen to be.

    Time is that of reading every train node's whole neighborhood. Memory is 17 bytes per node and a bit per node and
    part. Deterministic given graph, parts, seed and hops.

    Args:
        graph: Any graph.
        parts: From 1 to the number of nodes.
        seed: Decides the order of the train nodes.
        hops: At least 1: the layers of the model in PaGraph; HitGNN's have 2.

    Raises:
        UsageError: `parts` or `hops` is out of range.
    """
    check_parts(graph, parts)
    whole_number("hops", hops, 1, "it is the number of layers of the model")
    order = generator(seed, "pagraph").permutation(graph.train_ids)
    home, sizes = deal_out(graph.indptr, graph.indices, order, parts, hops)
    reached = home >= 0
    home[~reached] = _fill_up(np.bincount(home[reached], minlength=parts), int(np.count_nonzero(~reached)))
    return PaGraphParts(home, sizes)


def check_parts(graph: Graph, parts: int) -> None:
    """Checks that `graph` can be cut into `parts` parts.

    Raises:
        UsageError: `parts` is no integer from 1 to the number of nodes.
    """
    whole_number("parts", parts, 1, "each rank has one part")
    if parts > graph.num_nodes:
        raise UsageError(
            f"parts must be in [1, {graph.num_nodes}] (the nodes of {graph.name}), got {parts}; take fewer ranks"
        )


def _fill_up(counts: NDArray[np.int64], extra: int) -> NDArray[np.int32]:
    """Returns parts for `extra` more nodes, int32, ascending, so that the smallest of `counts` become even."""
    level = np.sort(counts)
    room = level * np.arange(len(level)) - np.concatenate([[0], np.cumsum(level)[:-1]])  # below the k-th smallest
    filled = int(np.searchsorted(room, extra, side="right"))  # parts that get some
    target, rest = divmod(extra + int(level[:filled].sum()), filled)
    smallest = np.argsort(counts, kind="stable")[:filled]
    wanted = counts.copy()
    wanted[smallest] = target
    wanted[smallest[:rest]] += 1
    return np.repeat(np.arange(len(counts), dtype=np.int32), wanted - counts)
