"""`Stored`: the features in a rank's device memory, and the strategies that choose them.

A strategy takes the graph, the part of each node, this rank and the number of ranks, and returns a `Stored`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a3gnn.errors import UsageError
from a3gnn.graphs.describe import hottest_first
from a3gnn.graphs.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """The features in a rank's device memory: X_i of HitGNN, section II-C.

    Attributes:
        nodes: Nodes whose rows are stored, int32, ascending, distinct.
        columns: The first stored column, and the one past the last.
    """

    nodes: NDArray[np.int32]
    columns: tuple[int, int]

    @classmethod
    def rows(cls, graph: Graph, nodes: ArrayLike) -> Self:
        """Stores whole rows of `nodes`, which may be in any order.

        Raises:
            UsageError: `nodes` are no integers in [0, num_nodes).
        """
        return cls(node_ids(graph, nodes, "nodes with stored features"), (0, graph.num_features))

    @classmethod
    def dimensions(cls, graph: Graph, first: int, end: int) -> Self:
        """Stores the columns from `first` to before `end` of all nodes.

        Raises:
            UsageError: The columns are out of range, or there are none.
        """
        if not 0 <= first < end <= graph.num_features:
            raise UsageError(
                f"stored columns must be a non-empty range in [0, {graph.num_features}], got {first} to {end}"
            )
        return cls(np.arange(graph.num_nodes, dtype=np.int32), (first, end))

    @property
    def width(self) -> int:
        """Number of stored columns."""
        return self.columns[1] - self.columns[0]

    def is_split(self, graph: Graph) -> bool:
        """Returns whether only some of the columns are stored."""
        return self.width < graph.num_features


def node_ids(graph: Graph, nodes: ArrayLike, which: str) -> NDArray[np.int32]:
    """Returns `nodes`, distinct and ascending.

    Args:
        graph: The nodes' graph.
        nodes: Ids, in any order.
        which: Description of the nodes, for errors.

    Raises:
        UsageError: `nodes` are no integers in [0, num_nodes).
    """
    given = np.asarray(nodes)
    if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= graph.num_nodes):
        got = f"values from {given.min()} to {given.max()}" if given.dtype.kind in "iuf" else f"{given.dtype}"
        raise UsageError(f"{which} must be integers in [0, {graph.num_nodes}), got {got}")
    return np.unique(given).astype(np.int32)


def by_partition(graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
    """Returns the rows of the rank's own part: DistDGL's strategy."""
    return Stored.rows(graph, np.flatnonzero(parts == rank))


def by_out_degree(graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
    """Returns the rows of the nodes that are in-neighbors most often, the same on every rank: PaGraph's strategy.

    Their number is a part's average number of nodes, so that algorithms are compared at equal memory.
    """
    return Stored.rows(graph, hottest_first(graph)[: -(-graph.num_nodes // ranks)])


def by_dimension(graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
    """Returns the rank's columns of all rows, about as many as every other rank's: P3's strategy.

    Raises:
        UsageError: There are fewer columns than ranks.
    """
    width = graph.num_features
    if width < ranks:
        raise UsageError(f"features must have a column for each of {ranks} ranks, got {width}; use fewer ranks")
    return Stored.dimensions(graph, width * rank // ranks, width * (rank + 1) // ranks)
