import threading
import time

import pytest

from a3gnn.features.policies.line import Line


def queued(line: Line, number: int, served: list[int]) -> threading.Thread:
    """Starts a thread that waits in `line`, and returns once it does."""

    def serve() -> None:
        with line.turn():
            served.append(number)

    waiting = len(line._waiting)
    thread = threading.Thread(target=serve)
    thread.start()
    while len(line._waiting) == waiting:
        time.sleep(1e-4)
    return thread


def test_threads_are_served_in_the_order_in_which_they_came() -> None:
    line, served = Line(), []
    with line.turn():
        threads = [queued(line, number, served) for number in range(8)]
        assert served == []
    for thread in threads:
        thread.join()
    assert served == list(range(8))


def test_one_at_a_time() -> None:
    line, inside, most = Line(), [], []

    def work() -> None:
        for _ in range(50):
            with line.turn():
                inside.append(1)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(most) == 200


def fail(line: Line, waiting: list[threading.Thread], served: list[int]) -> None:
    with line.turn():
        waiting.append(queued(line, 1, served))
        raise RuntimeError("broken")


def test_a_failing_query_lets_the_next_one_in() -> None:
    line, waiting, served = Line(), [], []
    with pytest.raises(RuntimeError, match="broken"):
        fail(line, waiting, served)
    waiting[0].join()
    assert served == [1]
