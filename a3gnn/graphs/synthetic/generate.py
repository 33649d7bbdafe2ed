"""The project's own graphs: a degree-corrected stochastic block model with class-correlated features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import in_neighbours
from a3gnn.graphs.conversion.adjacency import EDGE_DISK_BYTES, EdgePieces, write_adjacency
from a3gnn.graphs.conversion.draft import Draft
from a3gnn.graphs.conversion.feature_rows import joined, write_features
from a3gnn.graphs.synthetic.communities import edge_pairs, pairs_of
from a3gnn.graphs.synthetic.feature_pieces import feature_pieces
from a3gnn.graphs.synthetic.recipe import Recipe
from a3gnn.seeding import generator
from a3gnn.storage.atomic import need_room


def generate(parameters: str = "") -> GraphArrays:
    """Returns the graph of `synthetic:parameters`; equal parameters give equal bits on every machine.

    Nodes belong to one of `classes` equally likely communities. Expected degrees follow a power law, capped at half the
    square root of the nodes times the mean. An edge's first end is drawn by expected degree, its second likewise, from
    the same community with a probability that falls with the first end's degree (hubs join communities) and is
    `homophily` on average. Each edge is stored in both directions. Features are the community's mean plus noise.

    Args:
        parameters: `KEY=VALUE,...`, the fields of `Recipe`; what is left out has its default.

    Raises:
        UsageError: A key is unknown or a value is out of range.
    """
    recipe = Recipe.parse(parameters)
    labels = _labels(recipe)
    pairs = np.concatenate([np.stack(ends) for ends in edge_pairs(recipe, labels)], axis=1)
    indptr, indices, _ = in_neighbours(np.concatenate([pairs, pairs[::-1]], axis=1), recipe.nodes)
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
    """Writes the graph that `generate` returns to `draft`, in memory linear in the nodes alone.

    Raises:
        UsageError: A key is unknown or a value is out of range.
        OSError: A file can't be written.
    """
    recipe = Recipe.parse(parameters)
    num_edges = 2 * pairs_of(recipe)
    need_room(draft.folder, EDGE_DISK_BYTES * num_edges + _feature_bytes(recipe) + _NODE_DISK_BYTES * recipe.nodes)
    draft.name, draft.num_classes = _name(parameters), recipe.classes
    labels = _labels(recipe)
    draft.save("labels", labels)
    for name, ids in zip(("train_ids", "val_ids", "test_ids"), _split(recipe), strict=True):
        draft.save(name, ids)
    both_directions = _both_directions(recipe, labels)
    write_adjacency(
        both_directions, num_edges, recipe.nodes, draft.folder, draft.scratch, draft.memory_bytes, draft.progress
    )
    write_features(feature_pieces(recipe, labels), recipe.nodes, draft.folder, draft.progress)


# Labels, first positions of edges and of CSR features, and an id in one of the three sets.
_NODE_DISK_BYTES = 8 + 8 + 8 + 4


def _name(parameters: str) -> str:
    return f"synthetic:{parameters}" if parameters else "synthetic"


def _labels(recipe: Recipe) -> NDArray[np.int64]:
    return generator(recipe.seed, "labels").integers(recipe.classes, size=recipe.nodes)


def _both_directions(recipe: Recipe, labels: NDArray[np.int64]) -> EdgePieces:
    for first, second in edge_pairs(recipe, labels):
        yield first, second
        yield second, first


def _feature_bytes(recipe: Recipe) -> int:
    """Returns the bytes of the features at most: float32, with an int32 column each where they are CSR."""
    if recipe.density < 1:
        return recipe.nodes * max(1, round(recipe.density * recipe.features)) * 8
    return recipe.nodes * recipe.features * 4


def _split(recipe: Recipe) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Returns sorted train, validation and test ids, each with at least one node."""
    order = generator(recipe.seed, "split").permutation(recipe.nodes).astype(np.int32)
    train = max(1, round(recipe.train * recipe.nodes))
    val = max(1, round(recipe.val * recipe.nodes))
    return np.sort(order[:train]), np.sort(order[train : train + val]), np.sort(order[train + val :])
