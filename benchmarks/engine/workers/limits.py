"""The machine's limits, measured by the benchmark's own code: random reads and row copies per second, one thread."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

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
