"""Mini-batches are sampled, read and sent while trainers propagate those before (section IV-B)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from threading import Event

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.watch import Span, Stage
from a3gnn.training.hybrid.trainers.hybrid_trainer import HybridTrainer
from tests.training.equality import task_of, with_seeds
from tests.training.hybrid.trainers.made import hybrid

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
    def met(stage: Stage, epoch: int, batch: int, place: int | None = None) -> Iterator[None]:
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


def test_trainers_propagate_beside_each_other_and_each_stage_is_recorded(graph):
    with hybrid(graph, TrainConfig(batch_size=512), task_of("gin"), (256, 256)) as trainer:
        list(trainer.steps(0))
        spans = list(trainer.watch.spans)
    each = ("loading", "transfer", "propagation", "synchronisation", "update")
    expected = {("sampling", None)} | {(stage, place) for stage in each for place in (0, 1)}
    assert {(span.stage, span.trainer) for span in spans} == expected
    by_place = [{s.batch: s for s in spans if (s.stage, s.trainer) == ("propagation", place)} for place in (0, 1)]
    assert len(by_place[0]) == 3
    for batch, one in by_place[0].items():  # batch statistics are summed within propagation
        other = by_place[1][batch]
        assert one.begin < other.end
        assert other.begin < one.end
