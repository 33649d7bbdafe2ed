"""Requests that do heavy work: so many at once, so many that wait, and the others are told when to come again."""

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice

import pytest

from a3gnn.service.http.problems import ProblemDetails, Turns


def test_few_are_let_in_and_few_wait() -> None:
    turns, inside, leave = Turns("predict", 2, 1), threading.Semaphore(0), threading.Event()

    def take() -> str:
        try:
            with turns.one():
                inside.release()
                return "done" if leave.wait(30) else "forgotten"
        except ProblemDetails as problem:
            return f"{problem.status} {problem.headers}"

    refused = "429 {'Retry-After': '5'}"
    with ThreadPoolExecutor(6) as pool:
        taken = [pool.submit(take) for _ in range(6)]
        for _ in range(2):
            assert inside.acquire(timeout=30)
        assert [one.result() for one in islice(as_completed(taken, timeout=30), 3)] == [refused] * 3
        assert not inside.acquire(blocking=False)  # the third waits
        leave.set()
        assert sorted(one.result(timeout=30) for one in taken) == [refused] * 3 + ["done"] * 3
    with turns.one():  # all places are free again
        pass


def test_one_that_fails_gives_its_place_back() -> None:
    turns = Turns("predict", 1, 0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), turns.one():
            raise ZeroDivisionError
