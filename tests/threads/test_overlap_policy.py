import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.stages import Stages
from a3gnn.threads import pool
from a3gnn.threads.overlap_policy import OverlapPolicy


@pytest.mark.parametrize(("overlapped", "alternating"), [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)])
def test_the_faster_way_is_kept(overlapped: float, alternating: float) -> None:
    overlap = OverlapPolicy()
    seen = []
    for _ in range(400):
        seen.append(overlap.overlapped)
        overlap.count(overlapped if overlap.overlapped else alternating)
    assert set(seen[:40]) == {True, False}
    assert set(seen[60:400]) == {overlapped <= alternating}


def test_the_choice_is_made_anew_when_the_machine_changes() -> None:
    overlap = OverlapPolicy()
    for _ in range(300):
        overlap.count(1.0 if overlap.overlapped else 2.0)
    assert overlap.overlapped
    for _ in range(1200):
        overlap.count(3.0 if overlap.overlapped else 2.0)
    assert not overlap.overlapped


@pytest.mark.parametrize("workers", [1, 4])
def test_mini_batches_that_were_under_way_before_a_change_are_not_counted(workers: int) -> None:
    overlap = OverlapPolicy(workers)
    # Ready when the other way begins: they cost nothing, and say nothing of it.
    ready = 0
    for _ in range(400):
        overlapped = overlap.overlapped
        overlap.count(1.0 if overlapped else 0.0 if ready else 1.5)
        ready = workers if overlapped and not overlap.overlapped else max(0, ready - 1)
    assert overlap.overlapped


@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize("mode", ["mode1", "mode2"])
def test_workers_have_all_threads_where_they_take_turns(
    mode: str, overlapped: bool, small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, sizes = Stages.sample, []

    def sample_and_tell(self, epoch, planned):
        sizes.append(pool.size())
        return sample(self, epoch, planned)

    monkeypatch.setattr(Stages, "sample", sample_and_tell)
    with Pipeline(
        small_graph, TrainConfig(batch_size=64, parallel_mode=mode), (5, 4), PipelineOptions(seed=7)
    ) as pipeline:
        pipeline._overlap.overlapped = overlapped
        for batch in pipeline.epoch(0):
            begun = len(sizes)
            if batch.index == 3:
                break
    assert set(sizes) == {1 if overlapped else pool.usable_cores()}
    assert begun <= 5 if overlapped else begun == 4
