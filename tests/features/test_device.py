"""Caches on devices: any number of shards, rows that stay or change, in front of a second level or not."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from a3gnn.config import DYNAMIC_POLICIES, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.cache import DynamicCache
from a3gnn.features.cache_ranking import cached_nodes
from a3gnn.features.device_store import DeviceCachedStore, owned
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.opening import open_features
from a3gnn.features.stored_rows import rows_of
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.subgraph import Block

DEVICES = [["cpu"], ["cpu", "cpu"], ["cpu"] * 3]


def draw_ids(graph: Graph, seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(graph.num_nodes)[:count].astype(np.int32)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_share_the_nodes_out(count: int) -> None:
    ids = np.random.default_rng(0).permutation(50).astype(np.int32)
    shares = [owned(ids, index, count) for index in range(count)]
    assert np.array_equal(np.sort(np.concatenate([places for places, _ in shares])), np.arange(50))
    for index, (places, names) in enumerate(shares):
        assert np.array_equal(names * count + index, ids[places])
        assert (names.dtype, places.dtype) == (np.int32, np.int32)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("form", ["dense-float32", "dense-float16"])
@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
def test_rows_that_change_answer_the_same(policy, form, devices, tiny_graph: Graph, with_features) -> None:
    graph, matrix = with_features(tiny_graph, form)
    base = rows_of(graph.features)
    for room in (2_500, 6_000, 60_000):
        store = DeviceCachedStore.dynamic(DenseHostStore(base, 300, 9), base, room, devices, policy)
        assert store is not None
        assert len(store.cached) == 0
        assert store.cache_bytes == store.host_bytes <= room
        for seed in range(8):
            ids = draw_ids(graph, seed, 150)
            rows = store.read(ids)
            assert np.array_equal(rows.x.numpy().view(np.uint32), matrix[ids].view(np.uint32))
            if room == 60_000:
                assert store.read(ids).hits == 150
        stats = store.stats
        assert (stats.policy, stats.hits + stats.misses) == (policy, 150 * stats.queries)


@pytest.mark.parametrize("devices", DEVICES)
def test_rows_that_stay_answer_the_same(devices, tiny_graph: Graph, with_features) -> None:
    graph, matrix = with_features(tiny_graph, "dense-float32")
    base = rows_of(graph.features)
    cached = cached_nodes(graph, graph.features.nbytes // 2 + 4 * graph.num_nodes)
    store = DeviceCachedStore.static(DenseHostStore(base, 300, 9), base, cached, devices)
    assert store.cache_bytes == 4 * 300 + 36 * len(cached)
    for seed in range(4):
        ids = draw_ids(graph, seed, 150)
        rows = store.read(ids)
        assert np.array_equal(rows.x.numpy(), matrix[ids])
        assert rows.hits == np.isin(ids, cached).sum()


def test_a_device_holds_what_one_map_of_the_same_bytes_would(small_graph: Graph) -> None:
    base, room = rows_of(small_graph.features), small_graph.features.nbytes // 3
    batches = [draw_ids(small_graph, seed, 500) for seed in range(10)]
    host = DenseHostStore(base, 2000, 32, cache=DynamicCache.that_fits(base, room, 2000, "fifo"))
    device = DeviceCachedStore.dynamic(DenseHostStore(base, 2000, 32), base, room, ["cpu"], "fifo")
    assert device is not None
    assert [host.read(ids).hits for ids in batches] == [device.read(ids).hits for ids in batches]


def test_what_the_first_level_misses_the_second_may_have(small_graph: Graph) -> None:
    base = rows_of(small_graph.features)
    behind = DenseHostStore(base, 2000, 32, cache=DynamicCache.that_fits(base, 200_000, 2000, "clock"))
    store = DeviceCachedStore.dynamic(behind, base, 30_000, ["cpu", "cpu"], "clock")
    assert store is not None
    for seed in range(12):
        ids = draw_ids(small_graph, seed, 400)
        rows = store.read(ids)
        assert np.array_equal(rows.x.numpy(), small_graph.features.array[ids])
    assert store.stats.misses == behind.stats.hits + behind.stats.misses
    assert behind.stats.hits > store.stats.hits > 0
    assert store.host_bytes == store.cache_bytes + behind.cache_bytes


@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
def test_readers_side_by_side_get_the_same(policy: str, small_graph: Graph) -> None:
    base = rows_of(small_graph.features)
    store = DeviceCachedStore.dynamic(DenseHostStore(base, 2000, 32), base, 60_000, ["cpu", "cpu"], policy)
    assert store is not None
    batches = [draw_ids(small_graph, seed, 600) for seed in range(40)]

    def read(ids: np.ndarray) -> bool:
        return np.array_equal(store.read(ids).x.numpy(), small_graph.features.array[ids])

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, batches))
    assert store.stats.queries == len(batches)


def test_too_little_room_is_no_cache(tiny_graph: Graph) -> None:
    base = rows_of(tiny_graph.features)
    assert DeviceCachedStore.dynamic(DenseHostStore(base, 300, 16), base, 1_200, ["cpu"], "fifo") is None


def test_what_it_cannot_do_it_refuses(tiny_graph: Graph) -> None:
    base = rows_of(tiny_graph.features)
    store = DeviceCachedStore.static(DenseHostStore(base, 300, 16), base, np.arange(9, dtype=np.int32), ["cpu"])
    block = Block(np.zeros(2, dtype=np.int32), np.zeros(0, dtype=np.int32), 1, 1)
    assert not store.can_aggregate
    with pytest.raises(UsageError, match="rows on the host"):
        store.read_aggregated(np.zeros(1, dtype=np.int32), block, "mean")
    with pytest.raises(UsageError, match="ids must be in"):
        store.read(np.array([300], dtype=np.int32))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("policy", [*DYNAMIC_POLICIES, "degree"])
def test_readers_on_streams_of_their_own_get_the_same(policy: str, small_graph: Graph) -> None:
    config = TrainConfig(cache_bytes=small_graph.features.nbytes // 3, cache_policy=policy, batch_size=100)
    store = open_features(small_graph, config, device="cuda", fanouts=(4, 3))
    batches = [draw_ids(small_graph, seed, 900) for seed in range(80)]

    def read(ids: np.ndarray) -> bool:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = store.read(ids).x
            return x.is_cuda and np.array_equal(x.cpu().numpy(), small_graph.features.array[ids])

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, batches))
    assert store.stats.hits > 0
