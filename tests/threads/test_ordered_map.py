import gc
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from a3gnn.threads.ordered_map import WORKERS, end_threads, ordered_map, staged_map
from tests.threads.begun import all_ended, begun_from_here, uncollected


@pytest.fixture(autouse=True)
def no_thread_is_left():
    left = begun_from_here()
    yield
    assert left() == []


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_results_come_in_order(workers: int) -> None:
    assert list(ordered_map(lambda i: i * i, range(50), workers)) == [i * i for i in range(50)]


def test_an_iteration_that_its_own_worker_collects_ends() -> None:
    begun, forgotten = begun_from_here(), threading.Event()

    def work(i: int) -> int:
        if i:
            assert forgotten.wait(60)
            gc.collect()
        return i

    with uncollected():
        results = ordered_map(work, range(10), 2)
        assert next(results) == 0
        cycle: list[object] = [results]
        cycle.append(cycle)
        del results, cycle
        forgotten.set()
        assert all_ended(begun)


def test_an_iteration_that_the_thread_behind_its_items_collects_ends() -> None:
    begun, held, forgotten = begun_from_here(), threading.Event(), threading.Event()

    def collect() -> int:
        assert forgotten.wait(60)
        gc.collect()
        return 2

    def items(executor: ThreadPoolExecutor) -> Iterator[int]:
        yield from (0, 1)
        drawing.set()
        yield executor.submit(collect).result()

    drawing = threading.Event()
    with uncollected():
        executor = ThreadPoolExecutor(1, WORKERS)
        results = staged_map(items(executor), [lambda i: i == 0 or held.wait(60)], [2])
        assert next(results)
        held.set()
        assert drawing.wait(60)
        cycle: list[object] = [results]
        cycle.append(cycle)
        del results, cycle
        forgotten.set()
        executor.shutdown(wait=False)
        assert all_ended(begun)


def test_what_a_worker_exhausts_has_ended_then() -> None:
    with ThreadPoolExecutor(1, WORKERS) as executor:
        ended_on: list[str] = []
        executor.submit(end_threads, lambda: ended_on.append(threading.current_thread().name)).result()
        assert ended_on == [f"{WORKERS}_0"]


def test_no_items_no_results() -> None:
    assert list(ordered_map(str, [], 2)) == []


def test_at_most_workers_run_ahead() -> None:
    begun = []
    results = ordered_map(lambda i: begun.append(i) or i, range(20), 3)
    for held, _ in enumerate(results):
        assert len(begun) <= held + 1 + 3
    assert len(begun) == 20


def test_workers_run_side_by_side() -> None:
    barrier = threading.Barrier(3, timeout=60)
    assert len(list(ordered_map(lambda _: barrier.wait(), range(3), 3))) == 3


def test_an_error_overtakes_what_is_due_before_it() -> None:
    release = threading.Event()

    def work(i: int) -> int:
        if i == 2:
            raise LookupError("broken store")
        if i == 0:
            release.wait(10)
        return i

    def free_the_first() -> None:
        release.set()

    timer = threading.Timer(0.2, free_the_first)
    timer.start()
    results = ordered_map(work, range(10), 3)
    with pytest.raises(LookupError, match="broken store") as caught:
        next(results)
    assert "in work" in "".join(traceback.format_tb(caught.tb))
    timer.join()


def test_closing_early_cancels_what_has_not_begun() -> None:
    begun = []
    results = ordered_map(lambda i: begun.append(i) or i, range(1000), 2)
    next(results)
    results.close()
    assert len(begun) <= 3
    with pytest.raises(StopIteration):
        next(results)


def test_an_interrupt_of_the_caller_ends_the_threads() -> None:
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for i in ordered_map(lambda i: i, range(1000), 4):
            if i == 3:
                raise KeyboardInterrupt


def test_items_that_are_not_to_run_ahead_begin_when_they_are_asked_for() -> None:
    begun, ahead = [], True
    results = ordered_map(lambda i: begun.append(i) or i, range(20), 3, lambda: ahead)
    assert next(results) == 0
    ahead = False
    assert [next(results) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert begun == [0, 1, 2, 3, 4, 5]
    ahead = True
    assert list(results) == list(range(6, 20))


def test_every_thread_starts_once_before_its_first_item() -> None:
    started: list[int] = []

    def item(_: int) -> bool:
        return threading.get_ident() in started

    results = ordered_map(item, range(20), 3, on_start=lambda: started.append(threading.get_ident()))
    assert all(results)
    assert 1 <= len(started) == len(set(started)) <= 3
