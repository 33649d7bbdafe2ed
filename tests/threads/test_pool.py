import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from a3gnn.threads import pool


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_row_is_worked_on_once(count: int, threads: int) -> None:
    done = np.zeros(count, dtype=int)

    def work(low: int, high: int) -> None:
        done[low:high] += 1

    with pool.limited(threads):
        pool.in_chunks(work, count, grain=3)
    assert (done == 1).all()


def test_few_rows_stay_on_the_calling_thread() -> None:
    names = []
    with pool.limited(8):
        pool.in_chunks(lambda low, high: names.append(threading.current_thread().name), 100, grain=100)
    assert names == [threading.current_thread().name]


def test_an_error_in_any_range_reaches_the_caller() -> None:
    def work(low: int, high: int) -> None:
        if low <= 50 < high:
            raise RuntimeError("range with row 50")

    with pool.limited(2), pytest.raises(RuntimeError, match="row 50"):
        pool.in_chunks(work, 100, grain=1)


def test_teams_of_many_callers_never_wait_for_each_other() -> None:
    def call(caller: int) -> int:
        total = np.zeros(64)

        def inner(low: int, high: int) -> None:
            total[low:high] = 1

        with pool.limited(4):
            for _ in range(20):
                pool.in_chunks(inner, 64, grain=1)
        return int(total.sum())

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(call, range(32))) == [64] * 32


def test_a_limit_ends_with_its_block_and_holds_for_its_thread_alone() -> None:
    outside = pool.size()
    with pool.limited(1):
        assert pool.size() == 1
        with ThreadPoolExecutor(1) as other:
            assert other.submit(pool.size).result() == outside
    assert pool.size() == outside


def test_openmp_s_thread_count_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert pool.usable_cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert pool.usable_cores() >= 1
