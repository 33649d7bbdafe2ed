"""Feature-storing strategies (HitGNN, Table I): what each rank keeps in its device's memory.

Each takes the graph, the part of each node, this rank and the number of ranks, and returns a `Stored`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.algorithms.stored import Stored
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.hotness import hottest_first


def by_partition(graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
    """Returns the rows of the rank's own part: DistDGL's strategy."""
    return Stored.rows(graph, np.flatnonzero(parts == rank))


def by_out_degree(graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
    """Returns the rows of the nodes that are most often in-neighbours, the same on every rank: PaGraph's strategy.

    They are as many as a part has on average, so that algorithms are compared at equal memory.
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
