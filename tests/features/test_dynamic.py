"""Stores with a cache that changes, against the uncached store, bit for bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.config import DYNAMIC_POLICIES, STATIC_POLICIES, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.cache import DynamicCache
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.opening import open_features
from a3gnn.features.row_table import AGGREGATORS
from a3gnn.features.slot_map import SlotMap
from a3gnn.features.stored_rows import DenseRows, rows_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Block

HOW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def draw_ids(num_nodes: int, seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(num_nodes)[:count].astype(np.int32)


def bits(x: torch.Tensor) -> np.ndarray:
    return x.numpy().view(np.uint32)


@HOW
@given(
    policy=st.sampled_from(DYNAMIC_POLICIES),
    slots=st.sampled_from([1, 7, 60, 300]),
    form=st.sampled_from(["dense-float32", "dense-float16"]),
    seed=st.integers(0, 1000),
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=8),
)
def test_any_sequence_of_reads_answers_as_without_a_cache(
    policy, slots, form, seed, counts, tiny_graph, with_features
) -> None:
    graph, matrix = with_features(tiny_graph, form)
    base = rows_of(graph.features)
    plain = DenseHostStore(base, 300, 9)
    store = DenseHostStore(base, 300, 9, cache=DynamicCache(SlotMap(policy, slots, 300), base))
    total = 0
    for turn, count in enumerate(counts):
        ids = draw_ids(300, seed + turn, count)
        rows = store.read(ids)
        assert np.array_equal(bits(rows.x), matrix[ids].view(np.uint32))
        half = count // 2
        block = Block(np.arange(half + 1, dtype=np.int32), np.arange(half, dtype=np.int32)[::-1].copy(), count, half)
        for aggregator in AGGREGATORS:
            expected = plain.read_aggregated(ids, block, aggregator)
            aggregated = store.read_aggregated(ids, block, aggregator)
            assert np.array_equal(bits(aggregated.x), bits(expected.x))
            if slots == 300:
                assert aggregated.hits == count
        total += 4 * count
    stats = store.stats
    assert (stats.policy, stats.queries, stats.hits + stats.misses) == (policy, 4 * len(counts), total)


@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
@pytest.mark.parametrize("tier", ["ram", "disk"])
def test_readers_side_by_side_get_the_same(policy: str, tier: str, small_folder_graph: Graph) -> None:
    graph = small_folder_graph
    config = TrainConfig(feature_tier=tier, cache_bytes=graph.features.nbytes // 3, cache_policy=policy)
    store = open_features(graph, config, partition(graph, 2))
    batches = [draw_ids(graph.num_nodes, i, 700) for i in range(40)]

    def read(i: int) -> bool:
        store.enter_part(i % 2)
        return np.array_equal(store.read(batches[i]).x.numpy(), graph.features.array[batches[i]])

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(len(batches))))
    assert store.stats.queries == len(batches)
    assert 0 < store.stats.hits < 700 * len(batches)
    assert store.stats.overhead_ms > 0


def test_sampled_mini_batches_hit_alike_in_every_run(small_graph: Graph) -> None:
    sampler = Sampler(small_graph.edges, (5, 5), seed=0)
    seeds = np.array_split(small_graph.train_ids, 6)
    batches = [sampler.sample(chosen, 0, index).n_id for index, chosen in enumerate(seeds)]
    config = TrainConfig(cache_bytes=small_graph.features.nbytes // 4, cache_policy="clock")
    runs = []
    for _ in range(2):
        store = open_features(small_graph, config)
        runs.append([store.read(ids).hits for ids in batches])
    assert runs[0] == runs[1]
    assert runs[0][0] == 0 < runs[0][1]


@HOW
@given(policy=st.sampled_from(DYNAMIC_POLICIES), asked=st.integers(0, 25_000))
def test_a_cache_takes_what_it_may_and_nobody_may_rely_on_it(policy: str, asked: int, tiny_graph: Graph) -> None:
    store = open_features(tiny_graph, TrainConfig(cache_bytes=asked, cache_policy=policy))
    assert store.cache_bytes <= asked
    store.read(np.arange(300, dtype=np.int32))
    assert len(store.cached) == 0
    assert store.stats.policy == (policy if store.cache_bytes else "none")
    # Two rows and the maps of two slots, beside the map of all nodes.
    assert store.cache_bytes > 0 or asked < 4 * 300 + 2 * 64 + 150


@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
def test_sparse_features_are_refused(policy: str, sparse_graph: Graph) -> None:
    with pytest.raises(UsageError, match=f"cache_policy {policy} needs dense features, got sparse ones; use one of"):
        open_features(sparse_graph, TrainConfig(cache_bytes=10**6, cache_policy=policy))


@pytest.mark.parametrize("policy", [*STATIC_POLICIES, *DYNAMIC_POLICIES])
def test_every_policy_of_the_configuration_answers_the_same(policy: str, small_folder_graph: Graph) -> None:
    graph = small_folder_graph
    config = TrainConfig(cache_bytes=graph.features.nbytes // 4, cache_policy=policy, batch_size=100)
    store = open_features(graph, config, fanouts=(4, 3))
    for seed in range(4):
        ids = draw_ids(graph.num_nodes, seed, 500)
        assert np.array_equal(store.read(ids).x.numpy(), graph.features.array[ids])
    assert store.stats.hits > 0
    assert 0 < store.cache_bytes <= config.cache_bytes


def test_a_reader_that_fails_admits_nothing_and_blocks_nobody() -> None:
    base = DenseRows(np.arange(40, dtype=np.float32).reshape(10, 4))
    store = DenseHostStore(base, 10, 4, cache=DynamicCache(SlotMap("fifo", 5, 10), base))
    ids = np.arange(3, dtype=np.int32)
    with pytest.raises(UsageError, match="out must be contiguous"):
        store.read(ids, torch.empty(1))
    with pytest.raises(UsageError, match="ids must be in"):
        store.read(ids + 8)
    assert store.stats.queries == 0
    assert [store.read(ids).hits, store.read(ids).hits] == [0, 3]
