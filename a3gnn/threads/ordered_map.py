"""Runs a function, or several stages of work, over items on worker threads, in order and bounded."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import islice
from threading import Condition
from typing import Any, TypeVar

from a3gnn.threads.pool import HELPERS

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Longest wait for workers in seconds before the main thread wakes. It handles a signal that comes just before a wait
#: only when it wakes; otherwise Ctrl-C would wait for a worker, perhaps for much longer.
WAKE_S = 1.0
#: Prefix of the names of threads that work for an iteration.
WORKERS = "a3gnn-worker"


#: Whether this thread collects garbage.
_this = threading.local()


def end_threads(end: Callable[[], object]) -> None:
    """Calls `end`, which waits for the threads of an iteration; on a thread of its own if they may wait for this one.

    Garbage collection may close a forgotten iteration on any thread, and anywhere: a worker would wait for itself, and
    a thread that holds a lock, for workers that wait for the lock. At Python's end no thread is left to wait for.
    """
    is_closed = isinstance(sys.exc_info()[1], GeneratorExit)  # or exhausted, such as by a worker that draws from it
    may_wait = threading.current_thread().name.startswith((WORKERS, HELPERS)) or getattr(_this, "collects", False)
    if is_closed and may_wait and not sys.is_finalizing():
        threading.Thread(target=end, name="a3gnn-end").start()
    else:
        end()


def _note_collection(phase: str, _: object) -> None:
    _this.collects = phase == "start"


gc.callbacks.append(_note_collection)


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    runs_ahead: Callable[[], bool] = lambda: True,
    on_start: Callable[[], None] | None = None,
) -> Generator[Result, None, None]:
    """Yields `function(item)` of each item, in the items' order, computed by `workers` threads.

    At most `workers` results are in progress or waiting while the caller holds one. A worker's exception is raised as
    soon as it happens, with the worker's traceback, before results that were due earlier. When the iteration ends
    (exhausted, closed, or by an exception), items that have not begun are canceled and every thread has ended.

    No worker ever waits for the caller. An iteration that is left suspended, such as by the end of a script, therefore
    blocks nothing: Python joins a pool's threads before it closes suspended generators.

    Args:
        function: Must end by itself.
        items: Drawn on the caller's thread, each when a worker is about to begin it.
        workers: Number of threads.
        runs_ahead: Called at each result: whether workers begin further items while the caller holds it. If not, the
            next item begins when its result is requested.
        on_start: Called by each thread before its first item.
    """
    remaining = iter(items)
    pending: deque[Future[Result]] = deque()
    executor = ThreadPoolExecutor(workers, thread_name_prefix=WORKERS, initializer=on_start)

    def begin(count: int) -> None:
        pending.extend(executor.submit(function, item) for item in islice(remaining, max(0, count - len(pending))))

    try:
        while True:
            begin(workers if runs_ahead() else 1)
            if not pending:
                return
            _await_head(pending)
            result = pending.popleft().result()
            if runs_ahead():
                begin(workers)
            yield result
    finally:
        for future in pending:
            future.cancel()
        end_threads(executor.shutdown)


def _await_head(pending: deque[Future[Result]]) -> None:
    while True:
        for future in pending:
            if future.done():
                future.result()
        if pending[0].done():
            return
        wait([future for future in pending if not future.done()], WAKE_S, return_when=FIRST_COMPLETED)


def staged_map(
    items: Iterable[Any], stages: Sequence[Callable[[Any], Any]], depths: Sequence[int]
) -> Generator[Any, None, None]:
    """Yields the result of all `stages`, applied in turn, for each item, in the items' order.

    A stage begins an item after it has ended the item before. The next stage must also have begun the item `depth`
    places earlier; for the last stage, the caller counts, which begins a result when it receives it. A stage's
    exception is raised as soon as it happens, with its traceback, before results that were due earlier. When the
    iteration ends (exhausted, closed, or by an exception), no work begins any more, and every thread has ended.

    No thread ever waits for another or for the caller, so an iteration that is left suspended blocks nothing.

    Args:
        items: Drawn on any thread, by one at a time, each when the first stage begins it.
        stages: Functions of one item; they must end by themselves.
        depths: For each stage, most items that it may be ahead of the next stage, or of the caller: at least 1.
    """
    stack = ExitStack()
    threads = [stack.enter_context(ThreadPoolExecutor(1, WORKERS)) for _ in stages]
    line = _Line(items, stages, depths, threads)
    stack.callback(line.stop)  # first; it waits for a thread that draws an item
    try:
        while line.wait():
            yield line.take()
    finally:
        end_threads(stack.close)


class _Line:
    """The items that each stage has begun, and the results that wait for it; each change may start further work."""

    def __init__(
        self,
        items: Iterable[Any],
        stages: Sequence[Callable[[Any], Any]],
        depths: Sequence[int],
        threads: Sequence[ThreadPoolExecutor],
    ) -> None:
        self._items, self._stages, self._depths, self._threads = iter(items), stages, depths, threads
        self._condition = Condition()
        self._begun = [0] * (len(stages) + 1)  # the last entry is the caller's
        self._waiting: list[deque[Any]] = [deque() for _ in self._begun]
        self._works = [False] * len(stages)
        self._is_drawn = self._has_stopped = False
        self._error: BaseException | None = None

    def wait(self) -> bool:
        """Waits for the next result, and returns whether there is one.

        Raises:
            BaseException: A stage's exception.
        """
        with self._condition:
            self._begin_what_may()
            while not self._condition.wait_for(lambda: self._error or self._waiting[-1] or self._has_ended, WAKE_S):
                continue
            if self._error is not None:
                raise self._error
            return bool(self._waiting[-1])

    def take(self) -> Any:
        """Returns the next result, which the caller thereby begins."""
        with self._condition:
            self._begun[-1] += 1
            self._begin_what_may()
            return self._waiting[-1].popleft()

    def stop(self) -> None:
        """Prevents any further work from beginning."""
        with self._condition:
            self._has_stopped = True

    @property
    def _has_ended(self) -> bool:
        return self._is_drawn and not any(self._works) and not any(self._waiting)

    def _begin_what_may(self) -> None:
        # The last stage first, because its beginnings make room for earlier stages.
        for place in reversed(range(len(self._stages))):
            if self._works[place] or self._begun[place] >= self._begun[place + 1] + self._depths[place]:
                continue
            if not (place or self._waiting[0] or self._is_drawn or self._has_stopped):
                self._draw()
            if self._waiting[place] and not self._has_stopped:
                self._works[place] = True
                self._begun[place] += 1
                self._threads[place].submit(self._work, place, self._waiting[place].popleft())

    def _draw(self) -> None:
        try:
            self._waiting[0].append(next(self._items))
        except StopIteration:
            self._is_drawn = True
        except BaseException as raised:
            self._fail(raised)

    def _work(self, place: int, item: Any) -> None:
        result, error = None, None
        try:
            result = self._stages[place](item)
        except BaseException as raised:  # raised again in `wait`
            error = raised
        with self._condition:
            self._works[place] = False
            if error is None:
                self._waiting[place + 1].append(result)
                self._begin_what_may()
            else:
                self._fail(error)
            self._condition.notify_all()

    def _fail(self, error: BaseException) -> None:
        self._error, self._has_stopped = self._error or error, True
