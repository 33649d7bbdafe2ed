"""Lengths of a PyG `Data`'s attributes: PyG takes one of another length for the graph's, and serves it unaligned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from a3gnn.errors import GraphError

if TYPE_CHECKING:
    from torch_geometric.data import Data

#: What PyG takes for attributes of nodes, and of edges, by their names (`torch_geometric.data.storage`).
_OF_NODES = ("x", "feat", "pos", "batch", "node_type", "n_id")
_OF_EDGES = ("edge_weight", "edge_attr", "edge_type", "e_id")


def check_rows(data: Data, num_edges: int) -> None:
    """Checks that attributes which belong to nodes or edges by their names have a row for each.

    Raises:
        GraphError: One has not: nodes that num_nodes counts have no features, for instance.
    """
    num_nodes = data.num_nodes
    for name in _OF_NODES:
        if (rows := _rows(data, name)) not in (None, num_nodes):
            raise GraphError(
                f"{name} must have one row per node, got {rows:,} rows for num_nodes {num_nodes:,}; append rows to "
                f"{name} for the other nodes, such as zeros, or set data.num_nodes to {rows}"
            )
    for name in _OF_EDGES:
        if (rows := _rows(data, name)) not in (None, num_edges):
            raise GraphError(
                f"{name} must have one row per edge, got {rows:,} rows for {num_edges:,} edges; give edge_index and "
                f"{name} the same edges, or delete data.{name}"
            )


def check_labels_and_masks(data: Data, num_edges: int) -> None:
    """Checks that y and masks have a value per node, or per edge; y of one row is the graph's own.

    Raises:
        GraphError: One has another length.
    """
    num_nodes = data.num_nodes
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        allowed = (None, num_nodes, num_edges, *((1,) if name == "y" else ()))
        if (rows := _rows(data, name)) not in allowed:
            raise GraphError(
                f"{name} must have one value per node, got {rows:,} for num_nodes {num_nodes:,}; give each node one, "
                f"or delete data.{name}"
            )


def _rows(data: Data, name: str) -> int | None:
    """Returns the length of the attribute `name` along the dimension that PyG counts by; None where it has none."""
    value: Any = data.get(name)
    shape = getattr(value, "shape", None)
    if shape is None or not len(shape):
        return None
    dim = data.__cat_dim__(name, value)
    return int(shape[dim]) if isinstance(dim, int) else None
