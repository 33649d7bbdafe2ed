"""Shares of a mini-batch for models of any kind, whose outputs at the share's seeds equal those on the whole.

`a3gnn.sampling.share` cuts for models with one layer per hop, each of which computes a row from its in-neighbors. Two
kinds of models read more. A model with more layers than hops reads further rows, and a layer such as GCN's weighs a
source by the number of the source's own in-neighbors.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from a3gnn.sampling.share import cut, with_relations, without_relations
from a3gnn.sampling.subgraph import Subgraph


class Reach(NamedTuple):
    """The part of a mini-batch that an output of a seed depends on."""

    layers: int | None  # number of layers; None if it is unknown, and then everything that leads to a seed counts
    degrees: bool  # whether a layer reads the number (or the weights) of a source's own in-neighbors


def exact_share(whole: Subgraph, low: int, high: int, reach: Reach) -> Subgraph:
    """Returns the part of `whole` that decides the outputs of its seeds `low` to `high`, at least one.

    Its first nodes are these seeds. Its rows are whole rows, edge by edge in the same order. With `reach.degrees`, each
    of its nodes has as many in-edges as in `whole`, with the same `e_id`. Rows beyond the last layer have other sources
    instead of those that are not in the share; no output of a seed reads them. Where there are types, these rows have
    their sources, because another one could be of another type.

    Raises:
        UsageError: The seeds are out of range.
    """
    hops = whole.num_layers
    if whole.rows is not None:
        if reach.layers is not None:
            reach = Reach(max(hops, reach.layers) + reach.degrees, degrees=False)
        return with_relations(exact_share(without_relations(whole), low, high, reach), whole)
    layers = whole.num_nodes if reach.layers is None else max(hops, reach.layers)
    share = cut(whole if layers == hops else _deeper(whole, layers), low, high)
    if layers > hops:
        assert share.share is not None
        sizes = (*share.hop_sizes[:hops], share.num_nodes)
        rows = int(np.flatnonzero(np.diff(share.indptr))[-1]) + 1 if share.num_edges else sizes[-2]
        indptr = share.indptr[: max(rows, sizes[-2]) + 1]
        share = dataclasses.replace(
            share, indptr=indptr, hop_sizes=sizes, share=dataclasses.replace(share.share, whole=whole)
        )
    return _with_degrees(share, whole) if reach.degrees and reach.layers is not None else share


def _deeper(whole: Subgraph, layers: int) -> Subgraph:
    """Returns `whole` for a cut over `layers` hops, more than it has: every node has a row, most of them empty."""
    indptr = np.full(whole.num_nodes + 1, whole.num_edges, dtype=whole.indptr.dtype)
    indptr[: len(whole.indptr)] = whole.indptr
    sizes = (*whole.hop_sizes, *[whole.num_nodes] * (layers - whole.num_layers))
    return dataclasses.replace(whole, indptr=indptr, hop_sizes=sizes)


def _with_degrees(share: Subgraph, whole: Subgraph) -> Subgraph:
    """Returns `share` with a row, as long as in `whole`, for each node whose row no layer reads."""
    assert share.share is not None
    places, rows = share.share.places, len(share.indptr) - 1
    rest = places[rows:]  # nodes without a row, which are all of the last hop
    known = rest < len(whole.indptr) - 1
    starts, ends = (np.where(known, whole.indptr[np.where(known, rest + more, 0)], 0) for more in (0, 1))
    lengths = ends - starts
    if not lengths.any():
        return share
    last = int(np.flatnonzero(lengths)[-1]) + 1
    lengths, starts = lengths[:last], starts[:last]
    targets = np.repeat(np.arange(rows, rows + last, dtype=np.int32), lengths)
    firsts = np.cumsum(lengths) - lengths
    edges = np.arange(len(targets)) - np.repeat(firsts, lengths) + np.repeat(starts, lengths)
    position = np.zeros(whole.num_nodes, dtype=np.int32)
    position[places] = np.arange(len(places), dtype=np.int32)
    # A source outside the share becomes the first seed, which is never a target here, so that a loop stays a loop.
    sources = position[whole.indices[edges]]
    indptr = np.concatenate([share.indptr, share.num_edges + np.cumsum(lengths, dtype=share.indptr.dtype)])
    e_id = share.e_id if whole.e_id is None or share.e_id is None else np.concatenate([share.e_id, whole.e_id[edges]])
    indices = np.concatenate([share.indices, sources.astype(share.indices.dtype)])
    return dataclasses.replace(share, indptr=indptr.astype(share.indptr.dtype), indices=indices, e_id=e_id)
