"""`warm_up`: compiles kernels that a mini-batch needs or not, depending on its size, or loads them from a cache."""

from __future__ import annotations

import numpy as np

from a3gnn.kernels.dropout import gate, rectify
from a3gnn.kernels.edges import by_source, count_in_edges
from a3gnn.kernels.sparse import count_columns, multiply, sort_tiles
from a3gnn.kernels.sums import collect


def warm_up() -> None:
    """Compiles them or loads them."""
    rows, nodes, indptr = np.zeros((1, 1), dtype=np.float32), np.zeros(1, dtype=np.int32), np.arange(2, dtype=np.int32)
    flat, one, key = rows.reshape(-1), np.float32(1), np.uint32(0)
    by_source(indptr, nodes, indptr.copy(), nodes.copy(), nodes.copy())
    collect(rows, 0, flat, flat, (indptr, nodes, nodes), (rows, one), rows.copy(), 0, 1)
    count_in_edges(indptr, nodes, flat.copy())
    rectify(flat, key, one, key, key, 0, 1)
    gate(flat, flat, one, flat.copy(), 0, 1)
    starts = np.zeros((1, 2), dtype=np.int64)
    multiply(indptr, nodes, flat, rows, flat, rows.copy(), 0, 1)
    count_columns(indptr, nodes, 1, starts, 0, 1)
    sort_tiles(indptr, nodes, flat, 1, starts, nodes.copy(), flat.copy(), 0, 1)
    multiply(starts[0], nodes, flat, rows, flat, rows.copy(), 0, 1)
