"""Every rule of graphs: broken alone, and named with the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3gnn.errors import GraphError
from a3gnn.graphs.graph import Graph

Arrays = dict[str, np.ndarray]
Npz = Callable[..., Path]

_X = np.zeros((6, 3), dtype=np.float32)
_NONE = np.zeros(6, dtype=bool)
_CSR: dict[str, Any] = {
    "x": None,
    "x_data": np.ones(2, dtype=np.float32),
    "x_indices": np.array([0, 2]),
    "x_indptr": np.array([0, 1, 1, 2, 2, 2, 2]),
    "x_shape": np.array([6, 3]),
}


def _with_nan() -> np.ndarray:
    x = _X.copy()
    x[2, 1], x[4, 0] = np.nan, np.inf
    return x


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": np.array([[0, 6], [1, 1]])}, r"edge_index must be in \[0, 6\).*got 0 to 6; renumber"),
        ({"edge_index": np.array([[0, -1], [1, 1]])}, r"edge_index must be in \[0, 6\).*got -1 to 1"),
        ({"edge_index": np.zeros((3, 4), dtype=int)}, r"edge_index must have shape \(2, E\), got \(3, 4\)"),
        ({"edge_index": np.zeros((4, 2), dtype=int)}, r"must have shape \(2, E\), got \(4, 2\); .*edge_index\.T has"),
        ({"edge_index": np.eye(6, dtype=int)}, r"must have shape \(2, E\), .*np\.nonzero"),
        ({"edge_index": np.array([[1, 6], [2, 1]])}, r"got 1 to 6; these ids begin at 1: edge_index - 1"),
        ({"edge_index": np.empty((2, 0))}, r"must have an edge, got none"),
        ({"edge_index": np.zeros((2, 4))}, r"edge_index must be integers of 2 dimensions, got float64"),
        ({"edge_index": np.zeros((2, 0), dtype=int)}, r"must have an edge, got none"),
        ({"x": _with_nan()}, r"x must be finite, got 2 NaN or infinite values; replace"),
        ({"x": _X.astype(complex)}, r"x must be real numbers, such as float32, of 2 dimensions, got complex128"),
        ({"x": _X.astype(np.float64) + 1e300}, r"x must fit float32, up to 3.4e\+38, got 18 values beyond"),
        (
            {"x": _X[:, 0]},
            r"x must be real numbers, .* of 2 dimensions, got float32 of shape \(6,\); .* x\.reshape\(6, -1\)",
        ),
        ({"x": _X[:, :0]}, r"x must have a column"),
        ({"x": _X[:5]}, r"edge_index must be in \[0, 5\)"),
        ({"y": np.array([0, 1, 0, 1, 0, -2])}, r"y must be in \[-1, 6\), got -2 to 1; number classes from 0"),
        ({"y": np.array([0, 1, 0, 1, 0, 6])}, r"y must be in \[-1, 6\), got 0 to 6"),
        ({"y": np.array([0, 1])}, r"y must have one label per node, got 2 for 6"),
        ({"y": np.full((6, 2), 2)}, r"2-dimensional y must hold 0 and 1, got 2 to 2"),
        ({"y": np.eye(6, dtype=int)}, r"must have a row that is not one-hot, .* give y\.argmax\(axis=1\)"),
        ({"y": np.full((6, 2), -1)}, r"must have labeled nodes, got none \(every row"),
        ({"y": np.array([[0, -1]] * 6)}, r"got 6 rows with unknown labels beside known ones, .* y = y\[:, 0\]$"),
        ({"y": np.array([[0, np.nan]] * 6)}, r"got 6 rows with unknown labels .*nan_to_num\(y\[:, 0\]"),
        ({"y": np.array([[0.0, -1.0]] * 6)}, r"got 6 rows with unknown labels beside known ones"),
        ({"y": np.zeros((6, 0), dtype=int)}, r"must have 2 columns or more, .* y\.reshape\(-1\)"),
        ({"y": np.array([[0, 1, 0, 1, 0, 1]])}, r"must have one label per node, got 1 for 6; .*y\.reshape\(-1\)"),
        ({"y": np.array([1, 0, 1, 0, 1, 1], dtype=bool)}, r"got bool of shape \(6,\); y\.astype\(int\) makes classes"),
        ({"y": np.array([0, 1, np.inf, 0, 0, 0])}, r"y must be finite in float32, or NaN .* got 1 infinite"),
        (
            {"y": np.array([0, 1, 1e300, 0, 0, 0])},
            r"y must fit float32, up to 3.4e\+38, got 1 values beyond, such as 1e\+300",
        ),
        ({"y": np.full(6, np.nan)}, r"must have labeled nodes, got none \(y is NaN"),
        ({"y": np.array(list("abcdef"))}, r"y must hold numbers, got <U1 .*np\.unique.*pandas\.factorize\(y\)\[0\]"),
        ({"y": np.array(list("abcdef"), object)}, r"y must hold numbers, got Python objects.*pandas\.factorize\(y\)"),
        ({"y": np.full(6, -1)}, r"must have labeled nodes, got none"),
        ({"train_mask": _NONE}, r"train_mask must select a node, got none"),
        ({"val_mask": _NONE}, r"val_mask must select a node"),
        ({"test_mask": _NONE[:4]}, r"test_mask must have one value per node, got 4 for 6"),
        ({"test_mask": np.array([0, 0, 0, 0, 1, 0])}, r"test_mask must be bool of 1 dimension, got int64"),
        ({"test_mask": ~_NONE}, r"test_mask must select labeled nodes only, got 1 with label -1"),
        ({"val_mask": np.arange(6) < 3}, r"train_mask and val_mask must not overlap, but share 2 nodes"),
        ({"test_mask": np.arange(6) == 3}, r"val_mask and test_mask must not overlap, but share 1 nodes"),
        ({**_CSR, "x_indices": np.array([0, 3])}, r"x_indices must be in \[0, 3\), got 0 to 3"),
        ({**_CSR, "x_indices": np.array([0])}, r"x_indices and x_data must be equally long, got 1 and 2"),
        ({**_CSR, "x_indptr": np.array([0, 2, 1, 2, 2, 2, 2])}, r"x_indptr must rise from 0 to 2"),
        ({**_CSR, "x_indptr": np.array([0, 2])}, r"x_indptr must rise from 0 to 2 .* in 6\b|in 7 steps"),
        ({**_CSR, "x_data": np.array([1, np.nan], dtype=np.float32)}, r"x_data must be finite, got 1 NaN"),
        ({**_CSR, "x_data": np.ones(2, dtype=complex)}, r"x_data must be real numbers"),
        ({**_CSR, "x_shape": np.array([6])}, r"x_shape must be two integers"),
    ],
)
def test_a_broken_rule_is_named(arrays: Arrays, npz: Npz, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message) as raised:
        Graph.load(npz(arrays, **changes))
    assert "ring" in str(raised.value) or "y must hold numbers, got Python" in str(raised.value)


@pytest.mark.parametrize("name", ["edge_index", "x", "y"])
def test_a_missing_array_is_named(arrays: Arrays, npz: Npz, name: str) -> None:
    with pytest.raises(GraphError, match=rf"it lacks .*{name}"):
        Graph.load(npz(arrays, **{name: None}))


def test_sparse_features_that_are_legal_pass(arrays: Arrays, npz: Npz) -> None:
    graph = Graph.load(npz(arrays, **_CSR))
    assert graph.features.shape == (6, 3)
    assert graph.characteristics().sparse_features


def test_halves_stay_halves(arrays: Arrays, npz: Npz) -> None:
    graph = Graph.load(npz(arrays, x=arrays["x"].astype(np.float16)))
    assert graph.features.arrays()["x"].dtype == np.float16
    assert graph.characteristics().row_bytes == 6


def test_self_loops_stay_and_are_counted(arrays: Arrays, npz: Npz) -> None:
    edges = np.concatenate([arrays["edge_index"], [[2], [2]]], axis=1)
    graph = Graph.load(npz(arrays, edge_index=edges))
    assert graph.num_edges == 8
    assert graph.notes == ("1 of 8 edges are self loops; they are kept",)


def test_duplicates_go_and_are_counted(arrays: Arrays, npz: Npz) -> None:
    edges = np.concatenate([arrays["edge_index"], arrays["edge_index"][:, :3]], axis=1)
    graph = Graph.load(npz(arrays, edge_index=edges))
    assert graph.num_edges == 7
    assert graph.notes == ("3 of 10 edges were duplicates; they are removed",)


@pytest.mark.parametrize("times", [200, 300])
def test_many_copies_of_one_edge_are_one_edge(arrays: Arrays, npz: Npz, times: int) -> None:
    graph = Graph.load(npz(arrays, edge_index=np.tile([[4], [5]], times)))
    assert graph.num_edges == 1
    assert graph.indices[graph.indptr[5]] == 4


def test_feature_entries_stored_twice_are_added(arrays: Arrays, npz: Npz) -> None:
    halves = np.array([1, 2, 4], dtype=np.float16)
    twice = {"x_data": halves, "x_indices": np.array([2, 0, 2]), "x_indptr": np.array([0, 3, 3, 3, 3, 3, 3])}
    graph = Graph.load(npz(arrays, **{**_CSR, **twice}))
    stored = graph.features.arrays()
    assert stored["x_data"].tolist() == [2, 5]
    assert stored["x_data"].dtype == np.float16
    assert stored["x_indices"].tolist() == [0, 2]
    assert "1 feature entries were stored more than once" in graph.notes[0]


def test_a_truncated_file_is_said(arrays: Arrays, npz: Npz) -> None:
    path = npz(arrays)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(GraphError, match=r"ring\.npz is not a readable \.npz file: truncated"):
        Graph.load(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04N."])
def test_a_foreign_file_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"foreign\.npz is not a readable \.npz file"):
        Graph.load(path)


def test_a_lone_array_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "lone.npy", np.zeros(3))
    (tmp_path / "lone.npy").rename(tmp_path / "lone.npz")
    with pytest.raises(GraphError, match=r"lone\.npz is not a readable \.npz file"):
        Graph.load(tmp_path / "lone.npz")


def test_pickled_arrays_are_refused(arrays: Arrays, npz: Npz) -> None:
    with pytest.raises(GraphError, match="y must hold numbers, got Python objects"):
        Graph.load(npz(arrays, y=np.array([0, None], dtype=object)))
