import pytest

from a3gnn import team
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.pipeline import Pipeline
from a3gnn.runtime.stages import Stages
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


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("mode", ["mode1", "mode2"])
def test_workers_have_all_threads_where_they_take_turns(
    mode: str, together: bool, small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, sizes = Stages.sample, []

    def sample_and_tell(self, epoch, planned):
        sizes.append(team.size())
        return sample(self, epoch, planned)

    monkeypatch.setattr(Stages, "sample", sample_and_tell)
    with Pipeline(small_graph, TrainConfig(batch_size=64, parallel_mode=mode), (5, 4), seed=7) as pipeline:
        pipeline._turns.together = together
        for batch in pipeline.epoch(0):
            begun = len(sizes)
            if batch.index == 3:
                break
    assert set(sizes) == {1 if together else team.usable_cores()}
    assert begun <= 5 if together else begun == 4
