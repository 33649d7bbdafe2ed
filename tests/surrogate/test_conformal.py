"""Folds and half-widths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn_surrogate.local import half_width
from a3gnn_surrogate.residual import group_folds, row_folds


@given(count=st.integers(1, 60), folds=st.integers(1, 8), seed=st.integers(0, 99))
def test_row_folds_hold_out_each_row_once(count, folds, seed):
    held = np.array(row_folds(count, folds, seed))
    assert (held.sum(axis=0) == 1).all()
    assert held.sum(axis=1).max() - held.sum(axis=1).min() <= 1


@given(graphs=st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=40), seed=st.integers(0, 99))
def test_graph_folds_never_cut_a_graph(graphs, seed):
    names = np.array(graphs)
    folds = group_folds(names, seed)
    assert (np.sum(folds, axis=0) == 1).all()
    if len(set(graphs)) > 1:
        for held in folds:
            assert not set(names[held]) & set(names[~held])


def test_half_width_is_the_conformal_quantile():
    errors = np.arange(1, 101) * np.where(np.arange(100) % 2, 1.0, -1.0)
    assert half_width(errors, np.full(100, "a"), 0.9) == 91  # ceil(0.9 * 101)


def test_half_width_weighs_graphs_alike():
    errors = np.concatenate([np.full(900, 0.1), np.full(100, 1.0)])
    graphs = np.array(["large"] * 900 + ["small"] * 100)
    assert half_width(errors, np.full(1000, "one"), 0.6) == pytest.approx(0.1)
    assert half_width(errors, graphs, 0.6) == 1.0


def test_half_width_is_corrected_by_the_number_of_graphs():
    errors = np.tile(np.arange(1.0, 101.0), 20)
    graphs = np.repeat([f"graph {number}" for number in range(20)], 100)
    assert half_width(errors, graphs, 0.9) == 95  # 0.9 (1 + 1 / 20) = 0.945; by rows it would be 91


def test_half_width_of_few_errors_is_the_largest_and_of_none_infinite():
    assert half_width(np.array([0.1, np.nan, -0.4]), np.array(["a", "a", "b"]), 0.9) == 0.4
    assert half_width(np.array([np.nan]), np.array(["a"]), 0.9) == np.inf
