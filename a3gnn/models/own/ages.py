"""`edge_ages`: the time from each edge of a mini-batch to the link that sees it; `with_ages` adds it to `Inputs`."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.graphs.edges import EdgeTimes
from a3gnn.graphs.schema import Schema
from a3gnn.models.links import LinkModel
from a3gnn.models.own.inputs import Inputs
from a3gnn.models.own.user_model import ValuedEdges
from a3gnn.sampling.typed import TypedSubgraph


def edge_ages(
    view: TypedSubgraph, schema: Schema, times: EdgeTimes, seen: NDArray[Any]
) -> dict[tuple[str, str, str], Tensor]:
    """Returns the age of each edge, float32, by relation, in the order of its edge_index; relations with times alone.

    Args:
        view: A neighborhood with a tree per seed, whose edges' ids are places in the graph's `indices`.
        schema: Types and relations.
        times: The times of the graph's edges.
        seen: The time of each tree, shape (num_trees,).
    """
    assert view.tree is not None, "a seed sees edges up to its own time"
    found = {}
    for number, relation in enumerate(schema.relations):
        if times.timed[number]:
            trees = view.tree[schema.types.index(relation.target)][view.edge_index[number][1]]
            ages = seen[trees] - times.distinct[times.ranks[view.e_id[number]]]
            found[tuple(relation)] = torch.from_numpy(ages).float()
    return found  # type: ignore[return-value]


def with_ages(inputs: Inputs, module: LinkModel, ages: dict[tuple[str, str, str], Tensor]) -> Inputs:
    """Returns `inputs` with `ages` beside the values of edges, if the encoder of `module` takes `edge_age_dict`."""
    if "edge_age_dict" not in inspect.signature(module.encoder.forward).parameters:
        return inputs
    edges = inputs.structure
    known = edges if isinstance(edges, ValuedEdges) else ValuedEdges(edges, {})
    return inputs._replace(structure=known._replace(values=known.values | {"edge_age": ages}))
