"""What a trial's peak of memory is made of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.characteristics import AHEAD_BYTES, AHEAD_ROW_BYTES, CACHE_INDEX_BYTES
from a3gnn.config import TrainConfig
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.analytic import expected_work
from a3gnn_surrogate.physics.memory import memory_terms, training_peak
from a3gnn_surrogate.physics.stage_seconds import MEMORY_TERMS
from a3gnn_surrogate.rows import HOST_BYTES, RowSource

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


def test_reading_ahead_takes_what_it_is_given_if_rows_fit_and_no_more_than_all_of_it(graphs, laptop):
    graph, sizes = graphs["dense"], (8 << 20, 32 << 20, 64 << 30)
    configs = [TrainConfig(feature_tier="disk", cache_policy="ahead", cache_bytes=size) for size in sizes]
    columns, setting = as_columns(configs), Setting(Task(), graph, laptop)
    volume, cost = expected_work(columns, setting)
    none, some, most = memory_terms(columns, volume, cost, setting)[:, MEMORY_TERMS.index("cache")]
    assert (none, some) == (0, sizes[1])  # blocks under way alone take more than 8 MiB
    rows = graph.num_nodes * (graph.row_bytes + AHEAD_ROW_BYTES + CACHE_INDEX_BYTES) + AHEAD_BYTES
    assert rows < most < rows + volume.batches[0] * 4 * (2 * volume.input_nodes[0] + volume.sampled_edges[0])
    assert volume.hit_rate[0] == 0 < volume.hit_rate[2]


def test_evaluated_rows_grow_with_nodes_and_width(terms, graphs):
    graph = graphs["dense"]
    twice = dataclasses.replace(graph, num_nodes=2 * graph.num_nodes)
    known = terms("evaluated_rows", Task(hidden_channels=64))
    np.testing.assert_array_equal(terms("evaluated_rows", Task(hidden_channels=128)), 2 * known)
    np.testing.assert_array_equal(terms("evaluated_rows", Task(hidden_channels=64), twice), 2 * known)
    assert (known > 0).all()


def test_evaluation_takes_a_budget_or_all_rows_where_these_are_less(terms, graphs):
    graph, task = graphs["dense"], Task(hidden_channels=64)
    few = dataclasses.replace(graph, num_nodes=100, num_features=8)
    np.testing.assert_array_equal(terms("evaluation", task, few), 2**23 + 2 * 100 * 4 * (2 * 8 + 2 * 64))
    np.testing.assert_array_equal(terms("evaluation", task, dataclasses.replace(few, num_nodes=10**7)), 72 * 2**20)


def test_a_trial_that_only_timed_mini_batches_took_less_than_a_training_does(metrics, laptop, accelerated):
    idle = laptop.profile.idle_host_bytes
    trained = dataclasses.replace(metrics, peak_host_bytes=idle + 100, curve_train_seconds=1.0, val_accuracy=None)
    timed = dataclasses.replace(trained, curve_train_seconds=0.0)
    assert training_peak(trained, laptop) == idle + 100
    assert training_peak(timed, laptop) == idle + 100 + 15 * 2**20
    assert training_peak(timed, accelerated) == idle + 100
    assert training_peak(dataclasses.replace(timed, val_accuracy=0.5), laptop) == idle + 100
    assert training_peak(dataclasses.replace(timed, rehearsal_seconds=1.0), laptop) == idle + 100


def test_a_search_is_told_what_a_training_takes(simulate, draw, laptop):
    """Rows that are equal but in whether they trained a curve differ by that alone where models are fitted to them."""
    row = simulate("dense", draw("dense", 1, seed=0))[0]
    one, other = (
        dataclasses.replace(
            row, outcome=dataclasses.replace(row.outcome, val_accuracy=None, curve_train_seconds=seconds)
        )
        for seconds in (0.0, 2.0)
    )
    found = RowSource([one, other]).rows().measured[:, HOST_BYTES]
    assert np.exp(found[0]) - np.exp(found[1]) == pytest.approx(15 * 2**20)
