"""Compiled kernels over ranges of rows, on as many threads as the calling thread may use."""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from a3gnn.hardware import available_cores

# More chunks than threads: a thread that starts late, or whose core is busy, takes fewer of them.
_CHUNKS_A_THREAD = 4
# Bytes that are too few to be worth a second thread: some 100 microseconds of work.
_GRAIN_BYTES = 1 << 19

_cores = functools.cache(available_cores)
_local = threading.local()
_lock = threading.Lock()
_helpers: ThreadPoolExecutor | None = None


def usable_cores() -> int:
    """Returns the cores that this process may run on, or OMP_NUM_THREADS where that asks for fewer."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(_cores(), int(asked)) if asked.isdecimal() and int(asked) > 0 else _cores()


def size() -> int:
    """Returns the threads that the calling thread may use: all usable cores unless `limited`."""
    return getattr(_local, "threads", 0) or usable_cores()


def limit(threads: int) -> None:
    """Lets the calling thread use `threads` threads from now on."""
    _local.threads = threads


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Lets the calling thread use `threads` threads meanwhile."""
    before = getattr(_local, "threads", 0)
    _local.threads = threads
    try:
        yield
    finally:
        _local.threads = before


def grain(rows: int, nbytes: int) -> int:
    """Returns how many rows are too few to share, where `rows` of them read or write `nbytes`."""
    return max(1, _GRAIN_BYTES * rows // max(nbytes, 1))


def in_chunks(function: Callable[[int, int], object], count: int, grain: int) -> None:
    """Calls `function(low, high)` for ranges that cover [0, count), and returns when all have ended.

    `function` must release the GIL where it works, and its ranges must not depend on each other. The calling thread
    works too, and waits for no helper that has not begun: it never deadlocks, however many teams there are.

    Args:
        function: Works on a range.
        count: Rows.
        grain: Rows that are too few to share.
    """
    threads = min(size(), -(-count // grain))
    if threads <= 1:
        function(0, count)
        return
    step = max(grain, -(-count // (threads * _CHUNKS_A_THREAD)))
    starts = itertools.count(0, step)

    def work() -> None:
        # `next` of a count is atomic: each range is taken once.
        while (low := next(starts)) < count:
            function(low, min(low + step, count))

    executor = _executor()
    futures = [executor.submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for future in futures:
            if not future.cancel():
                future.result()


def _executor() -> ThreadPoolExecutor:
    global _helpers
    with _lock:
        if _helpers is None:
            _helpers = ThreadPoolExecutor(
                max(1, _cores() - 1), thread_name_prefix="a3gnn-team", initializer=limit, initargs=(1,)
            )
        return _helpers


def _forget() -> None:
    # A forked child has none of its parent's threads.
    global _helpers, _lock
    _helpers, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
