"""Mini-batches are sampled, read and sent while trainers propagate those before (section IV-B)."""

from __future__ import annotations

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.watch import Span
from tests.training.equality import task_of, with_seeds
from tests.training.hybrid.trainers.made import hybrid

PREPARING = ("sampling", "loading", "transfer")


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


def recorded(graph: Graph, config: TrainConfig) -> list[Span]:
    task = task_of("gat", hidden_channels=64, fanouts=(10, 10))
    with hybrid(graph, config.replace(batch_size=64), task, (32, 32)) as trainer:
        assert len(list(trainer.steps(0))) == 21
        return list(trainer.watch.spans)


def beside_propagation(spans: list[Span]) -> set[tuple[str, int]]:
    """Returns which stage of a mini-batch so many later than one that was propagated ran at the same time."""
    found = set()
    for one in spans:
        for other in spans:
            at_once = one.begin < other.end and other.begin < one.end
            if one.stage == "propagation" and other.stage in PREPARING and at_once:
                found.add((other.stage, other.batch - one.batch))
    return found


def test_the_next_mini_batch_is_loaded_while_one_is_propagated(graph):
    found = beside_propagation(recorded(graph, TrainConfig(parallel_mode="mode1", num_workers=1)))
    assert found >= {("sampling", 1), ("loading", 1)}
    assert all(ahead == 1 for _, ahead in found)


def test_two_workers_are_two_mini_batches_ahead(graph):
    found = beside_propagation(recorded(graph, TrainConfig(parallel_mode="mode1", num_workers=2)))
    assert ("loading", 2) in found
    assert all(ahead in (1, 2) for _, ahead in found)


def test_a_serial_loop_has_nothing_beside_propagation(graph):
    assert not beside_propagation(recorded(graph, TrainConfig()))


def test_trainers_propagate_beside_each_other_and_each_stage_is_recorded(graph):
    spans = recorded(graph, TrainConfig())
    by_stage = {(span.stage, span.trainer) for span in spans}
    each = ("loading", "transfer", "propagation", "synchronisation", "update")
    assert by_stage == {("sampling", None)} | {(stage, trainer) for stage in each for trainer in (0, 1)}
    first, second = ([s for s in spans if s.stage == "propagation" and s.trainer == one] for one in (0, 1))
    pairs = zip(sorted(first, key=lambda span: span.batch), sorted(second, key=lambda span: span.batch), strict=True)
    assert any(one.begin < other.end and other.begin < one.end for one, other in pairs)
