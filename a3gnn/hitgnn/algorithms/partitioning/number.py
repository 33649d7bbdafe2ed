"""What a number of parts may be."""

from __future__ import annotations

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph


def check_parts(graph: Graph, parts: int) -> None:
    """Checks that `graph` can be cut into `parts` parts.

    Raises:
        UsageError: It is no integer from 1 to the number of nodes.
    """
    whole_number("parts", parts, 1, "one per rank")
    if parts > graph.num_nodes:
        raise UsageError(
            f"parts must be in [1, {graph.num_nodes}] (the nodes of {graph.name}), got {parts}; take fewer ranks"
        )
