"""What norms and residual connections add to a predicted step."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.models.model import build_model
from a3gnn.task import Task
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.model_cost import model_cost
from a3gnn_surrogate.physics.volume import batch_volume

COLUMNS = as_columns([TrainConfig(), TrainConfig(batch_size=256, compute_dtype="bfloat16")])
KINDS = [("batch", False), ("layer", False), ("none", True), ("layer", True), ("layer", "linear")]


@pytest.fixture
def cost(graphs):
    def of(**fields):
        task, graph = Task(fanouts=(10, 5, 5), hidden_channels=64, **fields), graphs["dense"]
        return model_cost(COLUMNS, batch_volume(COLUMNS, task, graph), task, graph)

    return of


@pytest.mark.parametrize(("norm", "residual"), KINDS)
@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_the_weights_that_are_added_are_those_of_the_model(cost, graphs, model, norm, residual):
    graph = graphs["dense"]

    def built(**fields):
        task = Task(model=model, fanouts=(10, 5, 5), hidden_channels=64, **fields)
        return sum(one.numel() for one in build_model(task, graph.num_features, graph.num_classes).parameters())

    added = cost(model=model, norm=norm, residual=residual).parameters - cost(model=model).parameters
    assert added == built(norm=norm, residual=residual) - built() > 0


@pytest.mark.parametrize(("norm", "residual"), KINDS)
def test_they_take_memory_and_time(cost, norm, residual):
    plain, other = cost(), cost(norm=norm, residual=residual)
    assert (other.activation_bytes > plain.activation_bytes).all()
    assert (other.spmm_bytes > plain.spmm_bytes).all()
    assert (other.gemm_flops > plain.gemm_flops).all() == bool(residual)
    assert (other.activation_bytes - plain.activation_bytes)[1] < (other.activation_bytes - plain.activation_bytes)[0]


def test_a_norm_takes_a_row_for_each_node_that_a_layer_before_the_last_computes(cost, graphs):
    task = Task(fanouts=(10, 5, 5), hidden_channels=64)
    nodes = batch_volume(COLUMNS, task, graphs["dense"]).nodes
    kept = cost(norm="batch").activation_bytes - cost().activation_bytes
    np.testing.assert_allclose(kept, np.array([4.0, 2.0]) * 64 * (nodes[1] + nodes[2]), rtol=1e-9)


def test_a_model_of_one_layer_has_neither(graphs):
    graph, tasks = graphs["dense"], (Task(fanouts=(10,)), Task(fanouts=(10,), norm="batch", residual=True))
    costs = [model_cost(COLUMNS, batch_volume(COLUMNS, task, graph), task, graph) for task in tasks]
    assert costs[0].parameters == costs[1].parameters
    assert np.array_equal(costs[0].activation_bytes, costs[1].activation_bytes)
