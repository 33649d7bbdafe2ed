"""The project's own graphs: a degree-corrected stochastic block model with class-correlated features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import in_neighbors
from a3gnn.graphs.draft import Draft, EdgePieces, joined
from a3gnn.graphs.edge_list_kernels import draw_pairs, guide_of
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.synthetic_recipe import Recipe
from a3gnn.seeding import generator

# Pairs, and values of features, per piece: up to 96 MiB of random numbers. These are drawn array by array, so the size
# is part of the recipe: it decides which graph one gives.
_PER_PIECE = 1 << 22
# Labels, row starts of CSR features, and an id in one of the three sets.
_NODE_DISK_BYTES = 8 + 8 + 4
# Memory: labels, and what `edge_pairs` takes.
_NODE_BYTES = 8 + 40


def generate(parameters: str = "") -> GraphArrays:
    """Returns the graph of `synthetic:parameters`; equal parameters give equal bits on every machine.

    Nodes belong to one of `classes` equally likely communities. Expected degrees follow a power law, capped at half the
    square root of the nodes times the mean. Both ends of an edge are drawn by expected degree. The second end comes
    from the first end's community with a probability that falls with the first end's degree (hubs join communities) and
    is `homophily` on average. Each edge is stored in both directions. Features are the community's mean plus noise.

    Args:
        parameters: `KEY=VALUE,...`, the fields of `Recipe`; missing keys have their defaults.

    Raises:
        UsageError: A key is unknown or a value is out of range.
    """
    recipe = Recipe.parse(parameters)
    labels = _labels(recipe)
    pairs = np.concatenate([np.stack(ends) for ends in edge_pairs(recipe, labels)], axis=1)
    indptr, indices, _ = in_neighbors(np.concatenate([pairs, pairs[::-1]], axis=1), recipe.nodes)
    del pairs
    train_ids, val_ids, test_ids = _split(recipe)
    return GraphArrays(
        name=_name(parameters),
        indptr=indptr,
        indices=indices,
        features=joined(feature_pieces(recipe, labels), recipe.nodes),
        labels=labels,
        train_ids=train_ids,
        val_ids=val_ids,
        test_ids=test_ids,
        num_classes=recipe.classes,
    )


def write(parameters: str, draft: Draft) -> None:
    """Writes the graph that `generate` returns to `draft`, in memory linear in the nodes.

    Raises:
        UsageError: A key is unknown or a value is out of range.
        OSError: A file can't be written.
    """
    recipe = Recipe.parse(parameters)
    num_edges = 2 * pairs_of(recipe)
    others = _NODE_DISK_BYTES * recipe.nodes
    draft.plan(num_edges, recipe.nodes, _feature_bytes(recipe), others, node_bytes=_NODE_BYTES)
    draft.name, draft.num_classes = _name(parameters), recipe.classes
    labels = _labels(recipe)
    draft.save("labels", labels)
    for name, ids in zip(("train_ids", "val_ids", "test_ids"), _split(recipe), strict=True):
        draft.save(name, ids)
    draft.write_edges(partial(_both_directions, recipe, labels), num_edges, recipe.nodes)
    draft.write_features(feature_pieces(recipe, labels), recipe.nodes)


def pairs_of(recipe: Recipe) -> int:
    """Returns the number of pairs of nodes to draw; a pair of a node with itself is dropped later."""
    return round(recipe.nodes * recipe.degree / 2)


def edge_pairs(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Yields pieces of undirected edges: both ends, int32; duplicates are possible, self loops are not.

    It needs about 40 bytes per node and 160 MiB.

    Args:
        recipe: The graph's parameters.
        labels: Each node's class, int64, shape (nodes,).
    """
    degrees = _expected_degrees(recipe)
    by_class = np.argsort(labels, kind="stable").astype(np.int32)
    # Nodes of one class are one interval of `mass`, so a draw within or outside the class is one uniform number.
    inside_share = _inside_shares(recipe, degrees)[by_class]
    mass = degrees[by_class]
    del degrees
    np.cumsum(mass, out=mass)
    sizes = np.bincount(labels, minlength=recipe.classes)
    bounds = np.concatenate([[0.0], mass])[np.concatenate([[0], np.cumsum(sizes)])]
    class_of = np.repeat(np.arange(recipe.classes, dtype=np.int16), sizes)
    guide = guide_of(mass, len(mass))
    rng = generator(recipe.seed, "edges")
    remaining = pairs_of(recipe)
    uniform = np.empty(3 * min(remaining, _PER_PIECE))
    while remaining:
        count = min(remaining, _PER_PIECE)
        remaining -= count
        rng.random(out=uniform[: 3 * count])
        first, second = draw_pairs(mass, guide, inside_share, class_of, bounds, uniform[: 3 * count].reshape(3, count))
        yield by_class[first], by_class[second]


def feature_pieces(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[DenseFeatures | SparseFeatures]:
    """Yields the feature rows from first to last, some tens of MiB at a time; CSR if the density is below 1.

    Args:
        recipe: The graph's parameters.
        labels: Each node's class, int64, shape (nodes,).
    """
    return _sparse(recipe, labels) if recipe.density < 1 else _dense(recipe, labels)


def _name(parameters: str) -> str:
    return f"synthetic:{parameters}" if parameters else "synthetic"


def _labels(recipe: Recipe) -> NDArray[np.int64]:
    return generator(recipe.seed, "labels").integers(recipe.classes, size=recipe.nodes)


def _both_directions(recipe: Recipe, labels: NDArray[np.int64]) -> EdgePieces:
    for first, second in edge_pairs(recipe, labels):
        yield first, second
        yield second, first


def _feature_bytes(recipe: Recipe) -> int:
    """Returns an upper bound on the bytes of the features: float32, plus an int32 column each if they are CSR."""
    if recipe.density < 1:
        return recipe.nodes * max(1, round(recipe.density * recipe.features)) * 8
    return recipe.nodes * recipe.features * 4


def _split(recipe: Recipe) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Returns sorted train, validation and test ids, each with at least one node."""
    order = generator(recipe.seed, "split").permutation(recipe.nodes).astype(np.int32)
    train = max(1, round(recipe.train * recipe.nodes))
    val = max(1, round(recipe.val * recipe.nodes))
    return np.sort(order[:train]), np.sort(order[train : train + val]), np.sort(order[train + val :])


def _expected_degrees(recipe: Recipe) -> NDArray[np.float64]:
    """Returns expected degrees relative to their mean: the quantiles of a power law, in random order."""
    degrees = (np.arange(recipe.nodes) + 0.5) / recipe.nodes
    degrees **= -1 / (recipe.power - 1)
    degrees /= degrees.mean()
    np.minimum(degrees, np.sqrt(recipe.nodes) / 2, out=degrees)
    degrees /= degrees.mean()
    return generator(recipe.seed, "degrees").permutation(degrees)


def _inside_shares(recipe: Recipe, degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns each node's probability of drawing within its community, whose mean over edges is the homophily."""
    order = np.argsort(degrees, kind="stable")
    rank = np.empty(len(degrees))
    rank[order] = np.cumsum(degrees[order]) / degrees.sum()
    spread = min(recipe.mixing, 2 * recipe.homophily, 2 * (1 - recipe.homophily))
    inside_share: NDArray[np.float64] = recipe.homophily + spread * (0.5 - rank)
    return inside_share


def _dense(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[DenseFeatures]:
    """Yields float32 rows: the class's unit-length mean plus Gaussian noise of `noise` per column."""
    rng = generator(recipe.seed, "features")
    means = rng.standard_normal((recipe.classes, recipe.features), dtype=np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    step = max(1, _PER_PIECE // recipe.features)
    for start in range(0, recipe.nodes, step):
        wanted = labels[start : start + step]
        rows = rng.standard_normal((len(wanted), recipe.features), dtype=np.float32)
        rows *= np.float32(recipe.noise)
        rows += means[wanted]
        yield DenseFeatures(rows)


def _sparse(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[SparseFeatures]:
    """Yields CSR rows of words: each class prefers its own words, by a factor that falls with `noise`."""
    rng = generator(recipe.seed, "features")
    words = max(1, round(recipe.density * recipe.features))
    favorites = rng.random((recipe.classes, recipe.features)) < 1 / recipe.classes
    odds = np.where(favorites, 1 + recipe.classes / recipe.noise, 1.0)
    steps = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1) + np.arange(recipe.classes)[:, None]
    step = max(1, _PER_PIECE // words)
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
