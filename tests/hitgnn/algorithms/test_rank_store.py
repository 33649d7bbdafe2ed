"""A rank reads what it stores from its own memory, and every other row by the counted read of host memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.device_store import DeviceCachedStore
from a3gnn.features.stored_rows import DenseRows
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.rank_store import open_rank_store
from a3gnn.hitgnn.algorithms.stored import Stored

IDS = np.array([7, 299, 0, 150, 8, 7], dtype=np.int32)
KEPT = [8, 7, 200]


def poisoned(graph: Graph, kept: list[int]) -> Graph:
    """`graph` with NaN in every row that is not kept."""
    rows = np.zeros(graph.features.shape, dtype=np.float32)
    made = dataclasses.replace(graph, features=DenseFeatures(rows))
    rows[:] = np.nan  # once it is there: a graph's features must be finite
    rows[kept] = graph.features.array[kept]
    return made


@pytest.mark.parametrize("tier", ["ram", "disk"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_are_those_of_the_graph_and_counted(tiny_folder_graph, tier, dtype):
    graph, config = tiny_folder_graph, TrainConfig(feature_tier=tier, feature_dtype=dtype)
    store = open_rank_store(graph, config, Stored.rows(graph, KEPT))
    found = store.read(IDS)
    assert np.array_equal(found.x.numpy(), graph.features.array[IDS].astype(dtype).astype(np.float32))
    assert found.hits == 3
    assert (store.stats.hits, store.stats.misses) == (3, 3)
    assert store.row_bytes == 16 * np.dtype(dtype).itemsize


def test_what_is_not_stored_comes_from_the_host_alone(tiny_graph):
    """The store's own memory has NaN where it stores nothing: only the host's read brings other values."""
    store: Any = open_rank_store(poisoned(tiny_graph, KEPT), TrainConfig(), Stored.rows(tiny_graph, KEPT))
    assert torch.isnan(store.read(IDS).x).any(dim=1).tolist() == [False, True, True, True, False, False]
    store._base = DenseRows.of(tiny_graph.features)
    assert np.array_equal(store.read(IDS).x.numpy(), tiny_graph.features.array[IDS])


def test_a_device_keeps_the_same_rows(tiny_graph):
    """The code of devices, which runs in host memory too."""
    on_host = open_rank_store(tiny_graph, TrainConfig(), Stored.rows(tiny_graph, KEPT))
    on_device = open_rank_store(tiny_graph, TrainConfig(), Stored.rows(tiny_graph, KEPT), "cpu:0")
    assert isinstance(on_device, DeviceCachedStore)
    (x, hits), (expected, own) = on_device.read(IDS), on_host.read(IDS)
    assert torch.equal(x, expected)
    assert hits == own == 3
    assert on_device.stats.misses == 3


def test_dimensions_are_read_from_the_ranks_own_memory(tiny_folder_graph):
    store: Any = open_rank_store(
        tiny_folder_graph, TrainConfig(feature_tier="disk"), Stored.dimensions(tiny_folder_graph, 3, 9)
    )
    expected = np.array(tiny_folder_graph.features.array[IDS, 3:9])
    assert store.host_bytes == 300 * 6 * 4
    found = store.read(IDS)
    assert np.array_equal(found.x.numpy(), expected)
    assert (found.hits, store.stats.misses, store.num_features) == (len(IDS), 0, 6)


def test_sparse_features_are_refused(sparse_graph):
    with pytest.raises(UsageError, match=r"must be dense .*, got sparse"):
        open_rank_store(sparse_graph, TrainConfig(), Stored.rows(sparse_graph, [1]))
