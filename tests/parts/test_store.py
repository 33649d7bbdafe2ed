"""Rows read from graph servers are the graph's, with and without caches, and what a cache holds is not asked for."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.features.opening import open_features
from a3gnn.features.row_table import AGGREGATORS
from a3gnn.features.store import FeatureStore
from a3gnn.graphs.graph import Graph
from a3gnn.parts import graph as graph_module
from a3gnn.parts.graph import POLICIES, PartedGraph
from a3gnn.parts.remote import open_store
from a3gnn.sampling.sampler import Sampler

#: The map of 2,000 nodes takes 8 kB, of dynamic policies some times that; a row 128 B.
CACHE_BYTES = 150_000


def configs() -> list[TrainConfig]:
    cached = [TrainConfig(cache_bytes=CACHE_BYTES, cache_policy=policy) for policy in POLICIES]
    return [TrainConfig(), *cached, TrainConfig(feature_dtype="float16", cache_bytes=CACHE_BYTES)]


@pytest.mark.parametrize("config", configs(), ids=lambda config: f"{config.cache_policy}-{config.cache_bytes}")
def test_reads_are_those_of_one_process(small_folder_graph: Graph, parted: PartedGraph, config: TrainConfig) -> None:
    here, there = open_features(small_folder_graph, config), open_store(parted, config)
    draw = np.random.default_rng(0)
    for _ in range(12):
        ids = draw.choice(2000, 300, replace=False).astype(np.int32)
        mine, theirs = there.read(ids), here.read(ids)
        assert torch.equal(mine.x, theirs.x)
        assert mine.hits == theirs.hits
    assert there.stats[:4] == here.stats[:4]
    assert (there.cache_bytes, there.row_bytes) == (here.cache_bytes, here.row_bytes)
    assert np.array_equal(there.cached, here.cached)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("policy", ["degree", "clock"])
def test_rows_are_aggregated_out_of_messages(
    small_folder_graph: Graph, parted: PartedGraph, aggregator: str, policy: str
) -> None:
    config = TrainConfig(cache_bytes=CACHE_BYTES, cache_policy=policy)  # type: ignore[arg-type]
    here, there = open_features(small_folder_graph, config), open_store(parted, config)
    sampler = Sampler(small_folder_graph.edges, (5, 5), seed=0)
    for number in range(4):
        sampled = sampler.sample(small_folder_graph.train_ids[:50], 0, number)
        found = [store.read_aggregated(sampled.n_id, sampled.block(0), aggregator).x for store in (here, there)]  # type: ignore[arg-type]
        assert torch.equal(*found)


def received(store: FeatureStore, graph: PartedGraph, ids: np.ndarray) -> tuple[int, int, int]:
    """Returns the requests and the bytes that a read takes, and its hits."""
    before = graph.client.traffic
    hits = store.read(ids).hits
    spent = graph.client.traffic.since(before)
    return spent.requests, spent.bytes_received, hits


def test_what_is_cached_is_not_asked_for(parted: PartedGraph) -> None:
    ids = np.arange(500, dtype=np.int32)
    plain, cached = open_store(parted, TrainConfig()), open_store(parted, TrainConfig(cache_bytes=CACHE_BYTES))
    assert received(plain, parted, ids) == (3, 500 * 128, 0)
    requests, num_bytes, hits = received(cached, parted, ids)
    assert 0 < hits < 500
    assert (requests, num_bytes) == (3, (500 - hits) * 128)
    assert received(cached, parted, cached.cached[:50]) == (0, 0, 50)
    clock = open_store(parted, TrainConfig(cache_bytes=CACHE_BYTES, cache_policy="clock"))
    few = ids[:100]
    assert received(clock, parted, few) == (3, 100 * 128, 0)
    assert received(clock, parted, few) == (0, 0, 100)


def test_halves_take_half_the_bytes(parted: PartedGraph) -> None:
    ids = np.arange(100, dtype=np.int32)
    assert received(open_store(parted, TrainConfig(feature_dtype="float16")), parted, ids)[1] == 100 * 64


@pytest.mark.parametrize("policy", ["degree", "fifo", "clock"])
def test_threads_read_at_once(small_folder_graph: Graph, parted: PartedGraph, policy: str) -> None:
    store = open_store(parted, TrainConfig(cache_bytes=20_000, cache_policy=policy))  # type: ignore[arg-type]
    x = torch.from_numpy(np.array(small_folder_graph.features.array))
    draws = [np.random.default_rng(seed).choice(2000, 200, replace=False).astype(np.int32) for seed in range(40)]
    with ThreadPoolExecutor(4) as threads:
        for ids, found in zip(draws, threads.map(store.read, draws), strict=True):
            assert torch.equal(found.x, x[torch.from_numpy(ids)])


def test_a_cache_too_small_for_its_map_holds_nothing(parted: PartedGraph) -> None:
    store = open_store(parted, TrainConfig(cache_bytes=100))
    assert store.cache_bytes == 0
    assert store.stats.policy == "none"


def test_any_number_of_rows_is_read_some_at_a_time(
    small_folder_graph: Graph, parted: PartedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module, "_READ_BYTES", 128 * 150)
    ids = np.arange(1999, 0, -3, dtype=np.int32)
    before = parted.client.traffic.requests
    assert np.array_equal(parted.features.read(ids), small_folder_graph.features.array[ids])
    assert parted.client.traffic.requests - before == 3 * 5
