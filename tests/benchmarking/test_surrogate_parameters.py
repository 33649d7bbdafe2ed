"""The search for XGBoost's parameters, on the shipped rows of three graphs."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.measurement import Measurement
from a3gnn_surrogate.conformal import graph_folds
from a3gnn_surrogate.learner import PARAMETERS
from a3gnn_surrogate.row_source import RowSource
from a3gnn_surrogate.training_rows import OUTPUTS
from benchmarks.surrogate_parameters import Task, nested, search


@pytest.fixture(scope="module")
def task(rows: list[Measurement]) -> Task:
    return Task.of(RowSource(rows), lambda graphs: graph_folds(graphs, 0), 0)


def test_folds_hold_out_whole_graphs_of_each_output_that_has_rows(task: Task) -> None:
    assert set(task.folds) == set(OUTPUTS) - {"peak_device_bytes"}
    for folds in task.folds.values():
        assert len(folds) == 3
        np.testing.assert_array_equal(np.sum([fold.held for fold in folds], axis=0), 1)


def test_without_trees_the_error_is_that_of_nothing(task: Task) -> None:
    assert all(ratios[0] == 1 for ratios in task.ratios(PARAMETERS).values())
    assert task.loss(PARAMETERS) <= 1


def test_a_search_finds_nothing_worse_than_what_ships(task: Task) -> None:
    assert task.loss(search(task, trials=3)) <= task.loss(PARAMETERS)


def test_parameters_are_scored_on_graphs_that_no_search_saw(rows: list[Measurement]) -> None:
    parts = nested(rows, trials=1, seed=0)
    assert len(parts) == 3
    for part in parts:
        assert all(old == new for old, new in part.values())  # the only trial is what ships
