"""The project's own graphs: a degree-corrected stochastic block model with class-correlated features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import in_neighbours
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.recipe import Recipe
from a3gnn.seeding import generator

# Edges and feature rows are drawn in pieces, so that drawing needs little memory beside the result.
_EDGES_A_PIECE = 1 << 22
_VALUES_A_PIECE = 1 << 23


def generate(parameters: str = "") -> GraphArrays:
    """Returns the graph of `synthetic:parameters`; equal parameters give equal bits on every machine.

    Nodes belong to one of `classes` equally likely communities. Expected degrees follow a power law, capped at half the
    square root of the nodes times the mean. An edge's first end is drawn by expected degree, its second likewise, from
    the same community with a probability that falls with the first end's degree (hubs join communities) and is
    `homophily` on average. Edges run both ways. Features are the community's mean plus noise.

    Args:
        parameters: `KEY=VALUE,...`, the fields of `Recipe`; what is left out has its default.

    Raises:
        UsageError: A key is unknown or a value breaks its law.
    """
    recipe = Recipe.parse(parameters)
    labels = generator(recipe.seed, "labels").integers(recipe.classes, size=recipe.nodes)
    edge_index = _edges(recipe, labels)
    indptr, indices, _ = in_neighbours(edge_index, recipe.nodes)
    train_ids, val_ids, test_ids = _split(recipe)
    return GraphArrays(
        name=f"synthetic:{parameters}" if parameters else "synthetic",
        indptr=indptr,
        indices=indices,
        features=_sparse_features(recipe, labels) if recipe.density < 1 else _dense_features(recipe, labels),
        labels=labels,
        train_ids=train_ids,
        val_ids=val_ids,
        test_ids=test_ids,
        num_classes=recipe.classes,
    )


def _expected_degrees(recipe: Recipe) -> NDArray[np.float64]:
    """Returns expected degrees relative to their mean: the quantiles of a power law, in random order."""
    quantiles = (np.arange(recipe.nodes) + 0.5) / recipe.nodes
    degrees = quantiles ** (-1 / (recipe.power - 1))
    degrees = np.minimum(degrees / degrees.mean(), np.sqrt(recipe.nodes) / 2)
    return generator(recipe.seed, "degrees").permutation(degrees / degrees.mean())


def _edges(recipe: Recipe, labels: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns edges in both directions, int32, shape (2, E); duplicates are possible, self loops are not."""
    degrees = _expected_degrees(recipe)
    by_class = np.argsort(labels, kind="stable").astype(np.int32)
    # Nodes of one class are one interval of `mass`, so that a draw within or outside it is one uniform number.
    mass = np.cumsum(degrees[by_class])
    ends = np.concatenate([[0.0], mass])[np.cumsum(np.bincount(labels, minlength=recipe.classes))]
    starts = np.concatenate([[0.0], ends[:-1]])
    loyalty = _loyalty(recipe, degrees)[by_class]
    class_of = labels[by_class]
    rng = generator(recipe.seed, "edges")
    pieces = []
    remaining = round(recipe.nodes * recipe.degree / 2)
    while remaining:
        count = min(remaining, _EDGES_A_PIECE)
        remaining -= count
        first = _draw(mass, rng.random(count) * mass[-1])
        start, end = starts[class_of[first]], ends[class_of[first]]
        same = rng.random(count) < loyalty[first]
        width = np.where(same, end - start, mass[-1] - (end - start))
        second = _draw(mass, (np.where(same, start, end) + rng.random(count) * width) % mass[-1])
        pair = np.stack([by_class[first], by_class[second]])
        pieces.append(pair[:, first != second])
    pairs = np.concatenate(pieces, axis=1)
    return np.concatenate([pairs, pairs[::-1]], axis=1)


def _draw(mass: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.minimum(np.searchsorted(mass, points, side="right"), len(mass) - 1)


def _loyalty(recipe: Recipe, degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns each node's probability of drawing within its community, whose mean over edges is the homophily."""
    order = np.argsort(degrees, kind="stable")
    rank = np.empty(len(degrees))
    rank[order] = np.cumsum(degrees[order]) / degrees.sum()
    spread = min(recipe.mixing, 2 * recipe.homophily, 2 * (1 - recipe.homophily))
    loyalty: NDArray[np.float64] = recipe.homophily + spread * (0.5 - rank)
    return loyalty


def _split(recipe: Recipe) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Returns sorted train, validation and test ids, each with at least one node."""
    order = generator(recipe.seed, "split").permutation(recipe.nodes).astype(np.int32)
    train = max(1, round(recipe.train * recipe.nodes))
    val = max(1, round(recipe.val * recipe.nodes))
    return np.sort(order[:train]), np.sort(order[train : train + val]), np.sort(order[train + val :])


def _dense_features(recipe: Recipe, labels: NDArray[np.int64]) -> DenseFeatures:
    """Returns float32 rows: the class's unit-length mean plus Gaussian noise of `noise` a column."""
    rng = generator(recipe.seed, "features")
    means = rng.standard_normal((recipe.classes, recipe.features), dtype=np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    array = np.empty((recipe.nodes, recipe.features), dtype=np.float32)
    step = max(1, _VALUES_A_PIECE // recipe.features)
    for start in range(0, recipe.nodes, step):
        rows = array[start : start + step]
        rng.standard_normal(out=rows, dtype=np.float32)
        rows *= np.float32(recipe.noise)
        rows += means[labels[start : start + step]]
    return DenseFeatures(array)


def _sparse_features(recipe: Recipe, labels: NDArray[np.int64]) -> SparseFeatures:
    """Returns CSR rows of words: each class prefers its own, by a factor that falls with `noise`."""
    rng = generator(recipe.seed, "features")
    words = max(1, round(recipe.density * recipe.features))
    favourites = rng.random((recipe.classes, recipe.features)) < 1 / recipe.classes
    odds = np.where(favourites, 1 + recipe.classes / recipe.noise, 1.0)
    steps = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1) + np.arange(recipe.classes)[:, None]
    # Class c's distribution lies in [c, c + 1) of one long cumulative row: all words are one search.
    points = rng.random((recipe.nodes, words)) + labels[:, None]
    columns = np.searchsorted(steps.ravel(), points.ravel(), side="right") % recipe.features
    indptr = np.arange(recipe.nodes + 1) * words
    matrix = csr_array((np.ones(columns.size, np.float32), columns, indptr), shape=(recipe.nodes, recipe.features))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return SparseFeatures(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), matrix.shape)
