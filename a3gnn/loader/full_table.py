"""`table_for`: the table of full aggregates that a loader's mini-batches read if `input_aggregation` is full."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.evaluation.input_table import FullTable, full_table
from a3gnn.features.row_table import Aggregator
from a3gnn.graphs.as_graph import is_data
from a3gnn.graphs.graph import Graph
from a3gnn.loader.arguments import LoaderArguments, LoaderConfig
from a3gnn.loader.pyg_source import Source
from a3gnn.task import Takes


def table_for(data: Any, source: Source, asked: LoaderArguments, given: LoaderConfig, device: Any) -> FullTable:
    """Returns the table of a loader; an empty one if its configuration samples the input layer's in-neighbors, too.

    Args:
        data: The loader's data. The table of a `Data` that was tuned exists already.
        source: The source of `data`.
        asked: The loader's arguments.
        given: Its configuration.
        device: Where its mini-batches are delivered.

    Raises:
        UsageError: The table can't be combined with an argument, or the data has none.
        ConfigError: The table is too large.
        GraphError: It is damaged, or can't be written.
    """
    if given.config.input_aggregation != "full":
        return FullTable()
    aggregator = _aggregator(given)
    _check(asked, given, str(device))
    _check_source(source)
    takes: Takes = "adjs" if asked.adjs else "edge_index"
    return full_table(_tuned_graph(data, source), aggregator, given.config, takes, lambda: None)


def _aggregator(given: LoaderConfig) -> Aggregator:
    if given.task is None:
        raise UsageError(
            "input_aggregation full needs the result of a tune, which names the table that the model reads, got a "
            "configuration alone; give config=result or the folder of the tune, or use sampled"
        )
    if given.task.aggregates is None:
        raise UsageError(
            "input_aggregation full needs a model whose input layer learns nothing before it aggregates, got "
            f"{given.task.model}; use sampled"
        )
    return given.task.aggregates


def _check(asked: LoaderArguments, given: LoaderConfig, device: str) -> None:
    assert given.task is not None
    declared = given.task.own is not None and given.task.own.takes == "adjs"
    if asked.adjs != declared:
        takes = "adjs" if declared else "x and edge_index"
        raise UsageError(
            f"adjs must be {declared} with input_aggregation full for a model that takes {takes}, got {asked.adjs}; "
            "change it, or use sampled"
        )
    if not declared and not device.startswith("cpu"):
        raise UsageError(
            f"device must be cpu with input_aggregation full, got {device!r}, where accelerated layers don't run; use "
            "sampled"
        )
    if asked.subgraph_type != "directional" or asked.weight_attr is not None:
        got = f"subgraph_type={asked.subgraph_type!r}" if asked.weight_attr is None else "weight_attr"
        raise UsageError(
            f"{got} needs input_aggregation sampled, got full, which aggregates all in-neighbors with equal weights"
        )


def _check_source(source: Source) -> None:
    if not source.reads_x:
        raise UsageError(
            "input_aggregation full needs a dense, finite, 2-dimensional x of float32 or float16 in host memory; use "
            "sampled"
        )
    repeated = len(source.edges.indices) - source.graph.num_edges
    if source.has_edge_ids and repeated:
        raise UsageError(
            f"input_aggregation full needs distinct edges, got {repeated:,} repeated ones; give data.coalesce(), "
            "or use sampled"
        )


def _tuned_graph(data: Any, source: Source) -> Graph:
    """Returns the graph that a tune of `data` stores, beside which its table is; or the source's graph."""
    if is_data(data):
        with warnings.catch_warnings(), suppress(A3GNNError):  # without labels, `data` can't be tuned
            warnings.simplefilter("ignore")
            return Graph.from_pyg(data)
    return source.graph
