import threading
from collections.abc import Iterator

import pytest
import torch

from a3gnn.config import PARALLEL_MODES, ParallelMode, Resources, TrainConfig
from a3gnn.features.host_store import DenseHostStore
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.allocate import Allocation
from a3gnn.pipeline.isolation import StageProfile, copy_bytes_per_s, thread_counts
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.sampling.sampler import Sampler
from a3gnn.threads import affinity, pool
from tests.pipeline.batches import content
from tests.threads.begun import begun_from_here

FANOUTS = (5, 4)
ALLOCATIONS = (Allocation(1, 1, 1), Allocation(2, 1, 1, pooled=True), Allocation(2, 3, 2))


@pytest.fixture(autouse=True)
def every_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests of the session asked for: under fewer threads than cores nothing is pinned."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.fixture(autouse=True)
def all_is_restored(every_core: None) -> Iterator[None]:
    begun, before = begun_from_here(), (affinity.cores(), pool.size(), torch.get_num_threads())
    yield
    assert (affinity.cores(), pool.size(), torch.get_num_threads()) == before
    assert not [name for name in begun() if not name.startswith("a3gnn-pool")]  # the team's helpers stay


def pipeline_of(
    graph: Graph, mode: ParallelMode, workers: int, asked: Resources | Allocation | None, **knobs
) -> Pipeline:
    cache_bytes = graph.features.nbytes // 3 + 4 * graph.num_nodes
    config = TrainConfig(
        batch_size=64, bias_rate=4.0, cache_bytes=cache_bytes, parallel_mode=mode, num_workers=workers, **knobs
    )
    return Pipeline(graph, config, FANOUTS, PipelineOptions(seed=7, resources=asked))


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_mini_batches_are_the_same_bits_however_cores_are_shared(mode: ParallelMode, parts: int, small_graph) -> None:
    def contents(workers: int, resources: Resources | Allocation | None) -> list[tuple]:
        with pipeline_of(small_graph, mode, workers, resources, num_partitions=parts) as pipeline:
            return [content(batch) for epoch in (0, 1) for batch in pipeline.epoch(epoch)]

    expected = contents(1, "free")
    for workers in (1, 3):
        for resources in ("auto", *ALLOCATIONS):
            assert contents(workers, resources) == expected


@pytest.fixture
def kernels_threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[tuple[int, frozenset[int]]]]:
    """The team's size and the cores that sampling and gather see while they run."""
    seen: dict[str, set[tuple[int, frozenset[int]]]] = {"sampling": set(), "gather": set()}
    sample, read = Sampler.sample, DenseHostStore.read

    def seeing_sample(self, *arguments):
        seen["sampling"].add((pool.size(), affinity.cores()))
        return sample(self, *arguments)

    def seeing_read(self, *arguments):
        seen["gather"].add((pool.size(), affinity.cores()))
        return read(self, *arguments)

    monkeypatch.setattr(Sampler, "sample", seeing_sample)
    monkeypatch.setattr(DenseHostStore, "read", seeing_read)
    return seen


@pytest.mark.parametrize("mode", ["mode1", "mode2"])
@pytest.mark.parametrize("allocation", ALLOCATIONS, ids=str)
def test_kernels_see_the_threads_that_were_asked_for(
    mode: ParallelMode, allocation: Allocation, kernels_threads: dict, small_graph: Graph
) -> None:
    places = allocation.places(mode, affinity.home())
    training = set()
    with pipeline_of(small_graph, mode, 3, allocation) as pipeline:
        for _ in pipeline.epoch(0):
            training.add((pool.size(), torch.get_num_threads(), affinity.cores()))
    everywhere = affinity.home()
    where = {stage: cores or everywhere for stage, cores in places.items()}
    assert training == {(allocation.training, allocation.training, where["training"])}
    assert kernels_threads["gather"] == {(allocation.gather, where["gather"])}
    sampling = allocation.gather if mode == "mode1" and allocation.pooled else 1
    assert kernels_threads["sampling"] == {(sampling, where["sampling"])}


def test_no_more_mini_batches_are_worked_on_at_once_than_allowed(
    small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, most, lock = {"sampling": 0, "gather": 0}, {"sampling": 0, "gather": 0}, threading.Lock()

    def counted(stage, function):
        def call(self, *arguments):
            with lock:
                at_once[stage] += 1
                most[stage] = max(most[stage], at_once[stage])
            try:
                return function(self, *arguments)
            finally:
                with lock:
                    at_once[stage] -= 1

        return call

    monkeypatch.setattr(Sampler, "sample", counted("sampling", Sampler.sample))
    monkeypatch.setattr(DenseHostStore, "read", counted("gather", DenseHostStore.read))
    with pipeline_of(small_graph, "mode1", 6, Allocation(2, 1, 1)) as pipeline:
        for _ in pipeline.epoch(0):
            pass
    assert 1 <= most["sampling"] <= 2
    assert most["gather"] == 1


@pytest.mark.parametrize("resources", ["auto", Allocation(1, 1, 1)], ids=str)
@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_the_caller_has_its_cores_back_after_an_exception(
    mode: ParallelMode, resources: Resources | Allocation, small_graph: Graph
) -> None:
    def train(pipeline: Pipeline) -> None:
        for batch in pipeline.epoch(0):
            if batch.index == 8:
                raise KeyboardInterrupt

    with pipeline_of(small_graph, mode, 2, resources) as pipeline, pytest.raises(KeyboardInterrupt):
        train(pipeline)


def test_epochs_under_way_at_once_end_in_any_order(small_graph: Graph) -> None:
    before = (affinity.cores(), pool.size(), torch.get_num_threads())
    with pipeline_of(small_graph, "mode1", 2, Allocation(1, 1, 1)) as pipeline:
        one, other = pipeline.epoch(0), pipeline.epoch(0)
        assert content(next(one)) == content(next(other))
        one.close()
        assert len(list(other)) == pipeline.num_batches - 1
        assert (affinity.cores(), pool.size(), torch.get_num_threads()) == before


@pytest.mark.parametrize("mode", ["mode1", "mode2"])
@pytest.mark.skipif(pool.usable_cores() < 2, reason="one core: nothing to share out")
def test_auto_measures_every_stage_and_keeps_the_budget(mode: ParallelMode, small_graph: Graph) -> None:
    with pipeline_of(small_graph, mode, 2, None, resources="auto") as pipeline:
        isolation = pipeline.isolation
        assert isolation is not None
        epoch = 0
        while isolation.allocation is None:
            assert epoch < 20
            list(pipeline.epoch(epoch))
            epoch += 1
    allocation, models = isolation.allocation, isolation.profile.models()
    if allocation.isolated:
        assert allocation.cores(mode) <= pool.usable_cores()
    assert allocation.seconds is not None
    assert allocation.seconds > 0
    for stage, model in models.items():
        measured = isolation.profile.medians(stage)
        assert set(measured) >= {1, min(2, pool.usable_cores())} or stage == "training"
        errors = [abs(model.seconds(threads) / seconds - 1) for threads, seconds in measured.items()]
        assert max(errors) == pytest.approx(model.worst)


@pytest.mark.skipif(pool.usable_cores() < 2, reason="one core: nothing is measured")
def test_epochs_that_are_left_early_measure_on(small_graph: Graph) -> None:
    with pipeline_of(small_graph, "mode2", 1, "auto") as pipeline:
        isolation = pipeline.isolation
        assert isolation is not None
        before = isolation.batches_left_to_profile
        assert before > 6
        for epoch in range(before):
            for batch in pipeline.epoch(epoch):
                if batch.index == 1:
                    break
            # Of the two mini-batches only the first was trained to its end.
            assert isolation.batches_left_to_profile == before - epoch - 1
        next(pipeline.epoch(0))
        assert isolation.allocation is not None


def test_free_is_what_it_was(small_graph: Graph) -> None:
    with pipeline_of(small_graph, "mode1", 2, None) as pipeline:
        assert pipeline.isolation is None
    with pipeline_of(small_graph, "mode1", 2, "free", resources="auto") as pipeline:
        assert pipeline.isolation is None


def test_sequential_mode_has_nothing_to_isolate(small_graph: Graph) -> None:
    with pipeline_of(small_graph, "sequential", 1, "auto") as pipeline:
        assert pipeline.isolation is not None
        assert pipeline.isolation.allocation is not None
        assert not pipeline.isolation.allocation.isolated


def test_thread_counts_are_powers_of_two_and_all_cores() -> None:
    assert thread_counts(1) == [1]
    assert thread_counts(6) == [1, 2, 4, 6]
    assert thread_counts(64) == [1, 2, 4, 8, 16, 32, 64]
    assert {threads for threads, counts in StageProfile(64, 4).training_schedule() if counts} == {8, 16, 32, 64}


def test_the_copy_rate_is_of_a_copy() -> None:
    # Between a slow disk's rate and more than any memory's.
    assert 1e7 < copy_bytes_per_s(1) < 1e13
