"""Mini-batches are sampled, read and sent while trainers propagate those before (section IV-B)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice, pairwise
from threading import Event

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.schedule import Schedule
from a3gnn.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.pipeline.watch import Span, WatchedStage
from tests.hybrid.trainers.made import hybrid
from tests.training.equality import task_of, with_seeds

PREPARING = ("sampling", "loading", "transfer")
#: Mini-batches whose propagation waits for one that comes later; fewer than `OverlapPolicy` overlaps at first.
WAITING = 4


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


def meeting(trainer: HybridTrainer, ahead: int, patience_s: float) -> None:
    """Has loading of mini-batch t + `ahead` and propagation of t wait until both are under way, or for so long."""
    loading: dict[int, Event] = defaultdict(Event)
    propagation: dict[int, Event] = defaultdict(Event)
    at = trainer.watch.at

    @contextmanager
    def met(stage: WatchedStage, epoch: int, batch: int, place: int | None = None) -> Iterator[None]:
        with at(stage, epoch, batch, place):
            if stage == "loading" and ahead <= batch < WAITING + ahead:
                loading[batch].set()
                propagation[batch - ahead].wait(patience_s)
            if stage == "propagation" and batch < WAITING:
                propagation[batch].set()
                loading[batch + ahead].wait(patience_s)
            yield

    trainer.watch.at = met  # type: ignore[method-assign,assignment]


def recorded(graph: Graph, config: TrainConfig, ahead: int, patience_s: float) -> list[Span]:
    with hybrid(graph, config.replace(batch_size=64), task_of("sage"), (32, 32)) as trainer:
        meeting(trainer, ahead, patience_s)
        with closing(trainer.steps(0)) as steps:
            assert len(list(islice(steps, WAITING + ahead))) == WAITING + ahead
        return list(trainer.watch.spans)


def beside_propagation(spans: list[Span]) -> set[tuple[str, int, int]]:
    """Returns which stage of which mini-batch ran while which one was propagated."""
    return {
        (other.stage, other.batch, one.batch)
        for one in spans
        for other in spans
        if one.stage == "propagation" and other.stage in PREPARING
        if one.begin < other.end and other.begin < one.end
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_mini_batches_are_loaded_while_those_before_are_propagated(workers, graph):
    config = TrainConfig(parallel_mode="mode1", num_workers=workers)
    found = beside_propagation(recorded(graph, config, workers, patience_s=10.0))
    assert found >= {("loading", batch + workers, batch) for batch in range(WAITING)}
    assert all(batch < later <= batch + workers for _, later, batch in found)


def test_a_serial_loop_has_nothing_beside_propagation(graph):
    assert not beside_propagation(recorded(graph, TrainConfig(), 1, patience_s=0.02))


#: Depths by stage: Fig. 7's, and others with stages that run in turn and hand-overs of two.
SCHEDULES = [(1, 1, 1), (1, 0, 1), (0, 1, 1), (1, 1, 0), (1, 0, 0), (0, 0, 2), (2, 1, 1)]
STAGES = (*PREPARING, "propagation")


def last_of_groups(schedule: Schedule) -> dict[str, int]:
    """Returns the last stage of each group, and by how many mini-batches it may be ahead of propagation."""
    ahead = {stage: sum(schedule.depths[place:]) for place, stage in enumerate(STAGES)}
    return {group[-1]: ahead[group[-1]] for group in schedule.groups}


def meeting_by(trainer: HybridTrainer, schedule: Schedule, patience_s: float) -> None:
    """Has the groups of `schedule` wait until all work, each on the mini-batch that it may be ahead at, or so long."""
    at, ahead = trainer.watch.at, last_of_groups(schedule)
    under_way: dict[tuple[str, int], Event] = defaultdict(Event)

    @contextmanager
    def met(stage: WatchedStage, epoch: int, batch: int, place: int | None = None) -> Iterator[None]:
        with at(stage, epoch, batch, place):
            propagated = batch - ahead.get(stage, batch + 1)
            if 0 <= propagated < WAITING and not place:
                under_way[stage, propagated].set()
                for other in ahead:
                    under_way[other, propagated].wait(patience_s)
            yield

    trainer.watch.at = met  # type: ignore[method-assign,assignment]


def traced(graph: Graph, schedule: Schedule, expected: Schedule, patience_s: float) -> list[Span]:
    with hybrid(graph, TrainConfig(batch_size=64), task_of("sage"), (32, 32), prefetch=schedule) as trainer:
        meeting_by(trainer, expected, patience_s)
        list(trainer.steps(0))
        return list(trainer.watch.spans)


def overlap(spans: list[Span], schedule: Schedule) -> bool:
    """Returns whether all groups of `schedule` worked at once, each as far ahead as it may be, at the begin."""
    ahead = last_of_groups(schedule)
    found = {(span.stage, span.batch): span for span in spans if not span.trainer}
    together = [[found[stage, batch + by] for stage, by in ahead.items()] for batch in range(WAITING)]
    return len(ahead) > 1 and all(max(s.begin for s in one) < min(s.end for s in one) for one in together)


def keeps(spans: list[Span], schedule: Schedule) -> bool:
    """Returns whether no stage was further ahead than `schedule` lets it.

    A stage begins mini-batch t once the next one has begun t - depth, and so has ended the one before that; with depth
    0, once the last stage of its group has ended t - 1.
    """
    begins, ends = defaultdict(lambda: math.inf), defaultdict(float)
    for span in spans:
        place = span.stage, span.batch
        begins[place], ends[place] = min(begins[place], span.begin), max(ends[place], span.end)
    batches = range(1 + max(span.batch for span in spans))
    bounds = [(later, t, earlier, t) for earlier, later in pairwise(STAGES) for t in batches]
    bounds += [(group[0], t, group[-1], t - 1) for group in schedule.groups for t in batches]
    for group, others in pairwise(schedule.groups):
        depth = schedule.depths[STAGES.index(group[-1])]
        bounds += [(group[0], t, others[-1], t - depth - 1) for t in batches]
    return all(begins[stage, t] >= ends[other, before] for stage, t, other, before in bounds if before >= 0)


@pytest.mark.parametrize("depths", SCHEDULES, ids=str)
def test_each_stage_is_as_far_ahead_as_its_depth_says_and_no_further(depths, graph):
    schedule = Schedule(*depths)
    spans = traced(graph, schedule, schedule, patience_s=10.0)
    assert {(span.stage, span.batch) for span in spans} >= {(stage, batch) for stage in STAGES for batch in range(21)}
    assert overlap(spans, schedule)
    assert keeps(spans, schedule)


@pytest.mark.parametrize("depths", SCHEDULES, ids=str)
def test_a_serial_loop_does_not_overlap(depths, graph):
    spans = traced(graph, Schedule(0, 0, 0), Schedule(*depths), patience_s=0.02)
    assert keeps(spans, Schedule(0, 0, 0))
    assert not overlap(spans, Schedule(*depths))


@pytest.mark.weekly
def test_stages_that_are_further_ahead_do_not_keep_a_schedule(graph):
    spans = traced(graph, Schedule(1, 1, 1), Schedule(1, 1, 1), patience_s=10.0)
    for depths in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 0)):
        assert not keeps(spans, Schedule(*depths))
    assert not keeps(traced(graph, Schedule(2, 1, 1), Schedule(2, 1, 1), patience_s=10.0), Schedule(1, 1, 1))


def test_trainers_propagate_beside_each_other_and_each_stage_is_recorded(graph):
    with hybrid(graph, TrainConfig(batch_size=512), task_of("gin"), (256, 256)) as trainer:
        list(trainer.steps(0))
        spans = list(trainer.watch.spans)
    each = ("loading", "transfer", "propagation", "synchronization", "update")
    expected = {("sampling", None)} | {(stage, place) for stage in each for place in (0, 1)}
    assert {(span.stage, span.trainer) for span in spans} == expected
    by_place = [{s.batch: s for s in spans if (s.stage, s.trainer) == ("propagation", place)} for place in (0, 1)]
    assert len(by_place[0]) == 3
    for batch, one in by_place[0].items():  # batch statistics are summed within propagation
        other = by_place[1][batch]
        assert one.begin < other.end
        assert other.begin < one.end
