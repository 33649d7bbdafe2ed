"""What of the machine's limits sampling and gathering reach.

The limits are measured in this process, on the memory that a3gnn works on. Of a sampler's random reads, those that it
can't avoid are counted beside those that it issues.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.threads import pool
from benchmarks.engine.workers.work import Unavailable

_ENTRIES_PER_LINE = 16  # int32 in a cache line of 64 bytes


class Reads(NamedTuple):
    """Random reads of one mini-batch.

    Attributes:
        pointers: Reads of `indptr`: one per row, since a row's two pointers are adjacent.
        slots: Reads of `indices`.
        relabel: Reads of the map from global to local ids.
    """

    pointers: float
    slots: float
    relabel: float


def issued_reads(picks: NDArray[np.int64], num_nodes: int) -> Reads:
    """Returns the reads of sampling: a slot and a look-up per pick, and clearing each node's entry in the map.

    Args:
        picks: In-neighbors sampled of each row, shape (num_rows,).
        num_nodes: Distinct nodes of the mini-batch.
    """
    total = float(picks.sum())
    return Reads(float(len(picks)), total, total + num_nodes)


def unavoidable_lines(degrees: NDArray[np.int64], picks: NDArray[np.int64], num_nodes: int) -> Reads:
    """Returns the distinct cache lines that a mini-batch needs, `picks` of `degrees` in-neighbors per row.

    All lines of a row that is taken whole; else `picks` random ones among `lines` lines touch
    `lines * (1 - (1 - 1 / lines) ** picks)` of them on average. Of the map each node when it is first met and when
    it is cleared.
    """
    lines = np.ceil(degrees / _ENTRIES_PER_LINE)
    safe = np.maximum(lines, 1)
    touched = np.where(picks >= degrees, lines, safe * (1 - (1 - 1 / safe) ** picks))
    return Reads(float(len(degrees)), float(touched.sum()), 2.0 * num_nodes)


def least_seconds(reads: Reads, rates: Reads) -> float:
    """Returns the seconds that `reads` take where each array's random reads run at the limit measured for its size."""
    return reads.pointers / rates.pointers + reads.slots / rates.slots + reads.relabel / rates.relabel


_READS = 1 << 22
_REPEATS = 5


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _sum_at(array: NDArray[np.int32], places: NDArray[np.int32]) -> np.int64:
    # Four sums: additions are independent, so as many cache misses are in flight as the core supports.
    a, b, c, d = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for i in range(0, len(places) - 3, 4):
        a += array[places[i]]
        b += array[places[i + 1]]
        c += array[places[i + 2]]
        d += array[places[i + 3]]
    return a + b + c + d


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _copy_rows(rows: NDArray[Any], ids: NDArray[np.int64], out: NDArray[Any]) -> None:
    for i in range(len(ids)):
        out[i, :] = rows[ids[i], :]


def random_reads_per_s(num_entries: int) -> float:
    """Returns the independent random 4-byte reads per second of one thread over an int32 array of `num_entries`.

    The places come from an array that is read in order, which costs next to nothing: the fastest of several passes.
    """
    array = np.ones(max(num_entries, 1), dtype=np.int32)  # written, so that every page is its own
    random = np.random.default_rng(0)
    places = random.integers(0, len(array), _READS, dtype=np.int32)
    _sum_at(array, places[:4])
    best = min(_seconds(lambda: _sum_at(array, places)) for _ in range(_REPEATS))
    return _READS / best


def copy_bytes_per_s(num_bytes: int = 1 << 28) -> float:
    """Returns the bytes per second of one thread copying a long array into a warm one; each byte counts once."""
    source = np.ones(num_bytes, dtype=np.uint8)
    target = np.ones(num_bytes, dtype=np.uint8)
    return num_bytes / min(_seconds(lambda: np.copyto(target, source)) for _ in range(_REPEATS))


class RowCopies:
    """Bare copies of rows into a warm buffer, by several methods; the fastest is the limit.

    Args:
        rows: float32 or float16, shape (num_nodes, num_features).
        threads: Thread counts that are tried.
    """

    def __init__(self, rows: NDArray[Any], threads: tuple[int, ...] = (1, 2)) -> None:
        self._rows = rows
        self._team = ThreadPoolExecutor(max(threads))
        self.means: dict[str, Callable[[NDArray[np.int64], NDArray[Any]], object]] = {"numpy take": self._take}
        for count in threads:
            self.means[f"torch index_select, {count} threads"] = partial(self._select, count)
            self.means[f"numba loop, {count} threads"] = partial(self._loop, count)

    def seconds(self, ids: NDArray[np.int64], out: NDArray[Any]) -> dict[str, float]:
        """Returns the seconds of one copy of rows `ids` into `out` by each method."""
        return {name: _seconds(partial(copy, ids, out)) for name, copy in self.means.items()}

    def close(self) -> None:
        """Ends the threads."""
        self._team.shutdown()

    def _take(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        np.take(self._rows, ids, axis=0, out=out, mode="clip")  # "raise" would go through a buffer

    def _select(self, threads: int, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        torch.index_select(torch.from_numpy(self._rows), 0, torch.from_numpy(ids), out=torch.from_numpy(out))
        torch.set_num_threads(before)

    def _loop(self, threads: int, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        step = -(-len(ids) // threads)
        # numba has no float16; copying bits is the same.
        rows, bits = (array.view(np.uint16 if array.itemsize == 2 else array.dtype) for array in (self._rows, out))
        parts = [(ids[low : low + step], bits[low : low + step]) for low in range(0, len(ids), step)]
        list(self._team.map(lambda part: _copy_rows(rows, *part), parts))


def medians(times: list[dict[str, float]]) -> dict[str, float]:
    """Returns the median of each name over `times`."""
    return {name: statistics.median(one[name] for one in times) for name in times[0]}


def _seconds(call: Callable[[], object]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


_WARM_UP = 2


def measure_limits(graph: Graph) -> dict[str, float]:
    """Returns the rate of random reads over arrays of the sizes that sampling `graph` reads, and of copying."""
    return {
        "slots_reads_per_s": random_reads_per_s(graph.num_edges),
        "pointers_reads_per_s": random_reads_per_s(2 * (graph.num_nodes + 1)),
        "relabel_reads_per_s": random_reads_per_s(graph.num_nodes),
        "copy_bytes_per_s": copy_bytes_per_s(),
    }


def sampler_share(graph: Graph, fanouts: tuple[int, ...], batch_size: int, count: int) -> dict[str, Any]:
    """Returns the sampler's share of the random-read limits, one thread, over `count` mini-batches.

    Each read is charged at the limit of an array as large as the one that it reads. `share` counts the reads that are
    asked for; `unavoidable_share` only distinct cache lines, as if picks that share one were free.
    """
    sampler = Sampler(graph.edges, fanouts, seed=1)
    order = np.random.default_rng(1).permutation(graph.train_ids)
    first = measure_limits(graph)
    timed: list[tuple[Reads, Reads, float]] = []
    with pool.limited(1):
        for batch in range(count + _WARM_UP):
            seeds = np.roll(order, -batch * batch_size)[:batch_size].astype(np.int32)
            begin = perf_counter()
            subgraph = sampler.sample(seeds, 0, batch)
            seconds = perf_counter() - begin
            if batch >= _WARM_UP:
                timed.append((*_reads(graph, subgraph), seconds))
    limits = {name: max(rate, first[name]) for name, rate in measure_limits(graph).items()}
    rates = Reads(limits["pointers_reads_per_s"], limits["slots_reads_per_s"], limits["relabel_reads_per_s"])
    shares = [least_seconds(issued, rates) / seconds for issued, _, seconds in timed]
    lines = [least_seconds(unavoidable, rates) / seconds for _, unavoidable, seconds in timed]
    columns = zip(Reads._fields, zip(*(issued for issued, _, _ in timed), strict=True), strict=True)
    return {
        "share": statistics.median(shares),
        "shares": shares,
        "unavoidable_share": statistics.median(lines),
        "reads_per_batch": {name: statistics.median(column) for name, column in columns},
        "limits": limits,
    }


def gather_share(graph: Graph, fanouts: tuple[int, ...], batch_size: int, count: int) -> dict[str, Any]:
    """Returns how long a bare copy of the same rows takes beside the feature store's read, over `count` mini-batches.

    The two alternate, write into warm buffers and may use two threads.

    Raises:
        Unavailable: The features are sparse.
    """
    if not isinstance(graph.features, DenseFeatures):
        raise Unavailable("features are sparse")
    copies = RowCopies(graph.features.array)
    ours: list[float] = []
    theirs: list[dict[str, float]] = []
    row_bytes = graph.features.row_bytes
    moved = 0.0
    with Pipeline(graph, TrainConfig(batch_size=batch_size), fanouts, PipelineOptions(seed=1)) as pipeline:
        ids = [batch.subgraph.n_id for batch, _ in zip(pipeline.epoch(0), range(count + _WARM_UP), strict=False)]
        rows = max(map(len, ids))
        warm = torch.zeros((rows, graph.num_features))
        target = np.ones((rows, graph.num_features), dtype=graph.features.array.dtype)
        for n_id in ids:
            begin = perf_counter()
            pipeline.store.read(n_id, warm[: len(n_id)])
            ours.append(perf_counter() - begin)
            theirs.append(copies.seconds(n_id.astype(np.int64), target[: len(n_id)]))
            moved = len(n_id) * row_bytes
    copies.close()
    by_means = medians(theirs[_WARM_UP:])
    best = min(by_means, key=by_means.__getitem__)
    shares = [copied[best] / read for copied, read in zip(theirs[_WARM_UP:], ours[_WARM_UP:], strict=True)]
    return {
        "share": statistics.median(shares),
        "shares": shares,
        "means": best,
        "copy_ms": {name: seconds * 1e3 for name, seconds in by_means.items()},
        "read_ms": statistics.median(ours[_WARM_UP:]) * 1e3,
        "bytes_per_s": moved / by_means[best],
    }


def _reads(graph: Graph, subgraph: Subgraph) -> tuple[Reads, Reads]:
    """Returns the reads that are asked for, and the lines that can't be avoided."""
    rows = subgraph.n_id[: len(subgraph.indptr) - 1].astype(np.int64)
    degrees = graph.indptr[rows + 1] - graph.indptr[rows]
    picks = np.diff(subgraph.indptr).astype(np.int64)
    return issued_reads(picks, subgraph.num_nodes), unavoidable_lines(degrees, picks, subgraph.num_nodes)
