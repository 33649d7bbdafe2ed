"""The edges of a synthetic graph: a degree-corrected stochastic block model, drawn in pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.kernels import draw_pairs, guide_of
from a3gnn.graphs.synthetic.recipe import Recipe
from a3gnn.seeding import generator

# Pairs per piece, 96 MiB of random numbers. The numbers of a piece are drawn array by array, so it decides which edges
# a recipe gives. Guess, and can't be changed: the same recipe must give the same graph.
_PAIRS_PER_PIECE = 1 << 22


def pairs_of(recipe: Recipe) -> int:
    """Returns how many pairs of nodes are drawn; those of a node with itself are dropped."""
    return round(recipe.nodes * recipe.degree / 2)


def edge_pairs(recipe: Recipe, labels: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Yields pieces of undirected edges: both ends, int32; duplicates are possible, self loops are not.

    About 40 bytes per node and 160 MiB are held meanwhile.

    Args:
        recipe: The graph's parameters.
        labels: Each node's class, int64, shape (nodes,).
    """
    degrees = _expected_degrees(recipe)
    by_class = np.argsort(labels, kind="stable").astype(np.int32)
    # Nodes of one class are one interval of `mass`, so that a draw within or outside it is one uniform number.
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
    uniform = np.empty(3 * min(remaining, _PAIRS_PER_PIECE))
    while remaining:
        count = min(remaining, _PAIRS_PER_PIECE)
        remaining -= count
        rng.random(out=uniform[: 3 * count])
        first, second = draw_pairs(mass, guide, inside_share, class_of, bounds, uniform[: 3 * count].reshape(3, count))
        yield by_class[first], by_class[second]


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
