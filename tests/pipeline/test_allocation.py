import itertools

import pytest

from a3gnn.config import PARALLEL_MODES, ParallelMode
from a3gnn.errors import UsageError
from a3gnn.pipeline.allocate import STAGES, Allocation, Stage, StageModel, allocate, isolate
from a3gnn.seeding import generator


def models_of(draw_from: int) -> dict[Stage, StageModel]:
    draw = generator(draw_from, "test_allocation")
    fixed = {"sampling": 0.0, "gather": draw.uniform(0, 1), "training": draw.choice([0.0, draw.uniform(0, 2)])}
    return {stage: StageModel(float(draw.uniform(0.1, 20)), float(fixed[stage])) for stage in STAGES}


def by_trying_all(models: dict[Stage, StageModel], mode: ParallelMode, workers: int, cores: int) -> float:
    """Returns the least seconds of any allocation that keeps the budget."""
    sample, gather, train = (models[stage].seconds for stage in STAGES)
    found = []
    threads = range(1, cores + 1)
    for s, g, t in itertools.product(threads, threads, threads):
        if mode == "mode2" and s <= workers and g == t and s + t <= cores:
            found.append(max(sample(s), gather(g) + train(t)))
        if mode == "mode1" and s < workers and s + g + t <= cores:
            found.append(max(sample(s), gather(g), train(t)))
        if mode == "mode1" and s <= workers and s * g + t <= cores:
            found.append(max((sample(1) + gather(g)) / s, train(t)))
    return min(found)


@pytest.mark.parametrize("instance", range(12))
@pytest.mark.parametrize("mode", ["mode1", "mode2"])
def test_no_allocation_that_keeps_the_budget_is_faster(mode: ParallelMode, instance: int) -> None:
    models = models_of(instance)
    for cores, workers in itertools.product((2, 3, 5, 12), (1, 2, 4)):
        best = isolate(models, mode, workers, cores)
        assert best.seconds == pytest.approx(by_trying_all(models, mode, workers, cores))
        assert best.cores(mode) <= cores


@pytest.mark.parametrize("instance", range(12))
@pytest.mark.parametrize("mode", ["mode1", "mode2"])
def test_isolation_has_to_pay(mode: ParallelMode, instance: int) -> None:
    models = models_of(instance)
    for cores, workers in itertools.product((2, 3, 5, 12), (1, 2, 4)):
        best, found = isolate(models, mode, workers, cores), allocate(models, mode, workers, cores)
        serial = models["sampling"].seconds(1) + models["gather"].seconds(cores) + models["training"].seconds(cores)
        assert found.isolated == (best.seconds < 0.9 * serial)
        assert found.seconds == pytest.approx(best.seconds if found.isolated else serial)
        assert (f"{best.cores(mode)} of {cores} cores" if found.isolated else "gain too little") in found.why


def test_a_slow_stage_gets_most_cores() -> None:
    models = {"sampling": StageModel(2.0), "gather": StageModel(4.0, 0.5), "training": StageModel(64.0)}
    found = allocate(models, "mode1", 4, 32)
    assert found.isolated
    assert found.training > found.gather + found.sampling


def test_workers_beyond_need_get_no_core() -> None:
    models = {"sampling": StageModel(1.0), "gather": StageModel(1.0), "training": StageModel(0.0, 4.0)}
    assert allocate(models, "mode2", 8, 64).sampling == 1
    # One worker alone keeps up with a device that trains: two cores of 64 are enough.
    assert allocate(models, "mode1", 8, 64).cores("mode1") == 2


def test_memory_s_bandwidth_bounds_what_cores_are_used_for() -> None:
    models = {"sampling": StageModel(8.0), "gather": StageModel(8.0), "training": StageModel(8.0)}
    free, bound = allocate(models, "mode1", 16, 24), allocate(models, "mode1", 16, 24, floor=4.0)
    assert free.seconds == 1.0
    assert bound.seconds == 4.0
    assert bound.cores("mode1") < free.cores("mode1") == 24


@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_one_core_is_left_to_competition(mode: ParallelMode) -> None:
    found = allocate(models_of(0), mode, 2, 1)
    assert not found.isolated
    assert "all cores" in found.why if mode == "sequential" else "need at least 2 cores, got 1" in found.why


@pytest.mark.parametrize("mode", PARALLEL_MODES)
@pytest.mark.parametrize("pooled", [False, True])
def test_stages_that_overlap_have_cores_of_their_own(mode: ParallelMode, pooled: bool) -> None:
    allocation = Allocation(2, 3, 4, pooled=pooled)
    places = allocation.places(mode, frozenset(range(10, 26)))
    assert len(frozenset.union(*places.values())) == allocation.cores(mode)
    assert len(places["training"]) == 4
    if mode != "sequential":
        assert not places["sampling"] & places["training"]
    if mode == "mode1":
        assert not places["gather"] & places["training"]
        assert places["gather"] == places["sampling"] if pooled else not places["gather"] & places["sampling"]
    assert allocation.cores(mode) == {"sequential": 4, "mode2": 6, "mode1": 10 if pooled else 9}[mode]


def test_an_allocation_that_does_not_fit_has_no_places() -> None:
    assert set(Allocation(2, 3, 4).places("mode1", frozenset(range(8))).values()) == {frozenset()}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_a_stage_without_a_thread_is_refused(stage: Stage, threads: object) -> None:
    with pytest.raises(UsageError, match=f"{stage} must be an integer >= 1"):
        Allocation(**{"sampling": 1, "gather": 1, "training": 1, stage: threads})
