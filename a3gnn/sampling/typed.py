"""`TypedSubgraph`: a sampled neighborhood by node type and relation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.schema import Schema
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.storage.compiled import njit


class TypedSubgraph(NamedTuple):
    """A sampled neighborhood by node type and relation, in the order of the schema; types without nodes included.

    Attributes:
        n_id: Ids within each type, int32, one array per type: seeds first, then hop by hop.
        edge_index: Sources and targets as places in the `n_id` of their types, int64, shape (2, num_edges), one array
            per relation: hop by hop, targets ascending.
        e_id: Each edge's place in the list of its relation, int64, one array per relation; None if it is unknown.
        tree: The tree of each node, int64, one array per type; None for a single tree of all seeds.
        num_sampled_nodes: New nodes of each hop, seeds first, int64, shape (num_types, hops + 1).
        num_sampled_edges: Edges of each hop, int64, shape (num_relations, hops).
        places: Place of each node of the `Subgraph` within its type, int32.
    """

    n_id: list[NDArray[np.int32]]
    edge_index: list[NDArray[np.int64]]
    e_id: list[NDArray[np.int64]] | None
    tree: list[NDArray[np.int64]] | None
    num_sampled_nodes: NDArray[np.int64]
    num_sampled_edges: NDArray[np.int64]
    places: NDArray[np.int32]


def by_type(subgraph: Subgraph, schema: Schema) -> TypedSubgraph:
    """Returns `subgraph`, whose ids and rows are those of `schema`, by node type and relation."""
    sizes = np.array(subgraph.hop_sizes, dtype=np.int64)
    kinds, places, nodes = _places(subgraph.n_id, sizes, schema.layout)
    ids = np.empty(0, dtype=np.int64) if subgraph.e_id is None else subgraph.e_id
    sampled = subgraph.indptr, subgraph.indices, ids, kinds, places, sizes, schema.layout
    edges, edge_index, e_id = _edge_lists(*sampled)
    order = np.argsort(kinds, kind="stable")
    node_ends, edge_ends = nodes.sum(axis=1).cumsum()[:-1], edges.sum(axis=1).cumsum()[:-1]
    n_id = subgraph.n_id - schema.layout[0].astype(np.int32)[kinds]
    return TypedSubgraph(
        np.split(n_id[order], node_ends),
        np.split(edge_index, edge_ends, axis=1),
        None if subgraph.e_id is None else np.split(e_id, edge_ends),
        None if subgraph.tree is None else np.split(subgraph.tree[order], node_ends),
        nodes,
        edges,
        places,
    )


@njit(cache=True, nogil=True)
def _places(
    n_id: NDArray[np.int32], sizes: NDArray[np.int64], layout: NDArray[np.int64]
) -> tuple[NDArray[np.uint16], NDArray[np.int32], NDArray[np.int64]]:
    """Returns the type of each node, its place within the type, and the nodes of each type and hop.

    Args:
        n_id: Ids through all types.
        sizes: Nodes known after each hop.
        layout: Of `Schema`.
    """
    types = layout.shape[1] - 1
    kinds, places = np.empty(len(n_id), dtype=np.uint16), np.empty(len(n_id), dtype=np.int32)
    counts, hops = np.zeros(types, dtype=np.int32), np.zeros((types, len(sizes)), dtype=np.int64)
    begin = 0
    for hop in range(len(sizes)):
        for i in range(begin, sizes[hop]):
            kind = 0
            while n_id[i] >= layout[0, kind + 1]:
                kind += 1
            kinds[i], places[i] = kind, counts[kind]
            counts[kind] += 1
            hops[kind, hop] += 1
        begin = sizes[hop]
    return kinds, places, hops


@njit(cache=True, nogil=True)
def _edge_lists(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    ids: NDArray[np.int64],
    kinds: NDArray[np.uint16],
    places: NDArray[np.int32],
    sizes: NDArray[np.int64],
    layout: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the edges of each relation and hop, and the edge lists and ids of all relations, one after another.

    Args:
        indptr: Of the `Subgraph`; row after row of each node.
        indices: Of the `Subgraph`.
        ids: Of the edges; empty if they are unknown.
        kinds: Type of each node.
        places: Place of each node within its type.
        sizes: Nodes known after each hop.
        layout: Of `Schema`.
    """
    relations, hops = layout[2, -1], len(sizes) - 1
    counts, row = np.zeros((relations, hops), dtype=np.int64), 0
    for hop in range(hops):
        for i in range(sizes[hop - 1] if hop > 0 else 0, sizes[hop]):
            first, end = layout[2, kinds[i]], layout[2, kinds[i] + 1]
            for relation in range(first, end):
                counts[relation, hop] += indptr[row + 1] - indptr[row]
                row += 1
    at = np.zeros(relations + 1, dtype=np.int64)
    for relation in range(relations):
        at[relation + 1] = at[relation] + counts[relation].sum()
    lists, e_id, row = np.empty((2, len(indices)), dtype=np.int64), np.empty(len(ids), dtype=np.int64), 0
    for i in range(sizes[hops - 1] if hops > 0 else 0):
        first, end = layout[2, kinds[i]], layout[2, kinds[i] + 1]
        for relation in range(first, end):
            low, high = indptr[row], indptr[row + 1]
            row += 1
            for e in range(low, high):
                place = at[relation]
                at[relation] += 1
                lists[0, place], lists[1, place] = places[indices[e]], places[i]
                if len(ids) > 0:
                    e_id[place] = ids[e]
    return counts, lists, e_id
