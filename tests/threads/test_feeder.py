from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from a3gnn.threads.feeder import Feeder


def never() -> None:
    pass


def left() -> bool:
    return any(thread.name == "feeder" for thread in threading.enumerate())


def test_items_come_in_order_and_only_when_they_are_asked_for():
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for item in range(3):
            drawn.append(item)
            yield item

    feeder = Feeder(items(), "feeder")
    assert feeder.next(never) == 0
    assert drawn == [0]
    assert [feeder.next(never) for _ in range(3)] == [1, 2, None]
    assert feeder.close(lambda: False)
    assert not left()


def test_what_the_iteration_raises_is_raised_and_it_is_closed_on_its_own_thread():
    closed: list[str] = []

    def items() -> Iterator[int]:
        try:
            yield 0
            raise ValueError("why")
        finally:
            closed.append(threading.current_thread().name)

    feeder = Feeder(items(), "feeder")
    feeder.next(never)
    with pytest.raises(ValueError, match="why"):
        feeder.next(never)
    assert feeder.close(lambda: False)
    early = Feeder(items(), "feeder")
    early.next(never)
    assert early.close(lambda: False)
    assert closed == ["feeder", "feeder"]


def test_who_waits_can_give_up():
    release = threading.Event()

    def items() -> Iterator[int]:
        release.wait(10)
        yield 0

    def late() -> None:
        raise TimeoutError

    feeder = Feeder(items(), "feeder")
    with pytest.raises(TimeoutError):
        feeder.next(late)
    assert not feeder.close(lambda: True)
    release.set()
    deadline = time.monotonic() + 60
    while left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left()
