import pytest

from a3gnn.runtime.turns import Turns


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


@pytest.mark.parametrize("workers", [1, 4])
def test_mini_batches_that_were_under_way_before_a_change_are_not_counted(workers: int) -> None:
    turns = Turns(workers)
    # Ready when the other way begins: they cost nothing, and say nothing of it.
    ready = 0
    for _ in range(400):
        together = turns.together
        turns.count(1.0 if together else 0.0 if ready else 1.5)
        ready = workers if together and not turns.together else max(0, ready - 1)
    assert turns.together
