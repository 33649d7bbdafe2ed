"""Several trainers on the processors, by the model's equations computed by hand, and what one measured run mends."""

from __future__ import annotations

import dataclasses

import pytest

from a3gnn.errors import UsageError
from a3gnn.hybrid.model.initial import calibrated, predict_on_processors
from a3gnn.hybrid.model.performance import AcceleratorSpeeds, ModelShape, PerformanceModel, PlatformSpeeds
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.sampling.counts import CountCurve
from a3gnn.training.adapting.stage_times import StageTimes


@pytest.fixture
def model(counts: CountCurve) -> PerformanceModel:
    speeds = PlatformSpeeds(
        threads=4,
        speedup=float,
        host_bytes_per_s=4e10,
        load_bytes_per_s=1e10,
        flops_per_s=1e10,
        memory_bytes_per_s=5e9,
        accelerators=(AcceleratorSpeeds(2e12, 1e11, 1e10),),
        sampling=lambda seeds, threads: 1e-5 * seeds / threads,
        sent_host_bytes=1.0,
        overhead_s=1e-3,
    )
    return PerformanceModel(ModelShape("gcn", (100, 64, 10)), counts, speeds, Schedule(0, 0, 0))


def test_each_trainer_has_its_share_and_its_threads(model):
    times = predict_on_processors(model, (300, 100), (3, 1), loading=2)
    own = [dataclasses.replace(model, speeds=dataclasses.replace(model.speeds, accelerators=()))] * 2
    assert times.training == (own[0].training((300,), 3)[0], own[1].training((100,), 1)[0])
    assert times.training[0] == pytest.approx(times.training[1])
    assert times.sampling_processor == pytest.approx(400e-5)
    assert times.loading == pytest.approx(400 * 111 * 400 / 2e10)  # Eq. 7
    assert times.transfer == (0.0, 0.0)
    assert times.synchronisation == pytest.approx(2 * 4 * (100 * 64 + 64 * 10) / 4e10)  # Eq. 13
    assert times.kinds == ("processor", "processor")
    assert times.iteration == pytest.approx(sum(times.by_stage.values()) + 1e-3)


def test_one_trainer_has_nobody_to_synchronise_with(model):
    assert predict_on_processors(model, (400,), (4,)).synchronisation == 0.0
    assert predict_on_processors(model, (400, 0), (3, 1)).synchronisation == 0.0


def test_the_hosts_memory_bounds_all_trainers_together(model):
    slow = dataclasses.replace(model.speeds, host_bytes_per_s=1e8)
    shared = dataclasses.replace(model, speeds=slow, schedule=TWO_STAGE_PREFETCHING)
    rows, aggregated = 400 * 111 * 400, 400 * (110 * 400 + 2 * 10 * 256)
    found = predict_on_processors(shared, (300, 100), (1, 1))
    assert found.iteration == pytest.approx((rows + aggregated) / 1e8)


def test_threads_are_one_number_per_share(model):
    with pytest.raises(UsageError, match="one number per share"):
        predict_on_processors(model, (300, 100), (1,))


def run(times: StageTimes, factors: tuple[float, float, float]) -> StageTimes:
    """What a machine takes whose stages are so many times as slow."""
    sampling, loading, training = factors
    return dataclasses.replace(
        times,
        sampling_processor=sampling * times.sampling_processor,
        loading=loading * times.loading,
        training=tuple(training * seconds for seconds in times.training),
    )


@pytest.mark.parametrize("factors", [(1.5, 2.0, 1.2), (0.7, 0.3, 0.4), (1.0, 5.0, 0.25)])
def test_one_run_mends_what_constants_are_wrong_by_in_every_division(model, factors):
    """Faster than what bounds all threads together allowed, too."""
    first = predict_on_processors(model, (400,), (4,), loading=4)
    mended = calibrated(model, first, run(first, factors))
    for shares, threads in (((400,), (4,)), ((200, 200), (2, 2)), ((300, 100), (1, 1))):
        expected = run(predict_on_processors(model, shares, threads, loading=4), factors)
        found = predict_on_processors(mended, shares, threads, loading=4)
        assert found.sampling_processor == pytest.approx(expected.sampling_processor)
        assert found.loading == pytest.approx(expected.loading)
        assert found.training == pytest.approx(expected.training)


def test_the_overhead_is_what_an_iteration_took_beyond_its_stages(model):
    first = predict_on_processors(model, (400,), (4,))
    mended = calibrated(model, first, first.with_iteration(sum(first.by_stage.values()) + 0.25))
    assert mended.speeds.overhead_s == pytest.approx(0.25)
    assert calibrated(model, first, dataclasses.replace(first, iteration=None)).speeds.overhead_s == 1e-3
    assert calibrated(model, first, first.with_iteration(first.loading)).speeds.overhead_s == 0.0


def test_rows_that_loading_sums_are_read_once_per_edge_and_graphsages_own_beside_them(model):
    """|E^1| is 110 per seed, |V^1| 11."""
    for name, rows in (("gcn", 110), ("sage", 121)):
        shape = ModelShape(name, (100, 64, 10), fused_gather=True)
        known = dataclasses.replace(model.speeds, fused_bytes_per_s=2e9)
        fused = dataclasses.replace(model, shape=shape, speeds=known)
        assert fused.loading((300, 100), 2) == pytest.approx(400 * rows * 400 / 4e9)
        first = predict_on_processors(fused, (400,), (4,), loading=2)
        mended = calibrated(fused, first, run(first, (1.0, 3.0, 1.0)))
        assert mended.loading((300, 100), 2) == pytest.approx(3 * fused.loading((300, 100), 2))


def test_a_stage_that_took_no_time_calibrates_nothing(model):
    first = predict_on_processors(model, (400,), (4,))
    with pytest.raises(UsageError, match="must take time"):
        calibrated(model, first, dataclasses.replace(first, loading=0.0))
