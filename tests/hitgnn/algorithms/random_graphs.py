"""Graphs for partitioners: any, and one whose train nodes all lie in one corner."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph


def graph_of(sources: np.ndarray, targets: np.ndarray, num_nodes: int, train_ids: np.ndarray) -> Graph:
    """The graph of these edges, each once."""
    targets, sources = np.divmod(np.unique(targets.astype(np.int64) * num_nodes + sources), num_nodes)
    rest = np.setdiff1d(np.arange(num_nodes, dtype=np.int32), train_ids)
    return Graph(
        name="made",
        indptr=np.concatenate([[0], np.cumsum(np.bincount(targets, minlength=num_nodes))]).astype(np.int64),
        indices=sources.astype(np.int32),
        features=DenseFeatures(np.zeros((num_nodes, 1), dtype=np.float32)),
        labels=np.arange(num_nodes) % 2,
        train_ids=np.sort(train_ids).astype(np.int32),
        val_ids=rest[:1],
        test_ids=rest[1:2],
        num_classes=2,
    )


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Directed graphs of 2 to 400 nodes, with hubs, self loops and isolated nodes, and 1 train node to all but two."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_nodes = draw(st.integers(4, 400))
    num_edges = int(num_nodes * draw(st.sampled_from([0.0, 0.5, 2.0, 8.0])))
    skew = draw(st.sampled_from([1.0, 3.0]))  # 3 makes hubs of the lowest ids
    sources = (num_nodes * rng.random(num_edges) ** skew).astype(np.int64)
    targets = rng.integers(num_nodes, size=num_edges)
    num_train = draw(st.integers(1, num_nodes - 2))
    first = draw(st.booleans())  # the first nodes, or any
    train = np.arange(num_train) if first else rng.choice(num_nodes, num_train, replace=False)
    return graph_of(sources, targets, num_nodes, train)


def lopsided(seed: int = 7) -> Graph:
    """A ring of 120 communities of 25 nodes, whose train nodes are those of the first 30."""
    rng = np.random.default_rng(seed)
    members, num_nodes = 25, 120 * 25
    sources = rng.integers(num_nodes, size=15_000)
    targets = sources - sources % members + rng.integers(members, size=len(sources))
    away = rng.random(len(sources)) < 0.05
    targets[away] = (targets[away] + members) % num_nodes
    both = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    return graph_of(*both, num_nodes, np.arange(30 * members))
