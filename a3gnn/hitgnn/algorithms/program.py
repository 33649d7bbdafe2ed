"""`Program`: an algorithm written like HitGNN's programs, which assign nodes and features to each device."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.algorithm import Algorithm
from a3gnn.hitgnn.algorithms.exchange import ExchangeMaker
from a3gnn.hitgnn.algorithms.stored import Stored, node_ids
from a3gnn.seeding import generator
from a3gnn.units import count


class Program:
    """Assigns nodes and features to ranks one by one (HitGNN, Table II and Listing 2).

    Args:
        ranks: Number of devices.
        name: A name for people; `resume` requires the same name.
        exchange: Makes the exchange between ranks, needed if features are split by columns.

    Raises:
        UsageError: `ranks` is no integer >= 1.

    Examples:
        >>> from a3gnn import Graph
        >>> graph = Graph.load("synthetic:nodes=1000,features=8")
        >>> program = Program(graph, 2)
        >>> for rank in range(2):
        ...     half = range(500 * rank, 500 * (rank + 1))
        ...     program.graph_partition(half, rank)
        ...     program.feature_storing(rank, nodes=half)
        >>> algorithm = program.algorithm()
    """

    def __init__(
        self, graph: Graph, ranks: int, name: str = "program", *, exchange: ExchangeMaker | None = None
    ) -> None:
        self._graph, self._name, self._exchange = graph, name, exchange
        whole_number("ranks", ranks, 1, "each device has one rank")
        self._assigned = np.zeros((ranks, graph.num_nodes), dtype=np.bool_)
        self._stored: list[Stored | None] = [None] * ranks

    def graph_partition(self, nodes: ArrayLike, rank: int) -> None:
        """Assigns `nodes` to `rank`: their train nodes are its seeds. Edges are the whole graph's.

        Nodes assigned to several ranks, such as all nodes to every rank in P3, are divided evenly among these ranks.

        Raises:
            UsageError: There is no such rank or node.
        """
        self._assigned[self._rank(rank), node_ids(self._graph, nodes, "nodes of a rank")] = True

    def feature_storing(
        self, rank: int, *, nodes: ArrayLike | None = None, columns: tuple[int, int] | None = None
    ) -> None:
        """Stores features in the memory of `rank`'s device: rows of `nodes`, or `columns` of all rows, or all.

        Args:
            rank: The rank.
            nodes: Node ids, in any order.
            columns: The first column, and the one past the last.

        Raises:
            UsageError: There is no such rank, node or column, or both are given.
        """
        if nodes is not None and columns is not None:
            raise UsageError("feature_storing takes nodes or columns, got both; leave one out")
        place, width = self._rank(rank), self._graph.num_features
        if nodes is not None:
            self._stored[place] = Stored.rows(self._graph, nodes)
        else:
            self._stored[place] = Stored.dimensions(self._graph, *(columns or (0, width)))

    def algorithm(self) -> Algorithm:
        """Returns the algorithm of the assignments so far, for this graph and number of ranks.

        Raises:
            UsageError: A train node has no rank, or a rank stores nothing.
        """
        if lacking := [rank for rank, one in enumerate(self._stored) if one is None]:
            raise UsageError(f"feature_storing must be called for every rank, but ranks {lacking} are missing")
        kept = [one for one in self._stored if one is not None]
        given = self._assigned.copy()
        lost = int((~given[:, self._graph.train_ids].any(axis=0)).sum())
        if lost:
            raise UsageError(f"graph_partition must assign every train node to a rank, but {lost} have none")

        def partition(graph: Graph, ranks: int, seed: int) -> NDArray[np.int32]:
            self._check(graph, ranks)
            return _dealt(given, graph.train_ids, seed)

        def storing(graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
            self._check(graph, ranks)
            return kept[rank]

        return Algorithm(self._name, partition, storing, self._exchange)

    def _rank(self, rank: int) -> int:
        ranks = len(self._stored)
        if whole_number("rank", rank, 0) >= ranks:
            raise UsageError(f"rank must be in [0, {ranks}), got {rank}")
        return rank

    def _check(self, graph: Graph, ranks: int) -> None:
        mine = self._graph.num_nodes, self._graph.num_features, len(self._stored)
        if (graph.num_nodes, graph.num_features, ranks) != mine:
            raise UsageError(
                f"{self._name} must be trained on its graph of {count(mine[0], 'node')} with "
                f"{count(mine[1], 'feature')} by {count(mine[2], 'rank')}, got {count(graph.num_nodes, 'node')}, "
                f"{count(graph.num_features, 'feature')} and {count(ranks, 'rank')}; make a Program for this graph, or "
                "train on the graph of the Program"
            )


def _dealt(assigned: NDArray[np.bool_], train_ids: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """Returns one of each node's ranks, shape (num_nodes,); 0 for a node without one.

    Train nodes with the same ranks, and then other nodes, are divided among these ranks in a random order.
    """
    several = assigned.sum(axis=0)
    shuffled = generator(seed, "dealt nodes").permutation(assigned.shape[1])
    order = shuffled[np.argsort(~np.isin(shuffled, train_ids), kind="stable")]
    order = order[several[order] > 1]
    turn = np.zeros(assigned.shape[1], dtype=np.int64)
    turn[order] = np.arange(len(order)) % several[order]
    found: NDArray[np.intp] = (np.cumsum(assigned, axis=0) * assigned == turn + 1).argmax(axis=0)
    return found.astype(np.int32)
