"""Runs a function over items on worker threads, in order and bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Seconds after which whoever waits for workers wakes at the latest. A signal that comes just before the main thread
#: waits is handled only when that wakes: Ctrl-C would wait for a worker that may wait for much longer.
WAKE_S = 1.0


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    runs_ahead: Callable[[], bool] = lambda: True,
    on_start: Callable[[], None] | None = None,
    ahead: int | None = None,
) -> Generator[Result, None, None]:
    """Yields `function(item)` of each item, in the items' order, computed by `workers` threads.

    At most `ahead` results are under way or waiting while the caller holds one. A worker's exception is raised as
    soon as it happens, with the worker's traceback, ahead of results that were due before it. However the iteration
    ends (exhausted, closed, or by an exception), what has not begun is cancelled and every thread has ended.

    No worker ever waits for the caller, so an iteration that is left suspended, such as by the end of a script, holds
    nothing up: Python joins a pool's threads before it closes what still iterates.

    Args:
        function: Must end by itself.
        items: Drawn on the caller's thread, each when a worker is to begin it.
        workers: Threads.
        runs_ahead: Asked at each result: whether workers begin further items while the caller holds it. If not, the
            next item begins when its result is asked for.
        on_start: Called by each thread before its first item.
        ahead: See above; more than `workers` smooths what varies from item to item. None for `workers`.
    """
    most = workers if ahead is None else ahead
    remaining = iter(items)
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="a3gnn-worker", initializer=on_start) as executor:

        def begin(count: int) -> None:
            pending.extend(executor.submit(function, item) for item in islice(remaining, max(0, count - len(pending))))

        try:
            while True:
                begin(most if runs_ahead() else 1)
                if not pending:
                    return
                _await_head(pending)
                result = pending.popleft().result()
                if runs_ahead():
                    begin(most)
                yield result
        finally:
            for future in pending:
                future.cancel()


def _await_head(pending: deque[Future[Result]]) -> None:
    while True:
        for future in pending:
            if future.done():
                future.result()
        if pending[0].done():
            return
        wait([future for future in pending if not future.done()], WAKE_S, return_when=FIRST_COMPLETED)
