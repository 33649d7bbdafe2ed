"""`held`: the calling thread, kept to some threads and cores while it trains."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from a3gnn.threads import affinity, pool


@dataclass(slots=True)
class _Before:
    """What a thread had before it was first held, and how many holds are on it."""

    thread: int
    share: pool.ThreadShare
    threads: int
    helpers: frozenset[int]
    cores: frozenset[int]
    torch_threads: int
    holds: int = 0

    def restore(self) -> None:
        """Gives the thread back what it had, whichever thread calls."""
        self.share.threads, self.share.cores = self.threads, self.helpers
        affinity.pin(self.cores, self.thread)
        torch.set_num_threads(self.torch_threads)


_lock = threading.Lock()
_held: dict[int, _Before] = {}


@contextmanager
def held(threads: int, cores: frozenset[int] = frozenset()) -> Iterator[None]:
    """Gives the calling thread `threads` threads of torch and of `pool` meanwhile, and keeps it to `cores`.

    Holds of one thread may end in any order, and in another thread, as generators do: what the last begun one says
    counts, and the thread has again what it had before the first when all have ended. OpenMP's threads run where the
    thread that starts them ran: those of an earlier parallel region stay where they are, so that of torch's own work
    the number of threads is kept to, and the cores only by threads that start meanwhile.

    Args:
        threads: Threads.
        cores: Cores; none leave the thread where it is.
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
