import os
import threading
from collections.abc import Iterator

import pytest
import torch

from a3gnn.threads import affinity, pool
from a3gnn.threads.hold import held

can_pin = pytest.mark.skipif(not affinity.cores(), reason="this system pins no threads")


def state() -> tuple[frozenset[int], int, frozenset[int], int]:
    return affinity.cores(), pool.size(), pool.share().cores, torch.get_num_threads()


@pytest.fixture(autouse=True)
def all_is_restored() -> Iterator[None]:
    before = state()
    yield
    assert state() == before


@can_pin
def test_a_held_thread_has_its_threads_and_cores() -> None:
    core = frozenset({min(affinity.cores())})
    with held(1, core):
        assert state() == (core, 1, core, 1)


@can_pin
def test_all_is_restored_after_an_exception() -> None:
    def work() -> None:
        with held(1, frozenset({min(affinity.cores())})):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()


@can_pin
def test_holds_end_in_any_order() -> None:
    core = frozenset({max(affinity.cores())})
    one, other = held(3, core), held(1, core)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert state() == (core, 1, core, 1)
    other.__exit__(None, None, None)


@can_pin
def test_another_thread_may_end_a_hold() -> None:
    hold = held(torch.get_num_threads(), frozenset({min(affinity.cores())}))
    hold.__enter__()
    other = threading.Thread(target=hold.__exit__, args=(None, None, None))
    other.start()
    other.join()


@can_pin
def test_no_cores_leave_the_thread_where_it_is() -> None:
    before = affinity.cores()
    with held(1):
        assert affinity.cores() == before


@can_pin
def test_helpers_run_where_their_caller_says_and_are_free_again() -> None:
    home, core = affinity.home(), frozenset({max(affinity.home())})

    def places(cores: frozenset[int]) -> set[frozenset[int]]:
        met, found = threading.Barrier(2, timeout=60), {}

        def look(low: int, high: int) -> None:
            found[threading.current_thread().name] = affinity.cores()
            met.wait()  # so that each thread takes one range

        with pool.limited(2, cores):
            pool.in_chunks(look, 2, grain=1)
        return {place for name, place in found.items() if name.startswith("a3gnn-pool")}

    assert places(core) == {core}
    assert places(frozenset()) == {home}


@can_pin
def test_a_system_that_refuses_leaves_threads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    before = affinity.cores()
    affinity.pin(frozenset({min(before)}))
    assert affinity.cores() == before
