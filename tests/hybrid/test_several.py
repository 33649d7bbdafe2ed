"""Shares among trainers that have devices and threads: the fastest on the grid, by the model's own predictions."""

from __future__ import annotations

import dataclasses

import pytest

from a3gnn.hybrid.assignment import Assignment, Threads, divide
from a3gnn.hybrid.performance import (
    AcceleratorSpeeds,
    ModelShape,
    PerformanceModel,
    PlatformSpeeds,
    fastest_division,
)
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.sampling.counts import CountCurve

BATCH, PARTS, THREADS, AHEAD = 1024, 16, 3, 2


def model_with(counts: CountCurve, flops_per_s: float, schedule: Schedule, accelerators: int = 2) -> PerformanceModel:
    """Returns a platform with accelerators of so many operations per second."""
    one = AcceleratorSpeeds(flops_per_s, flops_per_s / 20, 1e10)
    speeds = PlatformSpeeds(
        threads=8,
        speedup=float,
        host_bytes_per_s=4e10,
        load_bytes_per_s=1e10,
        flops_per_s=1e10,
        memory_bytes_per_s=5e9,
        accelerators=(one,) * accelerators,
        sampling=lambda seeds, threads: 1e-6 * seeds / threads,
        sent_host_bytes=1.0,
        overhead_s=1e-4,
    )
    return PerformanceModel(ModelShape("gcn", (100, 64, 10)), counts, speeds, schedule)


def seconds(model: PerformanceModel, shares: tuple[int, ...]) -> float:
    """Returns what `PerformanceModel.predict` gives for one trainer on the processors beside the accelerators."""
    predicted = model.predict(Assignment(model.speeds.kinds, shares, 0, Threads(AHEAD, AHEAD, THREADS)))
    assert predicted.iteration is not None
    return predicted.iteration


@pytest.mark.parametrize("schedule", [Schedule(0, 0, 0), TWO_STAGE_PREFETCHING], ids=["in turn", "ahead"])
@pytest.mark.parametrize("flops_per_s", [1e9, 3e10, 2e11, 2e12])
def test_the_division_is_the_fastest_of_the_grid(counts, flops_per_s, schedule):
    model = model_with(counts, flops_per_s, schedule)
    own = [round(BATCH * part / PARTS) for part in range(PARTS + 1)]
    every = {(one, *divide(BATCH - one, [1.0, 1.0])) for one in own}
    found = fastest_division(model, BATCH, [THREADS], ahead=AHEAD, parts=PARTS)
    assert found.shares in every
    assert found.times.iteration == pytest.approx(min(seconds(model, shares) for shares in every))
    assert found.times.iteration == pytest.approx(seconds(model, found.shares))


def test_faster_accelerators_have_more(counts):
    found = [
        fastest_division(model_with(counts, flops, Schedule(0, 0, 0)), BATCH, [THREADS]) for flops in (1e9, 1e11, 1e13)
    ]
    on_processors = [one.shares[0] for one in found]
    assert on_processors == sorted(on_processors, reverse=True)
    assert on_processors[0] > on_processors[1] > on_processors[2]


def test_trainers_of_a_kind_have_equal_shares(counts):
    found = fastest_division(model_with(counts, 3e10, Schedule(0, 0, 0)), BATCH, [2, 2])
    first, second, *there = found.shares
    assert abs(first - second) <= 1
    assert max(there) - min(there) <= 1
    assert sum(found.shares) == BATCH
    assert found.times.kinds == ("processor", "processor", "accelerator", "accelerator")
    assert len(found.times.training) == len(found.times.transfer) == 4
    one = fastest_division(model_with(counts, 3e10, Schedule(0, 0, 0)), BATCH, [4])
    assert one.times.training[0] == pytest.approx(found.times.training[0], rel=0.1)


def test_shares_fit_into_memory_or_processors_have_all(counts):
    model = model_with(counts, 1e13, Schedule(0, 0, 0))
    free = fastest_division(model, BATCH, [THREADS])
    bound = fastest_division(model, BATCH, [THREADS], fits=lambda share: share <= 200)
    assert max(free.shares[1:]) > 200 >= max(bound.shares[1:]) > 190
    assert fastest_division(model, BATCH, [THREADS], fits=lambda share: False).shares == (BATCH, 0, 0)


def test_the_hosts_memory_bounds_all_together(counts):
    model = model_with(counts, 1e11, TWO_STAGE_PREFETCHING)
    slow = dataclasses.replace(model, speeds=dataclasses.replace(model.speeds, host_bytes_per_s=1e8))
    found = fastest_division(slow, BATCH, [1, 1])
    assert found.times.iteration is not None
    rows = sum(counts.at(share).input_nodes for share in found.shares) * 400
    assert found.times.iteration >= rows / 1e8
