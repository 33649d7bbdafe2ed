"""Runs compiled kernels over ranges of rows, on as many threads as the calling thread may use."""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from a3gnn.threads import affinity
from a3gnn.threads.affinity import available_cores

# Chunks per thread: more than one, because a thread that starts late, or on a busy core, takes fewer. Guess.
_CHUNKS_PER_THREAD = 4
# Bytes of work below which a second thread does not pay: about 100 microseconds. Guess.
_GRAIN_BYTES = 1 << 19

#: Prefix of the names of helper threads.
HELPERS = "a3gnn-pool"
_cores = functools.cache(available_cores)
_local = threading.local()
_lock = threading.Lock()
_helpers: ThreadPoolExecutor | None = None


@dataclass(slots=True)
class ThreadShare:
    """Threads and cores that one thread may use."""

    threads: int = 0  # number of threads; 0 for all usable cores
    cores: frozenset[int] = frozenset()  # cores of its helper threads; an empty set for any


def usable_cores() -> int:
    """Returns the number of cores that this process may run on, or OMP_NUM_THREADS if that is less."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(_cores(), int(asked)) if asked.isdecimal() and int(asked) > 0 else _cores()


def size() -> int:
    """Returns the number of threads that the calling thread may use: all usable cores unless `limited`."""
    return share().threads or usable_cores()


def share() -> ThreadShare:
    """Returns the calling thread's share, which any thread may change."""
    found: ThreadShare | None = getattr(_local, "share", None)
    if found is None:
        found = _local.share = ThreadShare()
    return found


def limit(threads: int, cores: frozenset[int] = frozenset()) -> None:
    """Lets the calling thread use `threads` threads from now on, with its helpers on `cores` if given."""
    mine = share()
    mine.threads, mine.cores = threads, cores


@contextmanager
def limited(threads: int, cores: frozenset[int] = frozenset()) -> Iterator[None]:
    """Lets the calling thread use `threads` threads in its context, with its helpers on `cores` if given."""
    mine = share()
    before = (mine.threads, mine.cores)
    limit(threads, cores)
    try:
        yield
    finally:
        limit(*before)


def grain(rows: int, nbytes: int) -> int:
    """Returns the number of rows below which sharing does not pay, if `rows` of them read or write `nbytes`."""
    return max(1, _GRAIN_BYTES * rows // max(nbytes, 1))


def in_chunks(function: Callable[[int, int], object], count: int, grain: int) -> None:
    """Calls `function(low, high)` for ranges that cover [0, count), and returns when all have ended.

    `function` must release the GIL while it works, and its ranges must not depend on each other. The calling thread
    works too, and does not wait for helpers that have not begun, so it never deadlocks, however many threads call this
    at once.

    Args:
        function: Works on a range.
        count: Number of rows.
        grain: Rows below which sharing does not pay.
    """
    threads = min(size(), -(-count // grain))
    if threads <= 1:
        function(0, count)
        return
    step = max(grain, -(-count // (threads * _CHUNKS_PER_THREAD)))
    starts = itertools.count(0, step)

    def work() -> None:
        # `next` of a count is atomic, so each range is taken once.
        while (low := next(starts)) < count:
            function(low, min(low + step, count))

    cores = share().cores

    def help_out() -> None:
        _move(cores)
        work()

    executor = _executor()
    futures = [executor.submit(help_out) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for future in futures:
            if not future.cancel():
                future.result()


def _move(cores: frozenset[int]) -> None:
    # A helper stays on the cores of its last caller. A new one begins on the cores of the thread that started it.
    if getattr(_local, "place", None) != cores:
        affinity.pin(cores or affinity.home())
        _local.place = cores


def _executor() -> ThreadPoolExecutor:
    global _helpers
    with _lock:
        if _helpers is None:
            _helpers = ThreadPoolExecutor(
                max(1, _cores() - 1), thread_name_prefix=HELPERS, initializer=limit, initargs=(1,)
            )
        return _helpers


def _forget() -> None:
    # A forked child has none of its parent's threads.
    global _helpers, _lock
    _helpers, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
