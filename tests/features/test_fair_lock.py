import threading
import time

import pytest

from a3gnn.features.cache import FairLock


def queued(lock: FairLock, number: int, served: list[int]) -> threading.Thread:
    """Starts a thread that waits for `lock`, and returns once it does."""

    def serve() -> None:
        with lock.held():
            served.append(number)

    waiting = len(lock._waiting)
    thread = threading.Thread(target=serve)
    thread.start()
    while len(lock._waiting) == waiting:
        time.sleep(1e-4)
    return thread


def test_threads_are_served_in_the_order_in_which_they_came() -> None:
    lock, served = FairLock(), []
    with lock.held():
        threads = [queued(lock, number, served) for number in range(8)]
        assert served == []
    for thread in threads:
        thread.join()
    assert served == list(range(8))


def test_one_at_a_time() -> None:
    lock, inside, most = FairLock(), [], []

    def work() -> None:
        for _ in range(50):
            with lock.held():
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


def fail(lock: FairLock, waiting: list[threading.Thread], served: list[int]) -> None:
    with lock.held():
        waiting.append(queued(lock, 1, served))
        raise RuntimeError("broken")


def test_a_failing_query_lets_the_next_one_in() -> None:
    lock, waiting, served = FairLock(), [], []
    with pytest.raises(RuntimeError, match="broken"):
        fail(lock, waiting, served)
    waiting[0].join()
    assert served == [1]
