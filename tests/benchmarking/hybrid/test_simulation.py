"""Hybrid training on the virtual clock: the schedule, what bounds it, and what it refuses."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import pytest

from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.adaptation import Managed
from a3gnn.hybrid.devices.simulated_accelerator import operations
from a3gnn.hybrid.schedule import (
    STAGES,
    TWO_STAGE_PREFETCHING,
    Schedule,
)
from a3gnn.hybrid.stage_times import StageTimes
from benchmarks.hybrid.platform import SimulatedPlatform, sampling_on_processor
from benchmarks.hybrid.simulated_training import SimulatedTraining, Static, Trace, most_seeds


def at(trace: Trace, stage: str) -> dict[int, tuple[float, float]]:
    """When a stage begins and ends each mini-batch."""
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for span in trace.spans:
        if span.stage == stage:
            found[span.batch].append((span.begin, span.end))
    return {batch: (min(b for b, _ in spans), max(e for _, e in spans)) for batch, spans in found.items()}


def with_platform(training: SimulatedTraining, **changes: object) -> SimulatedTraining:
    return dataclasses.replace(training, platform=dataclasses.replace(training.platform, **changes))


def test_a_tick_samples_one_loads_the_one_before_transfers_and_propagates_those_before_that(training, assignment):
    """Fig. 7, where propagation is the bottleneck: while t propagates, t + 1, t + 2 and t + 3 are on their way."""
    slow = Assignment(assignment.kinds, (700, 162, 162), 0, Threads(2, 5, 1))
    trace = training.run(Static(slow, 12))
    spans = {stage: at(trace, stage) for stage in STAGES}
    for tick in range(4, 9):
        begin, end = spans["propagation"][tick]
        for ahead, stage in enumerate(("transfer", "loading", "sampling"), start=1):
            other = spans[stage][tick + ahead]
            assert begin <= other[0] < other[1] <= end, f"{stage} of {tick + ahead} while {tick} propagates"


def test_without_prefetching_a_mini_batch_is_loaded_transferred_and_trained_before_the_next(training, assignment):
    trace = dataclasses.replace(training, schedule=Schedule(1, 0, 0)).run(Static(assignment, 8))
    spans = {stage: at(trace, stage) for stage in STAGES}
    for batch in range(7):
        assert spans["loading"][batch][1] <= spans["transfer"][batch][0]
        assert spans["transfer"][batch][1] <= spans["propagation"][batch][0]
        assert spans["propagation"][batch][1] <= spans["loading"][batch + 1][0]


@pytest.mark.parametrize(
    "schedule",
    [Schedule(1, 0, 0), Schedule(1, 0, 1), TWO_STAGE_PREFETCHING, Schedule(0, 0, 0), Schedule(2, 3, 2)],
    ids=str,
)
def test_without_contention_groups_of_stages_overlap_and_stages_of_a_group_add_up(training, assignment, schedule):
    scheduled = dataclasses.replace(training, schedule=schedule)
    trace = scheduled.run(Static(assignment, 18))
    times = trace.times[8]
    assert trace.seconds_per_batch(6, 6) == pytest.approx(schedule.iteration_seconds(times.by_stage), rel=1e-6)


def test_more_depth_helps_only_where_stages_vary(training):
    """Stages that take equally long on average, and vary: a deeper queue lets the next one work meanwhile."""
    even = Assignment(training.platform.kinds, (166, 429, 429), 0, Threads(2, 4, 2))
    deep = dataclasses.replace(training, schedule=Schedule(4, 4, 4))
    assert deep.seconds_per_batch(even) == pytest.approx(training.seconds_per_batch(even))
    shallow, more = (
        with_platform(one, jitter=0.5).run(Static(even, 400)).seconds_per_batch(10) for one in (training, deep)
    )
    assert more < shallow


def test_stages_slow_each_other_down_where_they_share_the_hosts_memory(training, assignment):
    narrow = dataclasses.replace(training.platform.processor, memory_bytes_per_s=1.2e10)
    alone = training.seconds_per_batch(assignment)
    shared = with_platform(training, processor=narrow).seconds_per_batch(assignment)
    copied = with_platform(training, processor=narrow, sent_host_bytes=1.0).seconds_per_batch(assignment)
    assert alone < shared < copied


def test_an_accelerator_that_samples_trains_slower_unless_sampling_has_circuits_of_its_own(training, assignment):
    """Where processors are the bottleneck, accelerators begin to train one mini-batch and to sample another at once."""
    assignment = dataclasses.replace(assignment, shares=(500, 262, 262), threads=Threads(1, 6, 1))
    busy = dataclasses.replace(assignment, sampled_on_accelerators=1000)
    beside = tuple(dataclasses.replace(one, samples_beside=True) for one in training.platform.accelerators)
    shared = training.run(Static(busy, 12)).times[6].training[1]
    apart = with_platform(training, accelerators=beside).run(Static(busy, 12)).times[6].training[1]
    alone = training.run(Static(assignment, 12)).times[6].training[1]
    assert apart == pytest.approx(alone)
    assert shared > alone


def test_a_run_is_the_same_every_time_and_another_with_another_seed(training, assignment):
    shaky = with_platform(training, jitter=0.1)
    first, again = (shaky.run(Static(assignment, 6)) for _ in range(2))
    assert first.spans == again.spans
    assert first.spans != dataclasses.replace(shaky, seed=1).run(Static(assignment, 6)).spans


def test_jitter_changes_single_mini_batches_and_not_their_mean(training, assignment):
    trace = with_platform(training, jitter=0.1).run(Static(assignment, 400))
    alone = sampling_on_processor(training.platform.processor, 2, training.counts.at(1024))
    sampled = [times.sampling_processor for times in trace.times]
    assert max(sampled) > 1.15 * alone
    assert sum(sampled) / len(sampled) == pytest.approx(alone, rel=0.02)


def test_one_trainer_has_nobody_to_synchronize_with(training, assignment):
    alone = Assignment(assignment.kinds, (1024, 0, 0), 0, assignment.threads)
    times = training.run(Static(alone, 3)).times[-1]
    assert times.synchronization == 0.0
    assert times.transfer == (0.0, 0.0, 0.0)
    assert training.run(Static(assignment, 3)).times[-1].synchronization > 0.0


def test_edges_are_counted_once_per_layer_that_traverses_them(training, assignment):
    """Two layers: the input layer's 110 edges per seed, and the output layer's 10."""
    trace = training.run(Static(assignment, 3))
    assert trace.edges == pytest.approx([1024 * 120.0] * 3)
    assert trace.mteps(2) == pytest.approx(1024 * 120 / (trace.ends[2] - trace.ends[1]) / 1e6)


def test_what_does_not_fit_into_an_accelerator_is_refused_with_what_fits(training, assignment):
    tight = tuple(dataclasses.replace(one, memory_bytes=4e7) for one in training.platform.accelerators)
    small = with_platform(training, accelerators=tight)
    fit = most_seeds(tight[0], small.model, small.counts, small.schedule)
    with pytest.raises(MemoryLimitError, match=f"{fit} seeds fit"):
        small.seconds_per_batch(assignment)
    fitting = Assignment(assignment.kinds, (1024 - 2 * fit, fit, fit), 0, assignment.threads)
    assert small.seconds_per_batch(fitting) > 0
    with pytest.raises(MemoryLimitError):
        small.seconds_per_batch(dataclasses.replace(fitting, shares=(1024 - 2 * fit - 1, fit + 1, fit)))


def test_deeper_prefetching_takes_memory_on_the_accelerator(training):
    device, model, counts = training.platform.accelerators[0], training.model, training.counts
    tight = dataclasses.replace(device, memory_bytes=4e7)
    fits = [most_seeds(tight, model, counts, Schedule(1, 1, depth)) for depth in (0, 1, 4)]
    assert fits[0] > fits[1] > fits[2] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kinds": ("processor",), "shares": (1024,)}, "trainers must be"),
        ({"threads": Threads(4, 4, 4)}, "8 threads must suffice"),
    ],
    ids=["trainers", "threads"],
)
def test_an_assignment_of_another_platform_is_refused(training, assignment, change, message):
    with pytest.raises(UsageError, match=message):
        training.seconds_per_batch(dataclasses.replace(assignment, **change))


@pytest.mark.parametrize(
    ("name", "unit"), [("launch_s", "seconds"), ("sampled_edges_per_s", "edges per second"), ("half_rows", "rows")]
)
def test_a_refused_figure_names_its_unit(training, name, unit):
    with pytest.raises(UsageError, match=f"{name} must be >= 0 {unit}, got -1"):
        dataclasses.replace(training.platform.accelerators[0], **{name: -1})


def test_accelerators_that_cannot_sample_are_not_asked_to(training, assignment):
    blind = tuple(dataclasses.replace(one, sampled_edges_per_s=0.0) for one in training.platform.accelerators)
    with pytest.raises(UsageError, match="sampled_edges_per_s"):
        with_platform(training, accelerators=blind).seconds_per_batch(
            dataclasses.replace(assignment, sampled_on_accelerators=1)
        )


def test_pipelined_kernels_cost_the_slower_of_the_two_and_a_fused_gather_saves_the_first_aggregation(
    training, assignment
):
    device = training.platform.accelerators[0]
    fpga = dataclasses.replace(device, pipelined=True)
    plain = training.run(Static(assignment, 3)).times[-1].training[1]
    assert with_platform(training, accelerators=(fpga, fpga)).run(Static(assignment, 3)).times[-1].training[1] < plain
    fused = dataclasses.replace(training.model, fused_gather=True)
    counts = training.counts.at(412)
    assert len(list(operations(fused, counts))) == len(list(operations(training.model, counts))) - 1
    assert fused.sent_bytes(counts) < training.model.sent_bytes(counts)


def test_a_platform_without_accelerators_trains_on_processors(training):
    alone = dataclasses.replace(training, platform=SimulatedPlatform(training.platform.processor))
    times = alone.run(Static(Assignment(("processor",), (1024,), 0, Threads(2, 3, 3)), 4)).times[-1]
    assert times.propagation == times.training_processor > 0
    assert times.accelerators == 0.0


def test_seconds_count_only_while_the_pipeline_is_full(training, assignment):
    trace = training.run(Static(assignment, 6))
    assert trace.seconds_per_batch(1) == pytest.approx((trace.ends[5] - trace.ends[0]) / 5)
    assert trace.seconds_per_batch(2, 3) == pytest.approx(trace.ends[2] - trace.ends[1])
    for skipped, drained in ((0, 0), (6, 0), (3, 3)):
        with pytest.raises(UsageError):
            trace.seconds_per_batch(skipped, drained)


class _Recorder:
    """A controller that changes the division twice, and keeps what it was told."""

    def __init__(self, divisions: list[Assignment]) -> None:
        self.told: list[tuple[Assignment, StageTimes]] = []
        self._divisions = divisions

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        self.told.append((assignment, times))
        return self._divisions.pop(0) if self._divisions else assignment


def test_a_controller_is_told_of_its_own_division_alone_once_the_pipeline_has_drained(
    training: SimulatedTraining, assignment: Assignment
):
    """What it is told equals what a run under that division alone measures."""
    others = [
        dataclasses.replace(assignment, shares=(500, 262, 262)),
        dataclasses.replace(assignment, threads=Threads(4, 2, 2)),
    ]
    recorder = _Recorder(list(others))
    training.run(Managed(recorder, assignment, iterations=3))
    assert [told for told, _ in recorder.told] == [assignment, *others]
    for told, mean in recorder.told:
        alone = training.run(Static(told, 14)).times[7]
        assert mean.by_stage == pytest.approx(alone.by_stage)
        assert mean.iteration == pytest.approx(alone.iteration)


def test_management_without_an_end_keeps_no_history(training: SimulatedTraining, assignment: Assignment):
    managed = Managed(_Recorder([]), assignment, iterations=None, measured=1, skipped=2)
    seen = [training.run(Static(assignment, 3)).times[-1]] * 5
    for times in seen:
        managed.measured(assignment, times)
    recorder = managed._controller
    assert isinstance(recorder, _Recorder)
    assert len(recorder.told) == 3
    managed.drained()
    managed.measured(assignment, seen[0])
    assert len(recorder.told) == 3  # the pipeline fills anew
    assert managed.history == []
    assert managed.assignment() is assignment
