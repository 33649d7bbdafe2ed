"""The rows that the feature store serves: features, or a table's where the input layer aggregates in full."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES, GraphCharacteristics
from a3gnn.task import Task
from a3gnn_surrogate.columns import Array, Columns


def reads_table(columns: Columns) -> NDArray[np.bool_]:
    """Returns which configurations read a table, bool, shape (n_configs,)."""
    return np.asarray(columns["input_aggregation"] == "full")


def stored_row_bytes(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the mean bytes of a row as tiers and caches hold it, float64, shape (n_configs,)."""
    return _single_row_bytes(columns, task, graph) * stored_share(columns, task, graph)


def stored_share(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the bytes of a row over those without `feature_dtype` float16, float64, shape (n_configs,)."""
    value_bytes = np.where(reads_table(columns), 4.0, graph.value_bytes)
    saved = (value_bytes - 2.0) * row_entries(columns, task, graph) / _single_row_bytes(columns, task, graph)
    return np.where(columns["feature_dtype"] == "float16", 1.0 - saved, 1.0)


def _single_row_bytes(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    in_table = graph.table_bytes(task.table_model) / max(graph.num_nodes, 1)
    return np.maximum(np.where(reads_table(columns), in_table, graph.row_bytes), 1.0)


def served_row_bytes(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the bytes of a row in a mini-batch: float32, and an int32 column number where features are sparse."""
    entries = row_entries(columns, task, graph)
    return 8.0 * entries + 4.0 if graph.sparse_features else 4.0 * entries


def row_entries(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the stored entries of a row, float64, shape (n_configs,); all columns where rows are dense."""
    plain = graph.num_features * (graph.feature_density if graph.sparse_features else 1.0)
    return np.where(reads_table(columns), graph.table_row_entries(task.table_model), plain)


def cached_share(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the share of the rows that fit into the cache next to its index, float64, shape (n_configs,)."""
    for_rows = columns["cache_bytes"] - float(CACHE_INDEX_BYTES * graph.num_nodes)
    of_rows = stored_row_bytes(columns, task, graph) * graph.num_nodes
    return np.asarray(np.clip(for_rows / np.maximum(of_rows, 1.0), 0.0, 1.0))
