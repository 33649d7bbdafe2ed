"""`InputTable`: the table that the input layer reads instead of features if `input_aggregation` is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.evaluation.aggregate_table import aggregate_table, table_seconds
from a3gnn.evaluation.inference import CHUNK_BYTES
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.features.row_table import Aggregator
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.halves import halves_beside, halves_seconds
from a3gnn.models.model import Model
from a3gnn.task import Takes, Task


class InputTable(NamedTuple):
    """The rows of a table, and the nodes' degrees.

    Attributes:
        rows: A table of `a3gnn.evaluation.aggregate_table`.
        degrees: Each node's number of in-neighbors other than itself, float32, shape (num_nodes,). None if no layer
            needs degrees.
    """

    rows: DenseFeatures | SparseFeatures
    degrees: Tensor | None


def input_table(
    graph: Graph, model: Model, task: Task, config: TrainConfig, on_chunk: Callable[[], None]
) -> InputTable:
    """Returns the table of the input layer of `model`; makes the table if it is not stored beside the graph.

    Args:
        graph: The whole graph, even if training uses parts; a graph in RAM is first written to the cache folder.
        model: The trained model.
        task: The model's task.
        config: Its `feature_dtype` is the dtype of the rows.
        on_chunk: Called before each chunk of nodes; its exceptions propagate.

    Raises:
        ConfigError: The input layer doesn't start with an aggregation without weights, or the table is too large.
        GraphError: The table is damaged, or can't be written.
    """
    rows = table_rows(graph, _aggregator(task), config, on_chunk)
    return InputTable(rows, in_degrees(graph.on_disk(), on_chunk) if model.needs_degrees else None)


def table_rows(
    graph: Graph, aggregator: Aggregator, config: TrainConfig, on_chunk: Callable[[], None]
) -> DenseFeatures | SparseFeatures:
    """Returns the table of an input layer that starts with `aggregator`; arguments and errors as in `input_table`."""
    stored = graph.on_disk()
    rows = aggregate_table(stored, aggregator, _around(stored, on_chunk))
    return halves_beside(stored, rows, aggregator) if config.feature_dtype == "float16" else rows


class FullTable(NamedTuple):
    """The table of a user's own model, or none.

    Attributes:
        aggregator: Its aggregation; None without a table.
        rows: A table of `a3gnn.evaluation.aggregate_table`; None without a table.
        dtype: Type of its rows in mini-batches.
        degrees: As in `InputTable`, for gcn only.
    """

    aggregator: Aggregator | None = None
    rows: DenseFeatures | SparseFeatures | None = None
    dtype: torch.dtype = torch.float32
    degrees: Tensor | None = None


def full_table(
    graph: Graph, aggregator: Aggregator, config: TrainConfig, takes: Takes, on_chunk: Callable[[], None]
) -> FullTable:
    """Returns the table with `aggregator` for a user's own model that takes `takes`; errors as in `input_table`.

    Accelerated layers read rows of `config.compute_dtype`; a model that takes adjs gets float32.
    """
    rows = table_rows(graph, aggregator, config, on_chunk)
    narrow = config.compute_dtype == "bfloat16" and takes == "edge_index" and isinstance(rows, DenseFeatures)
    degrees = in_degrees(graph.on_disk(), on_chunk) if aggregator == "gcn" else None
    return FullTable(aggregator, rows, torch.bfloat16 if narrow else torch.float32, degrees)


def input_table_seconds(graph: Graph, task: Task, config: TrainConfig) -> float:
    """Returns the seconds to make a task's table; afterwards the table is stored beside `graph`, a graph on disk.

    It raises the same errors as `input_table`.
    """
    aggregator = _aggregator(task)
    around = _around(graph, lambda: None)
    seconds = table_seconds(graph, aggregator, around)
    if config.feature_dtype == "float16":
        seconds += halves_seconds(graph, aggregate_table(graph, aggregator, around), aggregator)
    return seconds


def _aggregator(task: Task) -> Aggregator:
    if task.edge_dim:
        raise ConfigError(
            f"input_aggregation must be sampled for {task.model} with {task.edge_value}, got full, whose tables have "
            f"no values of edges; delete {task.edge_value} from the graph to leave them out"
        )
    if task.residual == "linear" and task.aggregates is None:
        raise ConfigError(
            f"input_aggregation must be sampled for {task.model} with a linear residual, got full, whose tables have "
            "no own rows; take sage, or another residual"
        )
    if task.aggregates is None:
        raise ConfigError(
            "input_aggregation full needs an input layer that aggregates features before any learned part (sage, "
            f"gcn, gin), got {task.model}, which learns something before it aggregates; use sampled"
        )
    return task.aggregates


def in_degrees(graph: Graph, on_chunk: Callable[[], None] = lambda: None) -> Tensor:
    """Returns each node's number of in-neighbors other than itself, float32, shape (num_nodes,)."""
    return _around(graph, on_chunk).degrees()


def _around(graph: Graph, on_chunk: Callable[[], None]) -> Neighborhoods:
    return Neighborhoods(graph, torch.device("cpu"), CHUNK_BYTES, in_place=True, on_chunk=on_chunk)
