"""What a trial's peak of memory is made of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn_surrogate.analytic import expected_work
from a3gnn_surrogate.calibration import MEMORY_TERMS
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.memory import memory_terms

#: float32, then bfloat16.
CONFIGS = [TrainConfig(), TrainConfig(compute_dtype="bfloat16")]


@pytest.fixture
def terms(graphs, laptop):
    def of(name, task=Task(), graph=graphs["dense"], hardware=laptop):  # noqa: B008
        columns, setting = as_columns(CONFIGS), Setting(task, graph, hardware)
        return memory_terms(columns, *expected_work(columns, setting), setting)[:, MEMORY_TERMS.index(name)]

    return of


@pytest.mark.parametrize("task", [Task(model="gin"), Task(model="gat"), Task(norm="layer")], ids=["gin", "gat", "norm"])
def test_modules_of_pyg_count_where_layers_use_them(terms, task):
    assert task.uses_pyg
    np.testing.assert_array_equal(terms("modules", task), 64 * 2**20)
    np.testing.assert_array_equal(terms("modules", Task(model="gcn")), 0)


def test_kernels_count_where_products_are_in_bfloat16_on_the_host(terms, accelerated):
    np.testing.assert_array_equal(terms("kernels") > 0, [False, True])
    np.testing.assert_array_equal(terms("kernels", hardware=accelerated), 0)


def test_evaluated_rows_grow_with_nodes_and_width(terms, graphs):
    graph = graphs["dense"]
    twice = dataclasses.replace(graph, num_nodes=2 * graph.num_nodes)
    known = terms("evaluated_rows", Task(hidden_channels=64))
    np.testing.assert_array_equal(terms("evaluated_rows", Task(hidden_channels=128)), 2 * known)
    np.testing.assert_array_equal(terms("evaluated_rows", Task(hidden_channels=64), twice), 2 * known)
    assert (known > 0).all()
