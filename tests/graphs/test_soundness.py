"""The constructor of `Graph` takes what it is given for nothing: every array is looked at."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from a3gnn.errors import GraphError
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph

_NOBODY = np.empty(0, dtype=np.int32)


def made(**changes: Any) -> Graph:
    """Three nodes on a ring."""
    arrays: dict[str, Any] = {
        "name": "ring",
        "indptr": np.arange(4),
        "indices": np.array([2, 0, 1], dtype=np.int32),
        "features": DenseFeatures(np.ones((3, 2), dtype=np.float32)),
        "labels": np.array([0, 1, -1]),
        "train_ids": np.array([0], dtype=np.int32),
        "val_ids": np.array([1], dtype=np.int32),
        "test_ids": _NOBODY,
        "num_classes": 2,
    }
    return Graph(**arrays | changes)


def csr(**changes: Any) -> SparseFeatures:
    parts: dict[str, Any] = {
        "data": np.ones(2, dtype=np.float32),
        "indices": np.array([0, 1], dtype=np.int32),
        "indptr": np.array([0, 1, 1, 2]),
        "shape": (3, 2),
    }
    return SparseFeatures(**parts | changes)


def test_a_sound_graph_is_made() -> None:
    assert made().num_edges == 3
    assert made(features=csr()).num_features == 2
    assert made(labels=np.full(3, -1), train_ids=_NOBODY, num_classes=0).num_classes == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": np.array([2, 0, 3], dtype=np.int32)}, r"indices must be in \[0, 3\), got 0 to 3"),
        ({"indices": np.array([2, 0, -1], dtype=np.int32)}, r"indices must be in \[0, 3\), got -1 to 2"),
        ({"indices": np.array([2, 0, 1])}, "indices must be int32 of 1 dimension, got int64"),
        ({"indices": [2, 0, 1]}, "indices must be a NumPy array, got list"),
        ({"indices": np.zeros(6, dtype=np.int32)[::2]}, "indices must be C-contiguous"),
        ({"indptr": np.arange(4, dtype=np.int32)}, "indptr must be int64 of 1 dimension, got int32"),
        ({"indptr": np.array([0, 2, 1, 3])}, "indptr must not fall, got 2 and 1 at row 1"),
        ({"indptr": np.array([1, 1, 2, 3])}, r"indptr must rise from 0 to 3 \(the entries\), got 1 to 3"),
        ({"indptr": np.array([0, 1, 2, 9])}, r"indptr must rise from 0 to 3 \(the entries\), got 0 to 9"),
        ({"indptr": np.array([0])}, "a graph must have 1 to"),
        ({"indptr": np.array([], dtype=np.int64)}, "a graph must have 1 to"),
        (
            {"indptr": np.array([0, 2, 2, 3]), "indices": np.array([1, 1, 0], dtype=np.int32)},
            "indices must be ascending and distinct in each row, but row 0 is not",
        ),
        ({"labels": np.zeros(2, dtype=np.int64)}, "labels must have one row per node, got 2 for 3 nodes"),
        ({"labels": np.array([0, 2, -1])}, r"labels must be in \[-1, 2\), got -1 to 2"),
        (
            {"labels": np.array([0.0, 1.0, 1.0])},
            "labels must be one of int64 of 1 dimension, int8 of 2 dimensions, float32 of 1 dimension, got float64",
        ),
        ({"num_classes": 1.5}, "num_classes must be an integer >= 0, got 1.5"),
        ({"train_ids": np.array([3], dtype=np.int32)}, r"train_ids must be in \[0, 3\), got 3 to 3"),
        ({"train_ids": np.array([2], dtype=np.int32)}, "train_ids must be labeled nodes, got 1 with label -1"),
        ({"train_ids": np.array([1, 0], dtype=np.int32)}, "train_ids must be ascending and distinct"),
        ({"test_ids": np.array([0], dtype=np.int32)}, "test_ids must share no node with the other sets, got 1"),
        ({"val_ids": np.array([1])}, "val_ids must be int32"),
        ({"features": np.ones((3, 2))}, "features must be DenseFeatures or SparseFeatures, got ndarray"),
        ({"features": DenseFeatures(np.ones((3, 2)))}, "x must be float32 or float16 of 2 dimensions, got float64"),
        ({"features": DenseFeatures(np.ones((2, 2), np.float32))}, "x must have one row per node, got 2 for 3"),
        ({"features": DenseFeatures(np.full((3, 2), np.nan, np.float16))}, "x must be finite, got 6 NaN"),
        ({"features": DenseFeatures(np.ones((2, 3), np.float32).T)}, "x must be C-contiguous"),
        ({"features": csr(indices=np.array([0, 2], np.int32))}, r"x_indices must be in \[0, 2\), got 0 to 2"),
        ({"features": csr(indices=np.array([0], np.int32))}, "x_indices and x_data must be equally long, got 1 and 2"),
        ({"features": csr(indptr=np.array([0, 1, 2]))}, "x_indptr must have 4 values, got 3"),
        ({"features": csr(indptr=np.array([0, 2, 1, 2]))}, "x_indptr must not fall, got 2 and 1 at row 1"),
        ({"features": csr(shape=(3, 0))}, "x_shape must be two positive sizes"),
        ({"features": csr(shape=(4, 2))}, "x must have one row per node, got 4 for 3"),
    ],
)
def test_a_broken_law_is_named_with_what_to_do(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=rf"ring: {message}.*; Graph\.load and Graph\.from_pyg make these arrays"):
        made(**changes)


def test_a_copy_with_other_arrays_is_looked_at_too(tiny_graph: Graph) -> None:
    wrong = tiny_graph.indices.copy()
    wrong[3] = tiny_graph.num_nodes
    with pytest.raises(GraphError, match="indices must be in"):
        dataclasses.replace(tiny_graph, indices=wrong)
