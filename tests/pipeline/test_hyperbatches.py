"""The policy ahead: mini-batches stay the same, and rows are read from the disk in blocks."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from a3gnn.characteristics import AHEAD_BYTES
from a3gnn.config import PARALLEL_MODES, TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.features import ahead
from a3gnn.features.ahead import AheadCache
from a3gnn.features.cache import CacheStats
from a3gnn.features.opening import open_features
from a3gnn.features.row_table import RowTable
from a3gnn.features.stored_rows import DenseRows
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline import hyperbatches
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions, check_with_types
from a3gnn.pipeline.stages import Stages
from a3gnn.storage import blocks
from a3gnn.storage.blocks import BlockReader
from a3gnn.threads import ordered_map
from tests.pipeline.batches import content
from tests.threads.begun import all_ended, begun_from_here, happens, uncollected


@pytest.fixture(autouse=True)
def no_thread_is_left():
    begun = begun_from_here()
    yield
    # Those of kernels stay. An epoch that garbage collection ends may take a moment.
    assert happens(lambda: not [one for one in begun() if not one.startswith("a3gnn-pool")])


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    spec = "synthetic:nodes=20000,degree=6,features=64,classes=4"
    return Graph.load(spec).save(tmp_path_factory.mktemp("ahead") / "graph")


def fixed(graph: Graph) -> int:
    """Returns the bytes of the maps and of the scratch of reads."""
    return -AheadCache._free_bytes(DenseRows.of(graph.features), graph.num_nodes, 0)


@pytest.mark.parametrize("width", [1, 16, 64, 700])
def test_what_reads_take_is_what_is_predicted_at_most(width: int) -> None:
    base = DenseRows.of(DenseFeatures(np.zeros((300_000, width), dtype=np.float16)))
    taken = -AheadCache._free_bytes(base, 300_000, 4 * 300_000)
    assert AHEAD_BYTES / 2 < taken <= AHEAD_BYTES


def opened(graph: Graph, rows_bytes: int = 0, fanouts: tuple[int, ...] = (4, 3), **knobs) -> Pipeline:
    fields = {"batch_size": 64, "feature_tier": "disk", **knobs}
    if rows_bytes:
        fields |= {"cache_policy": "ahead", "cache_bytes": rows_bytes + fixed(graph)}
    return Pipeline(graph, TrainConfig(**fields), fanouts, PipelineOptions(seed=7))


def contents(pipeline: Pipeline, epoch: int = 1, start: int = 0) -> list[tuple]:
    """Mini-batches without their hits, which a cache decides."""
    return [(*one[:2], *one[3:]) for one in map(content, pipeline.epoch(epoch, start))]


@pytest.fixture(scope="module")
def expected(graph: Graph) -> list[tuple]:
    with opened(graph) as pipeline:
        return contents(pipeline)


@pytest.fixture(params=[1 << 18, 1500], ids=["a chunk", "chunks"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_CHUNK_NODES", request.param)


@pytest.mark.usefixtures("chunks")
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


@pytest.mark.parametrize("place", ["sample", "read"])
def test_an_epoch_that_its_own_thread_collects_ends(
    graph: Graph, expected: list[tuple], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(ahead, "_CHUNK_NODES", 1500)
    owner = Stages if place == "sample" else BlockReader
    plain, waits, entered, forgotten = getattr(owner, place), *(threading.Event() for _ in range(3))

    def collects(*given: object) -> object:
        if waits.is_set() and not entered.is_set() and threading.current_thread() is not threading.main_thread():
            entered.set()
            assert forgotten.wait(60)
            gc.collect()
        return plain(*given)

    monkeypatch.setattr(owner, place, collects)
    begun = begun_from_here()
    with opened(graph, 1 << 20) as pipeline, uncollected():
        left = pipeline.epoch(1)
        next(left)
        assert happens(lambda: pipeline.store.ahead.ready >= 2)
        waits.set()
        next(left)  # is ready, so a thread works beside it
        assert happens(entered.is_set)
        cycle: list[object] = [left]
        cycle.append(cycle)
        del left, cycle
        forgotten.set()
        assert all_ended(begun)
        assert contents(pipeline) == expected


def test_an_epoch_that_is_collected_within_a_read_ends(
    graph: Graph, expected: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Collecting(Counter):
        def __init__(self, *given: object) -> None:
            gc.collect()
            super().__init__(*given)

    found: list[list[tuple]] = []
    with opened(graph, 1 << 20) as pipeline, uncollected():
        left = pipeline.epoch(1)
        next(left)
        cycle: list[object] = [left]
        cycle.append(cycle)
        del left, cycle
        monkeypatch.setattr(ahead, "Counter", Collecting)
        # If it waits for ever, the test fails instead of doing the same.
        reads = threading.Thread(target=lambda: found.append(contents(pipeline)), daemon=True)
        reads.start()
        reads.join(60)
    assert found == [expected]


def test_a_thread_that_ends_a_collected_epoch_closes_nothing_that_is_collected_beside_it(
    graph: Graph, expected: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, collected = threading.Event(), threading.Event()

    class Samplers(ThreadPoolExecutor):
        def shutdown(self, *given: object, **named: object) -> None:
            ends.set()
            assert collected.wait(60)
            super().shutdown(*given, **named)

    def begun_to_end(end: Callable[[], object]) -> None:
        ordered_map.end_threads(end)
        assert ends.wait(60)

    monkeypatch.setattr(ordered_map, "ThreadPoolExecutor", Samplers)
    begun = begun_from_here()
    with opened(graph, 1 << 20, parallel_mode="sequential") as pipeline, uncollected():
        left = pipeline.epoch(1)
        next(left)
        monkeypatch.setattr(hyperbatches, "end_threads", begun_to_end)
        cycle: list[object] = [left]
        cycle.append(cycle)
        del left, cycle
        gc.collect()  # a generator that already executes would be an unraisable exception, which fails the test
        collected.set()
        assert all_ended(begun)
        assert contents(pipeline) == expected


def test_an_epoch_whose_end_is_interrupted_leaves_the_cache_to_others(
    graph: Graph, expected: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = [KeyboardInterrupt()]

    class Samplers(ThreadPoolExecutor):
        def shutdown(self, *given: object, **named: object) -> None:
            super().shutdown(*given, **named)
            if interrupts:
                raise interrupts.pop()

    monkeypatch.setattr(ordered_map, "ThreadPoolExecutor", Samplers)
    with opened(graph, 1 << 20, parallel_mode="sequential") as pipeline:
        left = pipeline.epoch(1)
        next(left)
        with pytest.raises(KeyboardInterrupt):
            left.close()
        assert not pipeline.store.ahead.in_use.locked()
        assert contents(pipeline) == expected


def test_an_epoch_that_is_collected_under_a_lock_of_its_threads_ends(
    graph: Graph, expected: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, read = CacheStats._replace, BlockReader.read
    reading, collecting = threading.Event(), threading.Event()

    def counted(stats: CacheStats, **changes: object) -> CacheStats:
        if threading.current_thread().name == "reads" and not collecting.is_set():
            collecting.set()
            gc.collect()
        return plain(stats, **changes)

    def read_later(*given: object) -> int:
        reading.set()
        assert collecting.wait(60)
        return read(*given)

    found: list[list[tuple]] = []
    with opened(graph, 1 << 20) as pipeline, uncollected():
        left = pipeline.epoch(1)
        next(left)
        monkeypatch.setattr(CacheStats, "_replace", counted)
        monkeypatch.setattr(BlockReader, "read", read_later)
        while not reading.wait(0.1):
            next(left)
        cycle: list[object] = [left]
        cycle.append(cycle)
        del left, cycle
        reads = threading.Thread(target=lambda: found.append(contents(pipeline)), name="reads", daemon=True)
        reads.start()
        reads.join(60)
        assert found == [expected]


@pytest.fixture
def cache(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> AheadCache:
    monkeypatch.setattr(ahead, "_CHUNK_NODES", 1000)
    found = AheadCache.that_fits(DenseRows.of(graph.features), graph.num_nodes, fixed(graph) + 5000 * 264)
    assert found is not None
    return found


@pytest.fixture
def readers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(blocks.READERS) as found:
        yield found


def read(graph: Graph, cache: AheadCache, ids: np.ndarray) -> int:
    """Returns the rows of `ids` that the cache holds, after a check of all."""
    table = RowTable(np.zeros(len(ids), dtype=np.int64), graph.features.array[:1], ())
    with cache.serving(ids, table):
        held = table.addresses != 0
        slots = (table.addresses[held] - cache._rows.ctypes.data) // graph.features.array.strides[0]
        assert np.array_equal(cache._rows[slots], graph.features.array[ids[held]])
    return int(held.sum())


def test_random_mini_batches_are_served_once_they_are_read(
    graph: Graph, cache: AheadCache, readers: ThreadPoolExecutor
) -> None:
    draw = np.random.default_rng(5)
    flight: list[np.ndarray] = []
    added = finished = 0
    for _ in range(400):
        ids = np.unique(draw.integers(0, graph.num_nodes * draw.integers(1, 4) // 3, 400)).astype(np.int32)
        if draw.random() < 0.4 and cache.fits(ids, 0, 2):
            cache.add(ids, 0)
            flight, added = [*flight, ids], added + 1
        if draw.random() < 0.3 and cache.ready > cache.finished:
            cache.finish()
            flight, finished = flight[1:], finished + 1
        assert cache.advance(readers) or cache.ready > cache.finished
        assert cache.finished == finished
        for place, one in enumerate(flight):
            held = read(graph, cache, one)
            if place < cache.ready - finished:
                assert held == len(one)  # what fits is always held
    assert finished > 20
    assert cache.stats.read_bytes
    cache.clear()
    assert read(graph, cache, np.arange(graph.num_nodes, dtype=np.int32)) == 0


def test_rows_stay_for_the_next_mini_batch_and_for_reads_under_way(
    graph: Graph, cache: AheadCache, readers: ThreadPoolExecutor
) -> None:
    first, second, third = (np.arange(low, low + 3000, dtype=np.int32) for low in (0, 1000, 9000))
    assert cache.add(first, 0) == 3000
    assert cache.add(second, 0) == 1000  # the others are held for the first
    while cache.unready:
        assert cache.advance(readers)
    assert not cache.fits(third, 0, 1)
    cache.add(third, 0)
    table = RowTable(np.zeros(1000, dtype=np.int64), graph.features.array[:1], ())
    with cache.serving(first[:1000], table):
        before = read(graph, cache, first)
        cache.finish()
        assert (before, read(graph, cache, first)) == (3000, 2000)
        assert not all(cache.advance(readers) for _ in range(20))  # the released rows are still read
    assert not all(cache.advance(readers) for _ in range(20))
    cache.finish()
    assert all(cache.advance(readers) for _ in range(20))
    assert read(graph, cache, third) == 3000


def test_rows_beyond_the_room_are_not_served(graph: Graph, cache: AheadCache, readers: ThreadPoolExecutor) -> None:
    everything = np.arange(graph.num_nodes, dtype=np.int32)
    assert cache.fits(everything, 0, 1)  # alone, it is added anyway
    cache.add(everything, 0)
    while cache.unready:
        assert cache.advance(readers)
    assert read(graph, cache, everything) == 5000


def test_an_error_of_a_read_reaches_the_caller(
    graph: Graph, expected: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError("the disk is gone")

    with opened(graph, 1 << 20, parallel_mode="mode1", num_workers=2) as pipeline:
        with monkeypatch.context() as patched:
            patched.setattr(BlockReader, "read", fails)
            with pytest.raises(OSError, match="the disk is gone"):
                contents(pipeline)
        assert contents(pipeline) == expected


def test_rows_are_read_once_per_sweep(graph: Graph) -> None:
    """An epoch takes five sweeps if the buffer holds all rows: four, and one before the first mini-batch."""
    # A read begins and ends with a whole page.
    most = 5 * (graph.features.nbytes + 2 * 4096 * (2 + graph.features.nbytes // blocks.BLOCK_BYTES))
    with opened(graph, graph.features.nbytes + (8 << 20), fanouts=(10, 10)) as pipeline:
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
        got = reader.read(np.array(ids, dtype=np.int32), out, np.arange(len(ids), dtype=np.int32)[::-1].copy())
        assert np.array_equal(out[::-1], array[ids])
        assert out.nbytes <= got <= (ids[-1] - ids[0] + 1) * array.shape[1] * 4 + 2 * 4096


def test_a_map_of_an_unknown_file_is_read_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(40, dtype=np.float32).reshape(10, 4)
    monkeypatch.setattr(blocks, "_file_at", lambda address: None)
    out = np.zeros((2, 4), dtype=np.float32)
    ids, places = np.array([2, 5], dtype=np.int32), np.array([1, 0], dtype=np.int32)
    assert BlockReader(array).read(ids, out, places) == out.nbytes
    assert np.array_equal(out, array[[5, 2]])


def test_a_shortened_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((4096, 8), dtype=np.float32))
    reader = BlockReader(np.load(path, mmap_mode="r"))
    os.truncate(path, 9000)
    out = np.zeros((1, 8), dtype=np.float32)
    with pytest.raises(OSError, match="must have"):
        reader.read(np.array([4000], dtype=np.int32), out, np.zeros(1, dtype=np.int32))


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
