"""A graph with what aggregations must not trip over."""

from __future__ import annotations

import dataclasses

import numpy as np

from a3gnn.graphs.graph import Graph


def with_self_loops(graph: Graph) -> Graph:
    """Returns `graph` with isolated nodes, and a self loop on every fifth node; in RAM."""
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    kept = targets % 7 != 3
    loops = np.arange(0, graph.num_nodes, 5)
    pairs = np.stack([np.append(targets[kept], loops), np.append(graph.indices[kept], loops)])
    pairs = np.unique(pairs, axis=1)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[0], minlength=graph.num_nodes))])
    return dataclasses.replace(
        graph, indptr=indptr.astype(np.int64), indices=pairs[1].astype(np.int32), known=None, folder=None
    )
