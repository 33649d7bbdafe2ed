"""The features of a synthetic graph, drawn in pieces of rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.synthetic.recipe import Recipe
from a3gnn.seeding import generator

# Values per piece, tens of MiB. CSR rows draw several arrays per piece, so it decides which features a recipe gives.
# Guess, and can't be changed: the same recipe must give the same graph.
_VALUES_PER_PIECE = 1 << 22


def feature_pieces(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[DenseFeatures | SparseFeatures]:
    """Yields the rows of features from first to last, some tens of MiB at a time; CSR where the density is below 1.

    Args:
        recipe: The graph's parameters.
        labels: Each node's class, int64, shape (nodes,).
    """
    return _sparse(recipe, labels) if recipe.density < 1 else _dense(recipe, labels)


def _dense(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[DenseFeatures]:
    """Yields float32 rows: the class's unit-length mean plus Gaussian noise of `noise` per column."""
    rng = generator(recipe.seed, "features")
    means = rng.standard_normal((recipe.classes, recipe.features), dtype=np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    step = max(1, _VALUES_PER_PIECE // recipe.features)
    for start in range(0, recipe.nodes, step):
        wanted = labels[start : start + step]
        rows = rng.standard_normal((len(wanted), recipe.features), dtype=np.float32)
        rows *= np.float32(recipe.noise)
        rows += means[wanted]
        yield DenseFeatures(rows)


def _sparse(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[SparseFeatures]:
    """Yields CSR rows of words: each class prefers words of its own, by a factor that falls with `noise`."""
    rng = generator(recipe.seed, "features")
    words = max(1, round(recipe.density * recipe.features))
    favourites = rng.random((recipe.classes, recipe.features)) < 1 / recipe.classes
    odds = np.where(favourites, 1 + recipe.classes / recipe.noise, 1.0)
    steps = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1) + np.arange(recipe.classes)[:, None]
    step = max(1, _VALUES_PER_PIECE // words)
    for start in range(0, recipe.nodes, step):
        wanted = labels[start : start + step]
        # Class c's distribution lies in [c, c + 1) of one long cumulative row: all words are one search.
        points = rng.random((len(wanted), words)) + wanted[:, None]
        columns = np.searchsorted(steps.ravel(), points.ravel(), side="right") % recipe.features
        indptr = np.arange(len(wanted) + 1) * words
        shape = (len(wanted), recipe.features)
        matrix = csr_array((np.ones(columns.size, np.float32), columns, indptr), shape=shape)
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        yield SparseFeatures(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), shape)
