import threading

import pytest

from a3gnn import team
from a3gnn.runtime.turns import Cores, Turns


@pytest.mark.parametrize(("together", "apart"), [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)])
def test_the_faster_way_is_kept(together: float, apart: float) -> None:
    turns = Turns()
    seen = []
    for _ in range(400):
        seen.append(turns.together)
        turns.count(together if turns.together else apart)
    assert set(seen[:40]) == {True, False}
    assert set(seen[60:400]) == {together <= apart}


def test_the_choice_is_made_anew_when_the_machine_changes() -> None:
    turns = Turns()
    for _ in range(300):
        turns.count(1.0 if turns.together else 2.0)
    assert turns.together
    for _ in range(1200):
        turns.count(3.0 if turns.together else 2.0)
    assert not turns.together


def test_a_worker_that_takes_turns_waits_for_the_training_and_then_has_all_threads() -> None:
    turns = Turns()
    turns.together = False
    cores = Cores(turns)
    entered = threading.Event()
    sizes = []

    def work() -> None:
        with cores.at_work():
            sizes.append(team.size())
            entered.set()

    cores.take()
    worker = threading.Thread(target=work)
    worker.start()
    assert not entered.wait(0.05)
    cores.leave()
    assert entered.wait(10)
    worker.join()
    assert sizes == [team.usable_cores()]


def test_a_worker_beside_the_training_has_one_thread() -> None:
    cores = Cores(Turns())
    cores.take()
    with cores.at_work():
        assert team.size() == 1


def test_the_cores_can_be_left_from_another_thread_and_more_than_once() -> None:
    turns = Turns()
    turns.together = False
    cores = Cores(turns)
    cores.take()
    other = threading.Thread(target=cores.leave)
    other.start()
    other.join()
    cores.leave()
    with cores.at_work():
        assert team.size() == team.usable_cores()
