"""PaGraph's partitioner: assigns train nodes greedily, each with its in-neighborhood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.partitioning.pagraph_kernels import deal_out
from a3gnn.seeding import generator


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
    whole_number("hops", hops, 1, "the layers of the model")
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
    whole_number("parts", parts, 1, "one per rank")
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
