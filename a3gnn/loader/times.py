"""Times of nodes and edges: `time_attr` of PyG's loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import known_times
from a3gnn.graphs.schema import Schema
from a3gnn.loader.pyg_attributes import relation_keys, store_of

#: The time of each node, by type; types without times are missing.
NodeTimes: TypeAlias = Mapping[str, NDArray[Any]]


def times_of(
    data: Any, schema: Schema, time_attr: str | None, lists: Sequence[NDArray[Any]]
) -> tuple[NodeTimes, list[NDArray[Any] | None]]:
    """Returns the times of nodes, and when the edges of each relation can be seen; None for those without times.

    Where nodes have times, an edge can be seen as soon as its source can.

    Args:
        data: A `Data`, `HeteroData` or `FeatureStore`.
        schema: Its types and relations.
        time_attr: The attribute with the times; None if nothing has times.
        lists: The edges of each relation, shape (2, num_edges).

    Raises:
        UsageError: No type and no relation has times, or both do, or no edge comes from a node with a time; or times
            of nodes are not one number each, or one is missing.
    """
    if time_attr is None:
        return {}, [None] * len(lists)
    of_nodes = _node_times(data, schema, time_attr)
    if schema.is_untyped and of_nodes:
        own: list[NDArray[Any] | None] = [None]
    else:
        own = [_values(data, key, time_attr) for key in relation_keys(schema)]
    of_edges = any(one is not None for one in own)
    if of_nodes and of_edges:
        raise UsageError(
            f"time_attr must name an attribute of nodes or of edges, {time_attr!r} is one of both; rename one of them"
        )
    if of_edges:
        return of_nodes, own
    times = [
        of_nodes[relation.source][edges[0]] if relation.source in of_nodes else None
        for relation, edges in zip(schema.relations, lists, strict=True)
    ]
    if all(one is None for one in times):
        rule = "an attribute of nodes or of edges" if not of_nodes else "an attribute of a type with edges from it"
        raise UsageError(f"time_attr must name {rule}, got {time_attr!r}, which bounds nothing")
    return of_nodes, times


def _node_times(data: Any, schema: Schema, time_attr: str) -> NodeTimes:
    times = {kind: _values(data, kind, time_attr) for kind in schema.types}
    known = {kind: one for kind, one in times.items() if one is not None}
    # A copy, because PyG caches its answer in the data.
    if schema.is_untyped and known and hasattr(data, "is_node_attr") and not copy(data).is_node_attr(time_attr):
        return {}  # an attribute of edges, which may be as many as nodes
    return {kind: known_times("times", one, schema.counts[kind], "node") for kind, one in known.items()}


def _values(data: Any, kind: Any, name: str) -> NDArray[Any] | None:
    """Returns the attribute `name` of a type of nodes or edges; None if it has none."""
    if hasattr(data, "get_all_tensor_attrs") and not hasattr(data, "stores"):  # a feature store
        match = [one for one in data.get_all_tensor_attrs() if one.attr_name == name and (one.group_name or "") == kind]
        if not match:
            return None
        attribute = copy(match[0])
        attribute.index = None  # all rows
        values = data.get_tensor(attribute)
    else:
        values = store_of(data, kind).get(name)
    if values is None:
        return None
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
