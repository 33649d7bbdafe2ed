"""Runs a function over items on worker threads, in order and bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Longest wait for workers in seconds before the main thread wakes. It handles a signal that comes just before a wait
#: only when it wakes; otherwise Ctrl-C would wait for a worker, perhaps for much longer.
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

    At most `ahead` results are in progress or waiting while the caller holds one. A worker's exception is raised as
    soon as it happens, with the worker's traceback, before results that were due earlier. When the iteration ends
    (exhausted, closed, or by an exception), items that have not begun are cancelled and every thread has ended.

    No worker ever waits for the caller. An iteration that is left suspended, such as by the end of a script, therefore
    blocks nothing: Python joins a pool's threads before it closes suspended generators.

    Args:
        function: Must end by itself.
        items: Drawn on the caller's thread, each when a worker is about to begin it.
        workers: Number of threads.
        runs_ahead: Called at each result: whether workers begin further items while the caller holds it. If not, the
            next item begins when its result is requested.
        on_start: Called by each thread before its first item.
        ahead: Results in progress or waiting; more than `workers` smooths variation between items. None for `workers`.
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
