"""Constants of the analytic model: the speed of this host, measured in a few seconds in a separate process."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from a3gnn.machine.other_work import OtherWork
from a3gnn.storage.compiled import njit
from a3gnn.storage.csr_tensor import csr

#: About the sizes of a mini-batch of the default configuration: input rows, features, hidden units, in-neighbors.
_ROWS, _FEATURES, _HIDDEN, _FANOUT = 10_000, 128, 256, 10
#: Larger than the last-level cache that a core sees: 32 to 96 MB on AMD's EPYC 9004, 112.5 MB on Intel's Xeon 8490H
#: (data sheets); rows of 400 bytes.
_TABLE_BYTES, _ROW_FLOATS = 1 << 27, 100
#: Random reads: some tenths of a second, in which a user waits.
_READS = 4_000_000
#: Reads and seconds for each constant in a check: a third of a second in all. Calls are short, so some run
#: undisturbed.
_CHECKED_READS, _CHECK_SECONDS = 1 << 18, 0.06
#: Repetitions, and their seconds. The fastest repetition counts, because other work only ever slows one down.
_MIN_REPEATS, _MAX_REPEATS, _SECONDS = 3, 50, 0.25


def measure_host(argument: dict[str, Any]) -> dict[str, Any]:
    """Returns the host's part of `MachineProfile`, and the cores that other work took during the measurement.

    It makes a file of about 130 MB in the folder `argument["scratch"]`, and removes it.
    """
    others = OtherWork()
    table = np.ones(_TABLE_BYTES // 4, dtype=np.int32)
    one, efficiency = _reads(table)
    rows = _rows(table)
    constants = {
        "random_reads_per_s": one,
        "thread_efficiency": efficiency,
        "copy_bytes_per_s": _copy(rows),
        "disk_read_bytes_per_s": _disk(rows, Path(argument["scratch"]) / "rows.npy"),
        "gemm_flops_per_s": gemm(torch.device("cpu")),
        "bf16_gemm_flops_per_s": gemm(torch.device("cpu"), torch.bfloat16),
        "spmm_bytes_per_s": _spmm(),
        "batch_overhead_s": _batch_overhead(),
    }
    return {"constants": constants, "other_work_cores": others.cores()}


def check_host(argument: dict[str, Any]) -> dict[str, Any]:
    """Returns some constants of `measure_host` after a third of a second, and the cores that other work took.

    They show whether the stored constants are still valid; `argument` is not used.
    """
    others = OtherWork()
    table, seeds = np.ones(_TABLE_BYTES // 4, dtype=np.int32), itertools.count(1)
    seconds = fastest(lambda: random_reads(table, _CHECKED_READS, np.uint64(next(seeds))), _CHECK_SECONDS)
    constants = {
        "random_reads_per_s": _CHECKED_READS / seconds,
        "copy_bytes_per_s": _copy(_rows(table), _CHECK_SECONDS),
        "gemm_flops_per_s": gemm(torch.device("cpu"), seconds=_CHECK_SECONDS),
    }
    return {"constants": constants, "other_work_cores": others.cores()}


def warm_up() -> None:
    """Compiles the kernel of the probe or loads it from numba's cache."""
    random_reads(np.ones(2, dtype=np.int32), 1, np.uint64(1))


def fastest(function: Callable[[], object], seconds: float = _SECONDS) -> float:
    """Returns the seconds of the fastest of several calls, after one untimed call, in about `seconds` altogether."""
    function()
    best, total, calls = float("inf"), 0.0, 0
    while calls < _MIN_REPEATS or (total < seconds and calls < _MAX_REPEATS):
        begun = time.perf_counter()
        function()
        taken = time.perf_counter() - begun
        best, total, calls = min(best, taken), total + taken, calls + 1
    return best


def gemm(device: torch.device, dtype: torch.dtype = torch.float32, *, seconds: float = _SECONDS) -> float:
    """Returns operations per second of matrix products of a mini-batch's size on `device` in `dtype`, 2 m n k each."""
    left = torch.ones(_ROWS, _FEATURES, device=device, dtype=dtype)
    right = torch.ones(_FEATURES, _HIDDEN, device=device, dtype=dtype)
    out = torch.empty(_ROWS, _HIDDEN, device=device, dtype=dtype)

    def product() -> None:
        torch.mm(left, right, out=out)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return 2 * _ROWS * _FEATURES * _HIDDEN / fastest(product, seconds)


@njit(cache=True, nogil=True)
def random_reads(table: NDArray[np.int32], reads: int, seed: np.uint64) -> np.int64:
    """Returns the sum of `reads` entries of `table`, of power-of-two length, at independent pseudo-random places."""
    mask = np.uint64(len(table) - 1)
    state, total = seed, np.int64(0)
    for _ in range(reads):
        # Knuth's MMIX generator; its high bits are the random ones.
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        total += table[(state >> np.uint64(33)) & mask]
    return total


def _reads(table: np.ndarray) -> tuple[float, float]:
    """Returns reads per second of one thread, and the throughput of two threads divided by twice that, at most 1."""

    def read(seed: int = 1) -> None:
        random_reads(table, _READS, np.uint64(seed))

    def read_twice() -> None:
        other = threading.Thread(target=read, args=(2,))
        other.start()
        read()
        other.join()

    one, two = fastest(read), fastest(read_twice)
    return _READS / one, min(1.0, one / two)


def _rows(table: np.ndarray) -> np.ndarray:
    """Returns `table` as rows of features."""
    rows: np.ndarray = table.view(np.float32)[: len(table) // _ROW_FLOATS * _ROW_FLOATS].reshape(-1, _ROW_FLOATS)
    return rows


def _copy(rows: np.ndarray, seconds: float = _SECONDS) -> float:
    """Returns bytes per second of copying random rows into a warm buffer, one thread."""
    picked = _picked(len(rows))
    source, index = torch.from_numpy(rows), torch.from_numpy(picked)
    out = torch.zeros(len(picked), rows.shape[1])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    taken = fastest(lambda: torch.index_select(source, 0, index, out=out), seconds)
    torch.set_num_threads(threads)
    return out.nbytes / taken


def _disk(rows: np.ndarray, path: Path) -> float:
    """Returns bytes per second of copying random rows from a new memory map of a file in the page cache."""
    picked = _picked(len(rows))
    out = np.zeros((len(picked), rows.shape[1]), dtype=np.float32)
    np.save(path, rows)
    try:
        return out.nbytes / fastest(lambda: np.take(np.load(path, mmap_mode="r"), picked, axis=0, out=out, mode="clip"))
    finally:
        path.unlink()


def _picked(num_rows: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, num_rows, size=_ROWS)


def _spmm() -> float:
    """Returns bytes of gathered rows per second in a CSR aggregation, all cores."""
    matrix, dense = _block(_ROWS, _FANOUT), torch.ones(_ROWS, _FEATURES)
    return _ROWS * _FANOUT * _FEATURES * 4 / fastest(lambda: torch.sparse.mm(matrix, dense))


def _batch_overhead() -> float:
    """Returns the seconds of one training step of a two-layer model over a handful of nodes."""
    size = 8
    matrix, x, y = _block(size, 2), torch.ones(size, size), torch.zeros(size, dtype=torch.long)
    layers = nn.ModuleList([nn.Linear(size, size) for _ in range(4)])
    optimizer = torch.optim.Adam(layers.parameters())

    def step() -> None:
        optimizer.zero_grad()
        hidden = torch.relu(layers[0](torch.sparse.mm(matrix, x)) + layers[1](x))
        logits = layers[2](torch.sparse.mm(matrix, hidden)) + layers[3](hidden)
        torch.autograd.backward(nn.functional.cross_entropy(logits, y))
        optimizer.step()

    return fastest(step)


def _block(rows: int, fanout: int) -> torch.Tensor:
    """Returns a square CSR matrix of ones with `fanout` entries per row at random columns, float32."""
    columns = np.random.default_rng(0).integers(0, rows, size=(rows, fanout))
    columns.sort(axis=1)
    indptr = torch.arange(0, rows * fanout + 1, fanout)
    return csr(indptr, torch.from_numpy(columns.reshape(-1)), torch.ones(rows * fanout), (rows, rows))
