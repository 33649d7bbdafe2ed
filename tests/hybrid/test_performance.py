"""The performance model against its equations, computed by hand, and against the surrogate's physics."""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.performance import (
    AcceleratorSpeeds,
    ModelShape,
    PerformanceModel,
    PlatformSpeeds,
    probed_speeds,
)
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.layer_cost import COUNTED_PASSES, EQUATION_10_PASSES
from a3gnn.sampling.counts import CountCurve
from benchmarks.hybrid.probe import initial_assignment

SHAPE = ModelShape("gcn", (100, 64, 10))
HARDWARE = Hardware(
    "cpu",
    4,
    2**34,
    "accelerator",
    2,
    2**33,
    MachineProfile(6e7, 1e10, 2e9, 2e11, 1e10, 0.75, 1e-3, 0, 1.2e10, 8e11, 0),
)


@pytest.fixture
def speeds() -> PlatformSpeeds:
    device = AcceleratorSpeeds(flops_per_s=2e12, memory_bytes_per_s=1e11, link_bytes_per_s=1e10)
    return PlatformSpeeds(
        threads=8,
        speedup=float,
        host_bytes_per_s=5e10,
        load_bytes_per_s=1e10,
        flops_per_s=1e10,
        memory_bytes_per_s=5e9,
        accelerators=(device, device),
        sampling=lambda seeds, threads: 1e-5 * seeds / threads,
        accelerator_sampling=lambda seeds: 1e-6 * seeds,
    )


@pytest.fixture
def model(speeds: PlatformSpeeds, counts: CountCurve) -> PerformanceModel:
    return PerformanceModel(SHAPE, counts, speeds)


@pytest.fixture
def assignment(speeds: PlatformSpeeds) -> Assignment:
    return Assignment(speeds.kinds, (224, 400, 400), 300, Threads(2, 3, 3))


def test_loading_is_the_rows_of_all_trainers_by_the_hosts_bandwidth(model):
    """Eq. 7; |V^0| is 111 per seed."""
    whole = 1024 * 111 * 100 * 4
    assert model.loading((224, 400, 400), 8) == pytest.approx(whole / 5e10)
    assert model.loading((224, 400, 400), 2) == pytest.approx(whole / 2e10)


def test_transfer_is_the_rows_of_one_trainer_by_its_link(model):
    """Eq. 8."""
    assert model.transfer((224, 400, 400)) == pytest.approx((0.0, 400 * 111 * 400 / 1e10, 400 * 111 * 400 / 1e10))


def test_a_trainer_aggregates_and_updates_forward_and_backward(model):
    """Eqs. 10 to 12 with 2 m n k operations; |E^1|, |E^2| are 110 and 10 per seed, |V^1|, |V^2| 11 and 1."""
    aggregate = [400 * 110 * 100 * 4 / 1e11, 400 * 10 * 64 * 4 / 1e11]
    update = [2 * 400 * 11 * 100 * 64 / 2e12, 2 * 400 * 64 * 10 / 2e12]
    printed = dataclasses.replace(model, passes=EQUATION_10_PASSES).training((224, 400, 400), 3)[1]
    assert printed == pytest.approx(sum(aggregate) + sum(update) + update[0] + aggregate[1] + update[1])
    assert model.training((224, 400, 400), 3)[1] == pytest.approx(printed + update[1])


def test_layers_that_map_first_aggregate_the_narrower_rows(model):
    """As a3gnn's own: 10 values per edge of the output layer, forward and backward, in place of Eq. 11's 64."""
    narrow = dataclasses.replace(model, shape=dataclasses.replace(SHAPE, maps_first=True))
    saved = model.training((224, 400, 400), 3)[1] - narrow.training((224, 400, 400), 3)[1]
    assert saved == pytest.approx(2 * 400 * 10 * (64 - 10) * 4 / 1e11)
    wide = ModelShape("gcn", (100, 8, 64))
    grows = (dataclasses.replace(model, shape=dataclasses.replace(wide, maps_first=one)) for one in (False, True))
    assert len({one.training((224, 400, 400), 3) for one in grows}) == 1


def test_a_pipelined_trainer_costs_the_slower_of_aggregation_and_update(model, speeds):
    device = dataclasses.replace(speeds.accelerators[0], pipelined=True)
    piped = dataclasses.replace(model, speeds=dataclasses.replace(speeds, accelerators=(device, device)))
    aggregate = [400 * 110 * 100 * 4 / 1e11, 400 * 10 * 64 * 4 / 1e11]
    update = [2 * 400 * 11 * 100 * 64 / 2e12, 2 * 400 * 64 * 10 / 2e12]
    expected = (
        max(aggregate[0], update[0]) + max(aggregate[1], update[1]) + update[0] + max(aggregate[1], 2 * update[1])
    )
    assert piped.training((224, 400, 400), 3)[1] == pytest.approx(expected)


def test_graphsage_updates_and_synchronizes_twice_as_much(model):
    sage = dataclasses.replace(model, shape=ModelShape("sage", SHAPE.widths))
    assert sage.synchronization((224, 400, 400)) == 2 * model.synchronization((224, 400, 400))
    assert model.synchronization((224, 400, 400)) == pytest.approx(2 * 4 * (100 * 64 + 64 * 10) / 1e10)  # Eq. 13
    assert model.synchronization((1024, 0, 0)) == 0.0


def test_a_fused_gather_sends_rows_of_destinations_and_leaves_out_the_first_aggregation(model):
    for name, wide in (("gcn", 1), ("sage", 2)):
        plain, fused = (
            dataclasses.replace(model, shape=ModelShape(name, SHAPE.widths, fused_gather=one)) for one in (False, True)
        )
        assert fused.transfer((224, 400, 400))[1] == pytest.approx(wide * 400 * 11 * 400 / 1e10)
        saved = plain.training((224, 400, 400), 3)[1] - fused.training((224, 400, 400), 3)[1]
        assert saved == pytest.approx(400 * 110 * 100 * 4 / 1e11)
    with pytest.raises(UsageError, match="fused_gather must be False for gat"):
        ModelShape("gat", SHAPE.widths, fused_gather=True)


def test_an_iteration_takes_the_longest_stage_or_the_sum_of_those_that_do_not_overlap(model, assignment):
    times = model.predict(assignment)
    assert times.iteration == max(times.by_stage.values())  # Eq. 6
    serial = dataclasses.replace(model, schedule=Schedule(1, 0, 0)).predict(assignment)
    stages = serial.by_stage
    assert serial.iteration == max(stages["sampling"], stages["loading"] + stages["transfer"] + stages["propagation"])
    assert model.mteps(assignment) == pytest.approx(1024 * 120 / times.iteration / 1e6)  # Eq. 5


def test_an_overhead_lengthens_propagation_alone(model, assignment):
    """Sampling takes 3.6 ms here, propagation less."""
    late = dataclasses.replace(model, speeds=dataclasses.replace(model.speeds, overhead_s=1.0))
    stages = model.predict(assignment).by_stage
    assert late.predict(assignment).iteration == stages["propagation"] + 1.0
    hidden = dataclasses.replace(model, speeds=dataclasses.replace(model.speeds, overhead_s=1e-9))
    assert max(stages, key=stages.__getitem__) != "propagation"
    assert hidden.predict(assignment).iteration == model.predict(assignment).iteration


def test_the_hosts_memory_bounds_an_iteration_where_it_is_shared(model, speeds, assignment):
    """Loading, copies, and the aggregation of processors: 110 rows of features and twice 10 hidden ones per seed."""
    narrow = dataclasses.replace(speeds, host_bytes_per_s=1e9, sent_host_bytes=1.0)
    shared = dataclasses.replace(model, speeds=narrow)
    rows, aggregated = (1024 + 800) * 111 * 400, 224 * (110 * 400 + 2 * 10 * 256)
    assert shared.host_memory(assignment.shares) == pytest.approx((rows + aggregated) / 1e9)
    assert shared.predict(assignment).iteration == shared.host_memory(assignment.shares)
    assert model.host_memory(assignment.shares) == 0.0


def test_sampling_is_what_was_measured(model, assignment, speeds):
    times = model.predict(assignment)
    assert times.sampling_processor == speeds.sampling(724, 2)
    assert times.sampling_accelerators == speeds.accelerator_sampling(150)
    blind = dataclasses.replace(model, speeds=dataclasses.replace(speeds, accelerator_sampling=None))
    with pytest.raises(UsageError, match="seeds must be 0, got 300"):
        blind.predict(assignment)


@pytest.mark.parametrize("schedule", [Schedule(1, 0, 0), TWO_STAGE_PREFETCHING], ids=["serial", "prefetching"])
def test_the_first_division_is_the_fastest_of_all(model, schedule):
    scheduled = dataclasses.replace(model, schedule=schedule)
    found = initial_assignment(scheduled, 1024, parts=8, sampled_parts=4)
    every = [
        Assignment(found.kinds, (own, (1024 - own) // 2, (1024 - own) // 2), there, Threads(one, two, 8 - one - two))
        for own, there, one, two in product(range(0, 1025, 128), range(0, 1025, 256), range(1, 8), range(1, 8))
        if (8 - one - two >= 1 if own else one + two == 8)
    ]
    best = min(scheduled.predict(one).iteration for one in every)
    assert scheduled.predict(found).iteration == pytest.approx(best, rel=1e-3)


def test_the_probes_constants_are_those_of_the_machine(counts):
    speeds = probed_speeds(HARDWARE, counts)
    whole = 1 + 3 * 0.75
    assert speeds.kinds == ("processor", "accelerator", "accelerator")
    assert speeds.speedup(4) * speeds.flops_per_s == pytest.approx(2e11)
    assert speeds.host_bytes_per_s == pytest.approx(whole * 1e10)
    assert speeds.accelerators[0] == AcceleratorSpeeds(8e11, 2e10, 1.2e10)  # spmm by the root of the ratio of FLOPS
    assert speeds.sampling(10, 1) == pytest.approx(10 * (110 + 111) / 6e7)
    assert speeds.fused_bytes_per_s == speeds.memory_bytes_per_s == pytest.approx(1e10 / whole)
    assert speeds.overhead_s == 1e-3
    assert initial_assignment(PerformanceModel(SHAPE, counts, speeds), 512).batch_size == 512


@pytest.mark.parametrize("name", ["gcn", "sage", "gin", "gat", "transformer"])
def test_the_model_charges_what_the_surrogates_physics_charges(name):
    """One implementation: the same counts cost the same operations and bytes in both, of layers that map first."""
    from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
    from a3gnn.config import TrainConfig
    from a3gnn.task import Task
    from a3gnn_surrogate.columns import as_columns
    from a3gnn_surrogate.physics.model_cost import model_cost
    from a3gnn_surrogate.physics.volume import batch_volume

    graph = GraphCharacteristics(
        "g", "f", 10**6, 10**7, 10.0, 30.0, 1000, 0.5, 100, 1.0, 4 * 10**8, 400.0, False, 10, 10**5, 10**4, 10**4,
        0.1, 0.7, 1, 1.0, CACHE_FRACTIONS,
    )  # fmt: skip
    task = Task(model=name, fanouts=(25, 10), hidden_channels=64, heads=1)
    columns = as_columns([TrainConfig()])
    volume = batch_volume(columns, task, graph)
    cost = model_cost(columns, volume, task, graph)
    curve = CountCurve((1024,), np.array(volume.nodes).T, np.array(volume.edges).T)
    fused = name in ("gcn", "sage", "gin")
    shape = ModelShape(name, (100, 64, 10), fused_gather=fused, maps_first=True)

    def charged(flops_per_s: float, bytes_per_s: float) -> float:
        device = AcceleratorSpeeds(flops_per_s, bytes_per_s, 1.0)
        speeds = PlatformSpeeds(2, float, 1.0, 1.0, 1.0, 1.0, (device,), lambda seeds, threads: 0.0)
        return PerformanceModel(shape, curve, speeds, passes=COUNTED_PASSES).training((0, 1024), 1)[1]

    assert charged(1.0, 1e30) == pytest.approx(float(cost.gemm_flops[0]), rel=1e-9)
    assert charged(1e30, 1.0) == pytest.approx(float(cost.spmm_bytes[0]), rel=1e-9)
