"""Real ranks compute what one process does of the same mini-batches, and read what they lack from the host alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.graphs.graph import Graph
from a3gnn.models.model import build_model
from tests.hitgnn.algorithms.ranks_of import ALGORITHMS, CASES, TASKS, Found, by_one_process
from tests.training.ranks.launched import run_loop

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
WEEKLY = pytest.mark.weekly
SCRIPT = Path(__file__).with_name("ranks_of.py")


@pytest.fixture(
    scope="module",
    params=[pytest.param(2, marks=WEEKLY), pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=WEEKLY)],
)
def by_ranks(request, tiny_folder_graph, tmp_path_factory) -> tuple[int, dict[Any, Found]]:
    """What each case came to, by so many ranks."""
    out = tmp_path_factory.mktemp("ranks") / "found.pt"
    run_loop(SCRIPT, tiny_folder_graph.folder, out, processes=request.param)
    found = torch.load(out, weights_only=True)
    return request.param, {case: Found(*one) for case, one in found.items()}


@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_gradients_are_those_of_one_process(algorithm, task, by_ranks, tiny_folder_graph):
    ranks, found = by_ranks
    graph = Graph.load(tiny_folder_graph.folder)
    expected = by_one_process(ALGORITHMS[algorithm], graph, ranks, TASKS[task])
    own = found[algorithm, task]
    assert len(own.gradients) == len(expected.gradients) >= 4
    for one, other in zip(own.gradients, expected.gradients, strict=True):
        assert float((one - other).abs().max()) <= 1e-10 * max(1.0, float(other.abs().max()))
        assert float(other.abs().max()) > 1e-4
    split = algorithm in ("columns", "p3")
    first = build_model(TASKS[task], graph.num_features, graph.num_classes).layers[0]
    never_sent = 8 * sum(weight.numel() for weight in first.input_weights) if split else 0
    row_bytes, message = 4 * graph.num_features, 2 * (expected.gradients[0].nbytes - never_sent)
    passes = 1 if ALGORITHMS[algorithm].direct else 2  # every row has a rank that stores it
    for row, counted in zip(own.traffic, expected.traffic, strict=True):
        for one, other in zip(row, counted, strict=True):
            assert one | other == one
            assert one["host_bytes"] == passes * (one["rows"] - one["hits"]) * row_bytes
            assert (one["structure_bytes"] > 0) == (one["activation_bytes"] > 0) == split
            assert one["gradient_bytes"] == message
            assert one["batches"] or one["rows"] > 0  # it keeps step with a node


def test_some_ranks_were_idle_and_some_trained_others_mini_batches(by_ranks):
    _, found = by_ranks
    balanced, unbalanced = (found[name, "sage"].traffic for name in ("parts", "hot"))
    assert len(balanced) < len(unbalanced)
    assert any(one["moved"] for row in balanced for one in row)
    assert not any(one["moved"] for row in unbalanced for one in row)
    assert any(not one["batches"] for row in unbalanced for one in row)
