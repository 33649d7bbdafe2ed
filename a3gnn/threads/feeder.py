"""`Feeder`: an iteration on a thread of its own, an item at a time, so that its caller can give up waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")
#: Seconds between two checks of whoever waits. Guess.
TICK_S = 0.1


class Feeder(Generic[Item]):
    """Draws items where nothing but it runs. The iteration is closed there, too, and its thread ends with it.

    Args:
        items: Nobody else draws from it from now on.
        name: Of the thread.
    """

    def __init__(self, items: Generator[Item, None, None], name: str) -> None:
        self._items = items
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._given: SimpleQueue[tuple[Item | None, BaseException | None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def next(self, check: Callable[[], None]) -> Item | None:
        """Returns the next item, None after the last one; what drawing it raises is raised here.

        Args:
            check: Called every tenth of a second meanwhile; what it raises ends the waiting.
        """
        self._asked.put(True)
        while True:
            try:
                item, error = self._given.get(timeout=TICK_S)
            except Empty:
                check()
                continue
            if error is not None:
                raise error
            return item

    def close(self, gives_up: Callable[[], bool]) -> bool:
        """Closes the iteration, and returns whether its thread has ended.

        Args:
            gives_up: Asked every tenth of a second whether it is not waited for any more.
        """
        self._asked.put(False)
        self._thread.join(TICK_S)
        while self._thread.is_alive() and not gives_up():
            self._thread.join(TICK_S)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            while self._asked.get():
                try:
                    self._given.put((next(self._items, None), None))
                except BaseException as error:  # raised where the item was asked for
                    self._given.put((None, error))
        finally:
            self._items.close()
