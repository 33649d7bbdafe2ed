import itertools
import threading
import time
import traceback

import pytest

from a3gnn.threads.ordered_map import staged_map
from tests.threads.begun import begun_from_here

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def no_thread_is_left():
    left = begun_from_here()
    yield
    assert left() == []


class Begun:
    """Stages that note how many items they have begun; each adds its letter."""

    def __init__(self, count):
        self.items = [[] for _ in range(count)]

    def stages(self):
        return [lambda item, place=place: self._work(place, item) for place in range(len(self.items))]

    def _work(self, place, item):
        self.items[place].append(item)
        return item


def counts_after(begun, expected):
    """Returns how many items each stage has begun a while after it was `expected`, or when patience has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while [len(items) for items in begun.items] != expected and time.monotonic() < deadline:
        time.sleep(1e-3)
    time.sleep(0.05)  # stages that begin more than they may do it meanwhile
    return [len(items) for items in begun.items]


@pytest.mark.parametrize("depths", list(itertools.product((1, 2, 5), repeat=2)))
def test_results_come_in_order(depths):
    stages = [lambda i: i + 1, lambda i: i * i]
    assert list(staged_map(range(50), stages, depths)) == [(i + 1) ** 2 for i in range(50)]


def test_no_items_no_results():
    assert list(staged_map([], [str, str], [1, 1])) == []


@pytest.mark.parametrize("depths", [(1, 1, 1), (2, 1, 3), (1, 4, 1)])
def test_a_stage_is_ahead_by_its_depth_and_by_no_more(depths):
    begun = Begun(3)
    results = staged_map(range(40), begun.stages(), depths)
    for held in range(1, 5):
        assert next(results) == held - 1
        expected = [held + sum(depths[place:]) for place in range(3)]
        assert counts_after(begun, expected) == expected
    assert list(results) == list(range(4, 40))


def test_all_stages_and_the_caller_work_side_by_side():
    meetings, barrier = 5, threading.Barrier(3, timeout=PATIENCE_S)

    def meet(item, ahead):
        # The first stage's item t + 2, the second one's t + 1, and the caller's t are under way at once.
        if 0 <= item - ahead < meetings:
            barrier.wait()
        return item

    for item in staged_map(range(10), [lambda item: meet(item, 2), lambda item: meet(item, 1)], [1, 1]):
        meet(item, 0)


def test_an_error_overtakes_what_is_due_before_it():
    release = threading.Event()

    def first(i):
        if i == 1:
            raise LookupError("broken store")
        return i

    def second(i):
        release.wait(PATIENCE_S)
        return i

    timer = threading.Timer(0.2, release.set)
    timer.start()
    with pytest.raises(LookupError, match="broken store") as caught:
        next(staged_map(range(10), [first, second], [1, 1]))
    assert "in first" in "".join(traceback.format_tb(caught.tb))
    timer.join()


def test_an_error_of_what_is_to_be_drawn_is_raised():
    def items():
        yield 1
        raise LookupError("no more seeds")

    with pytest.raises(LookupError, match="no more seeds"):
        list(staged_map(items(), [lambda i: i, lambda i: i], [1, 1]))


def test_closing_early_begins_nothing_more():
    begun = Begun(2)
    results = staged_map(range(1000), begun.stages(), [1, 1])
    next(results)
    results.close()
    before = [len(items) for items in begun.items]
    assert before[0] <= 4
    assert counts_after(begun, before) == before
    with pytest.raises(StopIteration):
        next(results)


def test_an_interrupt_of_the_caller_ends_the_threads():
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for i in staged_map(range(1000), [lambda i: i, lambda i: i], [2, 2]):
            if i == 3:
                raise KeyboardInterrupt
