"""`TypedSubgraph`: a sampled neighborhood by node type and relation."""

from __future__ import annotations

from itertools import pairwise
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
    """

    n_id: list[NDArray[np.int32]]
    edge_index: list[NDArray[np.int64]]
    e_id: list[NDArray[np.int64]] | None
    tree: list[NDArray[np.int64]] | None
    num_sampled_nodes: NDArray[np.int64]
    num_sampled_edges: NDArray[np.int64]


def by_type(subgraph: Subgraph, schema: Schema) -> TypedSubgraph:
    """Returns `subgraph`, whose ids and relations are those of `schema`, by node type and relation."""
    sizes, none = np.array(subgraph.hop_sizes, dtype=np.int64), np.empty(0, dtype=np.int64)
    e_id, tree = (none if ids is None else ids for ids in (subgraph.e_id, subgraph.tree))
    rows = subgraph.rows
    if rows is None:  # rows of all nodes but those of the last hop
        rows = schema.row_table(subgraph.n_id[: subgraph.hop_sizes[-2]] if len(sizes) > 1 else subgraph.n_id[:0])
    n_id, trees, places, nodes = _nodes(subgraph.n_id, tree, sizes, schema.layout)
    relations = len(schema.relations)
    edge_index, ids, edges = _edges(subgraph.indptr, subgraph.indices, e_id, rows, places, sizes, relations)
    node_ends, edge_ends = (np.cumsum([0, *counts.sum(axis=1)]).tolist() for counts in (nodes, edges))
    of_nodes, of_edges = ([slice(*ends) for ends in pairwise(ends)] for ends in (node_ends, edge_ends))
    return TypedSubgraph(
        [n_id[one] for one in of_nodes],
        [edge_index[:, one] for one in of_edges],
        None if subgraph.e_id is None else [ids[one] for one in of_edges],
        None if subgraph.tree is None else [trees[one] for one in of_nodes],
        nodes,
        edges,
    )


@njit(cache=True, nogil=True)
def _nodes(
    n_id: NDArray[np.int32], tree: NDArray[np.int64], sizes: NDArray[np.int64], layout: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Returns ids within the types and trees, type after type; each node's place in its type; and counts by type, hop.

    Args:
        n_id: Ids through all types.
        tree: Tree of each node; empty if there is one.
        sizes: Nodes known after each hop.
        layout: Of `Schema`.
    """
    types, begin = layout.shape[1] - 1, 0
    kinds, places = np.empty(len(n_id), dtype=np.uint16), np.empty(len(n_id), dtype=np.int32)
    counts, hops = np.zeros(types, dtype=np.int32), np.zeros((types, len(sizes)), dtype=np.int64)
    for hop in range(len(sizes)):
        for i in range(begin, sizes[hop]):
            kind = 0
            while n_id[i] >= layout[0, kind + 1]:
                kind += 1
            kinds[i], places[i] = kind, counts[kind]
            counts[kind] += 1
        begin = sizes[hop]
        hops[:, hop] = counts
    first = counts.cumsum() - counts
    ids, trees = np.empty(len(n_id), dtype=np.int32), np.empty(len(tree), dtype=np.int64)
    for i in range(len(n_id)):
        place = first[kinds[i]] + places[i]
        ids[place] = n_id[i] - layout[0, kinds[i]]
        if len(tree) > 0:
            trees[place] = tree[i]
    for hop in range(len(sizes) - 1, 0, -1):
        hops[:, hop] -= hops[:, hop - 1]
    return ids, trees, places, hops


@njit(cache=True, nogil=True)
def _edges(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    ids: NDArray[np.int64],
    rows: NDArray[np.int32],
    places: NDArray[np.int32],
    sizes: NDArray[np.int64],
    relations: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the edge lists of all relations, one after another, their ids, and counts by relation and hop.

    Args:
        indptr: Of the `Subgraph`.
        indices: Of the `Subgraph`.
        ids: Of the edges; empty if they are unknown.
        rows: Place of each row's node, and its relation.
        places: Place of each node within its type.
        sizes: Nodes known after each hop.
        relations: Number of relations.
    """
    counts, hop = np.zeros((relations, max(len(sizes) - 1, 0)), dtype=np.int64), 0
    targets, kinds = rows[0], rows[1]
    for row in range(len(targets)):
        while targets[row] >= sizes[hop] and hop + 1 < counts.shape[1]:  # a share's last hop may have rows of its own
            hop += 1
        counts[kinds[row], hop] += indptr[row + 1] - indptr[row]
    at = counts.sum(axis=1)
    at = at.cumsum() - at
    lists, e_id = np.empty((2, len(indices)), dtype=np.int64), np.empty(len(ids), dtype=np.int64)
    heads, tails = lists[0], lists[1]
    for row in range(len(targets)):
        place, target = at[kinds[row]] - indptr[row], places[targets[row]]
        for e in range(indptr[row], indptr[row + 1]):
            heads[place + e], tails[place + e] = places[indices[e]], target
        if len(ids) > 0:
            for e in range(indptr[row], indptr[row + 1]):
                e_id[place + e] = ids[e]
        at[kinds[row]] += indptr[row + 1] - indptr[row]
    return lists, e_id, counts
