"""`held`: limits the calling thread to some threads and cores while it trains."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from a3gnn.threads import affinity, pool


@dataclass(slots=True)
class _Before:
    """A thread's settings before its first hold, and the number of its holds."""

    thread: int
    share: pool.ThreadShare
    threads: int
    helpers: frozenset[int]
    cores: frozenset[int]
    torch_threads: int
    holds: int = 0

    def restore(self) -> None:
        """Restores the thread's settings; any thread may call this."""
        self.share.threads, self.share.cores = self.threads, self.helpers
        affinity.pin(self.cores, self.thread)
        torch.set_num_threads(self.torch_threads)


_lock = threading.Lock()
_held: dict[int, _Before] = {}


@contextmanager
def held(threads: int, cores: frozenset[int] = frozenset()) -> Iterator[None]:
    """Gives the calling thread `threads` threads of torch and of `pool` for its context, and keeps it to `cores`.

    Holds of one thread may end in any order, and in another thread, as with generators. The last hold that began
    counts; after all have ended, the thread has its original settings again. OpenMP's threads run on the cores of the
    thread that starts them, and threads of an earlier parallel region stay where they are. So torch's own work keeps to
    the number of threads, but only new threads keep to the cores.

    Args:
        threads: Number of threads, the calling one included.
        cores: Cores; an empty set leaves the thread where it is.
    """
    thread = threading.get_native_id()
    with _lock:
        before = _held.setdefault(thread, _now(thread))
        before.holds += 1
    pool.limit(threads, cores)
    affinity.pin(cores, thread)
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        with _lock:
            before.holds -= 1
            if not before.holds:
                del _held[thread]
                before.restore()


def _now(thread: int) -> _Before:
    share = pool.share()
    return _Before(thread, share, share.threads, share.cores, affinity.cores(), torch.get_num_threads())
