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
        n_id: Ids within each type, int64, one array per type: seeds first, then hop by hop.
        edge_index: Sources and targets as places in the `n_id` of their types, int64, shape (2, num_edges), one array
            per relation: hop by hop, targets ascending.
        e_id: Each edge's place in the list of its relation, int64, one array per relation; empty if the sampler doesn't
            report it.
        tree: The tree of each node, int64, one array per type; None for a single tree of all seeds.
        num_sampled_nodes: New nodes of each hop, seeds first, int64, shape (num_types, hops + 1).
        num_sampled_edges: Edges of each hop, int64, shape (num_relations, hops).
    """

    n_id: list[NDArray[np.int64]]
    edge_index: list[NDArray[np.int64]]
    e_id: list[NDArray[np.int64]]
    tree: list[NDArray[np.int64]] | None
    num_sampled_nodes: NDArray[np.int64]
    num_sampled_edges: NDArray[np.int64]


def by_type(subgraph: Subgraph, schema: Schema) -> TypedSubgraph:
    """Returns `subgraph`, whose ids and relations are those of `schema`, by node type and relation."""
    sizes, rows, types = np.array(subgraph.hop_sizes, dtype=np.int64), subgraph.rows, len(schema.types)
    if rows is None:  # rows of all nodes but those of the last hop
        rows = schema.row_table(subgraph.n_id[: sizes[-2]] if len(sizes) > 1 else subgraph.n_id[:0])
    tree = _ONE_TREE if subgraph.tree is None else subgraph.tree
    ids = _NO_IDS if subgraph.e_id is None else subgraph.e_id
    structure = subgraph.indptr, subgraph.indices, ids, rows, len(schema.relations)
    n_id, trees, lists, e_id, nodes, edges, ends = _split(subgraph.n_id, tree, sizes, schema.layout, *structure)
    borders = [slice(*one) for one in pairwise(ends.tolist())]
    of_nodes, of_edges = borders[:types], borders[types + 1 :]
    return TypedSubgraph(
        [n_id[one] for one in of_nodes],
        [lists[2 * one.start : 2 * one.stop].reshape(2, -1) for one in of_edges],
        [e_id[one] for one in of_edges],
        None if subgraph.tree is None else [trees[one] for one in of_nodes],
        nodes,
        edges,
    )


_ONE_TREE = _NO_IDS = np.empty(0, dtype=np.int64)


@njit(cache=True, nogil=True)
def _split(
    n_id: NDArray[np.int32],
    tree: NDArray[np.int64],
    sizes: NDArray[np.int64],
    layout: NDArray[np.int64],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    ids: NDArray[np.int64],
    rows: NDArray[np.int32],
    relations: int,
) -> tuple[NDArray[np.int64], ...]:
    """Returns the results of `_nodes` and `_edges` in one call, and where each type and each relation begins there.

    Args:
        n_id: Ids through all types.
        tree: Tree of each node; empty if there is one.
        sizes: Nodes known after each hop.
        layout: Of `Schema`.
        indptr: Of the `Subgraph`.
        indices: Of the `Subgraph`.
        ids: Of the edges; empty if there are none.
        rows: Place of each row's node, and its relation.
        relations: Number of relations.

    Returns:
        Ids and trees of nodes, edge lists, ids of edges, counts of nodes and of edges by hop. Last the ends of types,
        then those of relations, each after a 0.
    """
    own, trees, places, nodes = _nodes(n_id, tree, sizes, layout)
    lists, e_id, edges = _edges(indptr, indices, ids, rows, places, sizes, relations)
    ends = np.zeros(len(nodes) + len(edges) + 2, dtype=np.int64)
    ends[1 : len(nodes) + 1] = nodes.sum(axis=1).cumsum()
    ends[len(nodes) + 2 :] = edges.sum(axis=1).cumsum()
    return own, trees, lists, e_id, nodes, edges, ends


@njit(nogil=True)
def _nodes(
    n_id: NDArray[np.int32], tree: NDArray[np.int64], sizes: NDArray[np.int64], layout: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Returns ids within the types and trees, type after type; each node's place in its type; and counts by type, hop.

    Args as in `_split`.
    """
    types, begin = layout.shape[1] - 1, 0
    kinds, places = np.empty(len(n_id), dtype=np.uint16), np.empty(len(n_id), dtype=np.int32)
    counts, hops = np.zeros(types, dtype=np.int32), np.zeros((types, len(sizes)), dtype=np.int64)
    for hop in range(len(sizes)):
        for i in range(begin, sizes[hop]):
            kind = 0  # without branches, which processors would mispredict
            for other in range(1, types):
                kind += n_id[i] >= layout[0, other]
            kinds[i], places[i] = kind, counts[kind]
            counts[kind] += 1
        begin = sizes[hop]
        hops[:, hop] = counts
    first = counts.cumsum() - counts
    ids, trees = np.empty(len(n_id), dtype=np.int64), np.empty(len(tree), dtype=np.int64)
    for i in range(len(n_id)):
        place = first[kinds[i]] + places[i]
        ids[place] = n_id[i] - layout[0, kinds[i]]
        if len(tree) > 0:
            trees[place] = tree[i]
    for hop in range(len(sizes) - 1, 0, -1):
        hops[:, hop] -= hops[:, hop - 1]
    return ids, trees, places, hops


@njit(nogil=True)
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

    The sources of a relation's list come before its targets. Args as in `_split`; `places` are those of `_nodes`.
    """
    counts, hop = np.zeros((relations, max(len(sizes) - 1, 0)), dtype=np.int64), 0
    targets, kinds = rows[0], rows[1]
    for row in range(len(targets)):
        while targets[row] >= sizes[hop] and hop + 1 < counts.shape[1]:  # a share's last hop may have rows of its own
            hop += 1
        counts[kinds[row], hop] += indptr[row + 1] - indptr[row]
    totals = counts.sum(axis=1)
    at = totals.cumsum() - totals
    first = at.copy()
    lists, e_id = np.empty(2 * len(indices), dtype=np.int64), np.empty(len(ids), dtype=np.int64)
    for row in range(len(targets)):
        kind, target, begin, end = kinds[row], places[targets[row]], indptr[row], indptr[row + 1]
        own = at[kind] - begin
        head = first[kind] + own
        tail = head + totals[kind]
        for e in range(begin, end):
            lists[head + e], lists[tail + e] = places[indices[e]], target
            if len(ids) > 0:
                e_id[own + e] = ids[e]
        at[kind] += end - begin
    return lists, e_id, counts
