"""The policy ahead: mini-batches stay the same, and rows are read from the disk in blocks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from a3gnn.config import PARALLEL_MODES, TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.features import ahead
from a3gnn.features.ahead import AheadCache
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.opening import open_features
from a3gnn.features.stored_rows import DenseRows
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions, check_with_types
from a3gnn.storage import blocks
from a3gnn.storage.blocks import BlockReader
from tests.pipeline.batches import content
from tests.threads.begun import begun_from_here

#: Room for the maps and the scratch of reads, and more.
FIXED = 13 << 20


@pytest.fixture(autouse=True)
def no_thread_is_left():
    begun = begun_from_here()
    yield
    assert not [one for one in begun() if not one.startswith("a3gnn-pool")]  # those of kernels stay


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    spec = "synthetic:nodes=20000,degree=6,features=64,classes=4"
    return Graph.load(spec).save(tmp_path_factory.mktemp("ahead") / "graph")


def opened(graph: Graph, rows_bytes: int = 0, fanouts: tuple[int, ...] = (4, 3), **knobs) -> Pipeline:
    fields = {"batch_size": 64, "feature_tier": "disk", **knobs}
    if rows_bytes:
        fields |= {"cache_policy": "ahead", "cache_bytes": FIXED + rows_bytes}
    return Pipeline(graph, TrainConfig(**fields), fanouts, PipelineOptions(seed=7))


def contents(pipeline: Pipeline, epoch: int = 1, start: int = 0) -> list[tuple]:
    """Mini-batches without their hits, which a cache decides."""
    return [(*one[:2], *one[3:]) for one in map(content, pipeline.epoch(epoch, start))]


@pytest.fixture(scope="module")
def expected(graph: Graph) -> list[tuple]:
    with opened(graph) as pipeline:
        return contents(pipeline)


@pytest.mark.parametrize("mode", PARALLEL_MODES)
@pytest.mark.parametrize("rows_bytes", [150_000, 1 << 20, 1 << 25], ids=["less than a mini-batch", "some", "all"])
def test_mini_batches_are_bit_identical(graph: Graph, expected: list[tuple], mode: str, rows_bytes: int) -> None:
    with opened(graph, rows_bytes, parallel_mode=mode, num_workers=3) as pipeline:
        assert contents(pipeline) == expected
        stats = pipeline.store.stats
        assert stats.policy == "ahead"
        assert stats.read_bytes > 0
        assert contents(pipeline, start=5) == expected[5:]  # as a resumed training


@pytest.mark.parametrize("knobs", [{"num_partitions": 2}, {"feature_dtype": "float16"}, {"resources": "auto"}], ids=str)
def test_other_knobs_change_no_mini_batch(graph: Graph, knobs: dict) -> None:
    workers = {"parallel_mode": "mode1", "num_workers": 2}
    with opened(graph, **knobs, **workers) as plain, opened(graph, 1 << 20, **knobs, **workers) as ahead:
        assert contents(ahead) == contents(plain)
        assert ahead.store.stats.read_bytes > 0


def test_an_epoch_may_be_left_and_another_may_run_beside_it(graph: Graph, expected: list[tuple]) -> None:
    with opened(graph, 1 << 20) as pipeline:
        left = pipeline.epoch(1)
        next(left)
        assert contents(pipeline) == expected  # reads through the map
        left.close()
        assert contents(pipeline) == expected


def test_rows_of_a_half_whose_reading_was_stopped_are_not_served(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_WORDS_AT_ONCE", 4)
    base = DenseRows.of(graph.features)
    cache = AheadCache.that_fits(base, graph.num_nodes, 64 << 20)
    assert cache is not None
    ids = np.arange(4096, dtype=np.int32)
    for stopped in (True, False):
        half = cache.halves[1]
        cache.empty(half)
        half.add(ids, 0)
        half.add(ids, 0)  # each row is a miss once
        cache.load(half, lambda share, stopped=stopped: stopped)
        found = DenseHostStore(base, graph.num_nodes, 64, cache=cache).read(ids)
        assert np.array_equal(found.x.numpy(), graph.features.array[ids])
        assert found.hits == (0 if stopped else len(ids) // 2)


def test_rows_are_read_once_per_hyperbatch(graph: Graph) -> None:
    """Reads take at most the whole file per hyperbatch, of which an epoch has four if the buffer holds all rows."""
    # A read begins and ends with a whole page.
    most = 4 * (graph.features.nbytes + 2 * 4096 * (2 + graph.features.nbytes // blocks.BLOCK_BYTES))
    with opened(graph, 2 * graph.features.nbytes + (8 << 20), fanouts=(10, 10)) as pipeline:
        rows = sum(batch.subgraph.num_nodes for batch in pipeline.epoch(0))
        stats = pipeline.store.stats
    assert stats.hits + stats.misses == rows
    assert graph.features.nbytes < stats.read_bytes <= most
    assert stats.read_bytes <= 1.2 * rows * 64 * 4


@pytest.mark.parametrize("direct", [True, False])
def test_blocks_are_those_of_the_file(graph: Graph, monkeypatch: pytest.MonkeyPatch, direct: bool) -> None:
    if not direct:
        monkeypatch.delattr(os, "O_DIRECT", raising=False)
    array = graph.features.array
    reader = BlockReader(array)
    for ids in ([0], [3, 4, 900], [len(array) - 1]):
        out = np.zeros((len(ids), array.shape[1]), dtype=array.dtype)
        got = reader.read(np.array(ids, dtype=np.int32), out)
        assert np.array_equal(out, array[ids])
        assert out.nbytes <= got <= (ids[-1] - ids[0] + 1) * array.shape[1] * 4 + 2 * 4096


def test_a_map_of_an_unknown_file_is_read_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(40, dtype=np.float32).reshape(10, 4)
    monkeypatch.setattr(blocks, "_file_at", lambda address: None)
    out = np.zeros((2, 4), dtype=np.float32)
    assert BlockReader(array).read(np.array([2, 5], dtype=np.int32), out) == out.nbytes
    assert np.array_equal(out, array[[2, 5]])


def test_a_shortened_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((4096, 8), dtype=np.float32))
    reader = BlockReader(np.load(path, mmap_mode="r"))
    os.truncate(path, 9000)
    with pytest.raises(OSError, match="must have"):
        reader.read(np.array([4000], dtype=np.int32), np.zeros((1, 8), dtype=np.float32))


def test_rows_in_ram_are_not_read_ahead(graph: Graph, expected: list[tuple]) -> None:
    with opened(graph, 1 << 20, feature_tier="ram") as pipeline:
        assert contents(pipeline) == expected
        assert pipeline.store.cache_bytes == 0


def test_what_can_not_be_read_ahead_is_refused(sparse_graph: Graph) -> None:
    config = TrainConfig(feature_tier="disk", cache_policy="ahead", cache_bytes=1 << 25)
    with pytest.raises(UsageError, match="cache_policy ahead needs dense features"):
        open_features(sparse_graph, config)
    with pytest.raises(ConfigError, match="cache_policy must be degree on a graph with node types, got ahead"):
        check_with_types(config)
