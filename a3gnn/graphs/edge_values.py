"""Values of edges that models read: `edge_attr`, rows of numbers, and `edge_weight`, one number per edge."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.validate import check_finite
from a3gnn.storage.npy import slices

#: Names of the values, as in PyG and as arrays of a graph.
EDGE_VALUES = ("edge_attr", "edge_weight")


def are_readable(name: str, values: NDArray[Any]) -> bool:
    """Returns whether `values` are numbers in a form that models take: a vector, or rows of an edge_attr."""
    columns = num_columns(values)
    of_form = values.ndim in (1, 2) and (columns == 1 or (name == "edge_attr" and columns > 0))
    return values.dtype.kind in "biuf" and of_form


def num_columns(values: NDArray[Any]) -> int:
    """Returns the number of columns of `values`: 1 of a vector."""
    return int(values.shape[1]) if values.ndim == 2 else 1


def num_edge_columns(values: Mapping[str, NDArray[Any]], read: Collection[str]) -> int:
    """Returns the columns of edge_attr among the `values` of a graph if it is `read`; 0 otherwise."""
    return num_columns(values["edge_attr"]) if "edge_attr" in read and "edge_attr" in values else 0


def check_edge_values(values: Mapping[str, NDArray[Any]], num_edges: int) -> None:
    """Checks that `values` have a finite row per edge.

    Raises:
        GraphError: A row is missing, or not finite.
    """
    for name, array in values.items():
        if len(array) != num_edges:
            raise GraphError(
                f"{name} must have one row per edge, got {len(array):,} rows for {num_edges:,} edges; give edge_index "
                f"and {name} the same edges, or leave {name} out"
            )
        check_finite(name, array)


def stored_shape(name: str, values: NDArray[Any], num_edges: int) -> tuple[int, ...]:
    """Returns the shape of `values` in a graph of `num_edges` distinct edges."""
    return (num_edges, num_columns(values)) if name == "edge_attr" else (num_edges,)


def place_values(
    edge_index: NDArray[Any],
    values: NDArray[Any],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    out: NDArray[np.float32],
) -> None:
    """Adds each edge's `values` to the rows of its place in a CSR, in the order of `edge_index`.

    So values of duplicate edges are added up, as PyG's `Data.coalesce` does.

    Args:
        edge_index: Integers, shape (2, E).
        values: Real numbers, shape (E,) or (E, columns).
        indptr: The graph's in-neighbors, as in `GraphArrays`.
        indices: See above.
        out: Zeros, of `stored_shape`; a memory map is fine.
    """
    from a3gnn.graphs.edge_list_kernels import add_by_place  # numba is slow to import

    rows = out if out.ndim == 2 else out[:, None]
    for some in slices(edge_index.shape[1]):
        sources, targets = (np.require(ends, np.int32, ("C", "A")) for ends in edge_index[:, some])
        piece = np.require(values[some], np.float32, ("C", "A"))
        add_by_place(indptr, indices, sources, targets, piece.reshape(len(piece), -1), rows)


def placed(
    values: Mapping[str, NDArray[Any]],
    edge_index: NDArray[Any],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
) -> dict[str, NDArray[np.float32]]:
    """Returns `values` by name, aligned with `indices`; arguments as in `place_values`."""
    found = {}
    for name, array in values.items():
        found[name] = np.zeros(stored_shape(name, array, len(indices)), dtype=np.float32)
        place_values(edge_index, array, indptr, indices, found[name])
    return found
