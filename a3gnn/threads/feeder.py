"""`Feeder`: draws an iteration's items on a separate thread, so its caller can give up waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from a3gnn.notify import LOOK_S

Item = TypeVar("Item")


class Feeder(Generic[Item]):
    """Draws items on a thread that runs nothing else. The iteration is closed on that thread too, which then ends.

    Args:
        items: No other code may draw from it afterwards.
        name: Name of the thread.
    """

    def __init__(self, items: Generator[Item, None, None], name: str) -> None:
        self._items = items
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._given: SimpleQueue[tuple[Item | None, BaseException | None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def next(self, check: Callable[[], None]) -> Item | None:
        """Returns the next item, None after the last one; exceptions from drawing it are raised here.

        Args:
            check: Called every `LOOK_S` during the wait; an exception from it ends the waiting.
        """
        self._asked.put(True)
        while True:
            try:
                item, error = self._given.get(timeout=LOOK_S)
            except Empty:
                check()
                continue
            if error is not None:
                raise error
            return item

    def close(self, gives_up: Callable[[], bool]) -> bool:
        """Closes the iteration, and returns whether its thread has ended.

        Args:
            gives_up: Called every `LOOK_S`; True ends the waiting.
        """
        self._asked.put(False)
        self._thread.join(LOOK_S)
        while self._thread.is_alive() and not gives_up():
            self._thread.join(LOOK_S)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            while self._asked.get():
                try:
                    self._given.put((next(self._items, None), None))
                except BaseException as error:  # raised again in `next`
                    self._given.put((None, error))
        finally:
            self._items.close()
