"""Feature matrices in every form that is stored, and graphs that hold them."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph

Matrix = Callable[[Graph, str], tuple[Graph, np.ndarray]]


def sparse(matrix: np.ndarray) -> SparseFeatures:
    rows, columns = np.nonzero(matrix)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))]).astype(np.int64)
    return SparseFeatures(matrix[rows, columns], columns.astype(np.int32), indptr, matrix.shape)


@pytest.fixture(scope="session")
def with_features() -> Matrix:
    """Gives a graph features of a form (`dense-float32`, `sparse-float16`, ...), and those as a float32 matrix."""

    def make(graph: Graph, form: str) -> tuple[Graph, np.ndarray]:
        layout, dtype = form.split("-")
        draw = np.random.default_rng(4)
        matrix = draw.normal(size=(graph.num_nodes, 9)).astype(dtype)
        # Subnormal and negative zero halves have conversions of their own.
        matrix[0, :3] = np.array([6e-8, -6e-6, -0.0], dtype=dtype)
        if layout == "sparse":
            matrix[draw.random(matrix.shape) < 0.6] = 0
            matrix[5] = 0
        features = sparse(matrix) if layout == "sparse" else DenseFeatures(matrix)
        return dataclasses.replace(graph, features=features), matrix.astype(np.float32)

    return make
