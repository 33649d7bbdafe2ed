"""A target that takes no learning is said to be one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from a3gnn.evaluation.choose_metric import majority_share
from a3gnn.graphs.graph import Graph
from a3gnn.tuning.outcome.result import TuneResult


def test_the_majority_is_that_of_the_validation_nodes(tiny_graph: Graph) -> None:
    labels = tiny_graph.labels[tiny_graph.val_ids].tolist()
    expected = max(labels.count(one) for one in set(labels)) / len(labels)
    assert majority_share(tiny_graph) == pytest.approx(expected)


@pytest.mark.parametrize(("above", "said"), [(0, True), (-1, True), (1, False)])
def test_a_target_up_to_the_majority_is_said_to_take_no_learning(
    quick_tune: Callable[..., TuneResult], tiny_graph: Graph, above: int, said: bool
) -> None:
    lines: list[str] = []
    quick_tune(target_accuracy=100 * majority_share(tiny_graph) + above, notify=lines.append)
    found = [line for line in lines if "needs no learning" in line]
    assert len(found) == said
    if said:
        assert f"has a validation accuracy of {majority_share(tiny_graph):.2%}." in found[0]
