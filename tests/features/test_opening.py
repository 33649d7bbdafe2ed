import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from a3gnn.config import DYNAMIC_POLICIES, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features import cache_kernels as kernels
from a3gnn.features import cache_kernels as policy_kernels
from a3gnn.features import row_kernels
from a3gnn.features import row_kernels as sparse_kernels
from a3gnn.features.cache_ranking import cached_nodes
from a3gnn.features.device_store import DeviceCachedStore
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.opening import open_features, warm_up
from a3gnn.features.row_table import AGGREGATORS
from a3gnn.features.store import FeatureStore
from a3gnn.features.stored_rows import rows_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition
from a3gnn.sampling.subgraph import Block

FORMS = ["dense-float32", "dense-float16", "sparse-float32", "sparse-float16"]
KERNELS = (row_kernels, sparse_kernels, kernels, policy_kernels)
HOW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def values(x: torch.Tensor) -> np.ndarray:
    return (x.to_dense() if x.is_sparse_csr else x).numpy()


def draw_ids(graph: Graph, seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, graph.num_nodes, size=count).astype(np.int32)


@HOW
@given(
    form=st.sampled_from(FORMS),
    tier=st.sampled_from(["ram", "disk"]),
    share=st.sampled_from([0.0, 0.3, 0.7, 2.0]),
    num_parts=st.sampled_from([1, 3]),
    on_folder=st.booleans(),
    seed=st.integers(0, 1000),
    count=st.integers(0, 200),
)
def test_every_tier_answers_the_same(form, tier, share, num_parts, on_folder, seed, count, tiny_graph, with_features):
    graph, matrix = with_features(tiny_graph, form)
    graph = graph.on_disk() if on_folder else graph
    asked = int(share * graph.features.nbytes) + (4 * graph.num_nodes if share else 0)
    config = TrainConfig(feature_tier=tier, cache_bytes=asked, num_partitions=num_parts)
    parts = partition(graph, num_parts) if num_parts > 1 else None
    store = open_features(graph, config, parts)
    assert store.cache_bytes <= asked
    cached = np.isin(np.arange(graph.num_nodes), store.cached)
    for part in range(num_parts):
        store.enter_part(part)
        ids = draw_ids(graph, seed + part, count)
        rows = store.read(ids)
        assert rows.x.shape == (count, 9)
        assert rows.x.dtype == torch.float32
        assert np.array_equal(values(rows.x), matrix[ids])
        assert rows.hits == cached[ids].sum()


@pytest.mark.parametrize("form", FORMS)
def test_ids_out_of_range_are_refused(form: str, tiny_graph: Graph, with_features) -> None:
    store = open_features(with_features(tiny_graph, form)[0], TrainConfig())
    for ids in ([300], [-1, 3]):
        with pytest.raises(UsageError, match=r"ids must be in \[0, 300\), got ids from"):
            store.read(np.array(ids, dtype=np.int32))


@pytest.mark.parametrize("form", FORMS)
def test_readers_side_by_side_get_the_same(form: str, small_graph: Graph, with_features) -> None:
    graph, matrix = with_features(small_graph, form)
    config = TrainConfig(feature_tier="ram", cache_bytes=graph.features.nbytes // 2)
    store = open_features(graph, config, partition(graph, 2))
    batches = [draw_ids(graph, i, 500) for i in range(24)]

    def read(i: int) -> bool:
        # Another epoch may enter its parts meanwhile: what is resident may change, what is answered may not.
        store.enter_part(i % 2)
        return np.array_equal(values(store.read(batches[i]).x), matrix[batches[i]])

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(len(batches))))


def test_reads_into_the_buffer_it_is_given(tiny_graph: Graph) -> None:
    store = open_features(tiny_graph, TrainConfig())
    ids, out = draw_ids(tiny_graph, 0, 50), torch.full((50, 16), torch.nan)
    assert store.read(ids, out).x is out
    assert np.array_equal(out.numpy(), tiny_graph.features.array[ids])
    for wrong in (torch.empty(49, 16), torch.empty(50, 16, dtype=torch.float64)):
        with pytest.raises(UsageError, match=r"out must be contiguous float32 or bfloat16 of shape \(50, 16\)"):
            store.read(ids, wrong)


def stores(graph: Graph, parts: np.ndarray) -> dict[str, FeatureStore]:
    disk = TrainConfig(feature_tier="disk")
    return {
        "ram": open_features(graph, TrainConfig()),
        "part": open_features(graph, TrainConfig(num_partitions=2), parts),
        "disk": open_features(graph, disk),
    }


def test_memory_falls_from_ram_to_a_part_to_disk(small_folder_graph: Graph) -> None:
    parts = partition(small_folder_graph, 2)
    by_tier = stores(small_folder_graph, parts)
    by_tier["part"].enter_part(0)
    taken = {tier: store.host_bytes for tier, store in by_tier.items()}
    total, num_nodes = small_folder_graph.features.nbytes, small_folder_graph.num_nodes
    assert taken == {"ram": total, "part": int((parts == 0).sum()) * 32 * 4 + 4 * num_nodes, "disk": 0}


def test_only_the_current_part_is_resident(small_folder_graph: Graph) -> None:
    parts = partition(small_folder_graph, 2)
    store = open_features(small_folder_graph, TrainConfig(num_partitions=2), parts)
    sizes = []
    for part in (0, 1):
        store.enter_part(part)
        sizes.append(store.host_bytes - 4 * small_folder_graph.num_nodes)
    assert sum(sizes) == small_folder_graph.features.nbytes


@pytest.mark.parametrize("form", ["dense-float32", "dense-float16"])
def test_a_cache_on_the_device_answers_the_same(form: str, tiny_graph: Graph, with_features) -> None:
    graph, matrix = with_features(tiny_graph, form)
    base = rows_of(graph.features)
    cached = cached_nodes(graph, graph.features.nbytes // 2 + 4 * graph.num_nodes)
    none = np.empty(0, dtype=np.int32)
    host = DenseHostStore(base, graph.num_nodes, 9)
    store = DeviceCachedStore.static(host, base, cached, ["cpu"])
    for ids in (draw_ids(graph, 0, 100), cached, np.setdiff1d(np.arange(300), cached).astype(np.int32), none):
        rows = store.read(ids)
        assert np.array_equal(rows.x.numpy(), matrix[ids])
        assert rows.hits == np.isin(ids, cached).sum()
    assert store.cache_bytes == host.host_bytes + store.host_bytes


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cache_on_cuda_answers_the_same(small_graph: Graph) -> None:
    config = TrainConfig(cache_bytes=small_graph.features.nbytes // 2)
    store, plain = open_features(small_graph, config, device="cuda"), open_features(small_graph, TrainConfig())
    ids = draw_ids(small_graph, 0, 500)
    rows = store.read(ids)
    assert rows.x.is_cuda
    assert torch.equal(rows.x.cpu(), plain.read(ids).x)


def test_after_warm_up_reads_compile_nothing(small_folder_graph: Graph, sparse_graph: Graph) -> None:
    warm_up()
    found = [value for module in KERNELS for value in vars(module).values()]
    compiled = {kernel: len(kernel.signatures) for kernel in found if isinstance(kernel, Dispatcher)}
    ids = draw_ids(sparse_graph, 0, 50)
    block = Block(np.arange(3, dtype=np.int32), np.arange(2, dtype=np.int32), 50, 2)
    for graph in (small_folder_graph, sparse_graph):
        policies = ("access",) if graph.features.is_sparse else ("degree", *DYNAMIC_POLICIES)
        for tier, policy in itertools.product(("ram", "disk"), policies):
            room = graph.features.nbytes // 2
            store = open_features(graph, TrainConfig(feature_tier=tier, cache_bytes=room, cache_policy=policy))
            store.read(ids)
            for aggregator in AGGREGATORS if store.can_aggregate else ():
                store.read_aggregated(ids, block, aggregator)
    assert {kernel: len(kernel.signatures) for kernel in compiled} == compiled
