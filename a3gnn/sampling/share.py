"""Cuts a mini-batch by its seeds, so shares trained beside each other give the result of the whole mini-batch.

A node's in-neighbors are drawn at the hop that discovers it. Sampled alone, a share's seeds would discover some nodes
later than the whole mini-batch does, and draw others. So the whole mini-batch is sampled, and each share takes the
whole rows that its seeds reach.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import AnySampler, Share, Subgraph
from a3gnn.storage.compiled import njit


@dataclass(frozen=True, slots=True)
class Shares:
    """The proportions in which every mini-batch is cut, and the share to take.

    Attributes:
        rank: The share to take, from 0.
        weights: Each share's proportion of the seeds, integers >= 0; a share of weight 0 has no seeds.

    Raises:
        UsageError: There is no share `rank`, or no share has seeds.
    """

    rank: int
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        whole = all(isinstance(weight, int) and weight >= 0 for weight in self.weights)
        if not whole or not any(self.weights):
            raise UsageError(f"shares must be integers >= 0, at least one above 0, got {self.weights}")
        if not 0 <= self.rank < len(self.weights):
            raise UsageError(f"rank must be in [0, {len(self.weights)}), got {self.rank}")

    @classmethod
    def equal(cls, rank: int, ranks: int) -> Shares:
        """Returns the share `rank` of `ranks` equal shares."""
        return cls(rank, (1,) * ranks)

    def bounds(self, num_seeds: int) -> tuple[int, int]:
        """Returns the share's first seed out of `num_seeds`, and one past its last seed."""
        ends = seed_bounds(num_seeds, self.weights)
        return ends[self.rank], ends[self.rank + 1]


def seed_bounds(num_seeds: int, weights: Sequence[int]) -> list[int]:
    """Returns the bounds of shares of `num_seeds` seeds in proportion to `weights`, len(weights) + 1 integers.

    Weights that sum to `num_seeds` are the sizes of the shares.
    """
    total = sum(weights)
    return [0, *(num_seeds * reached // total for reached in accumulate(weights))]


def cut(whole: Subgraph, low: int, high: int) -> Subgraph:
    """Returns the part of `whole` that its seeds `low` to `high` reach in its layers, with `Subgraph.share`.

    Its rows are rows of `whole`, edge by edge in the same order. Shares that together have every seed have every edge
    that a layer of `whole` reads. Each node is owned by one share, which has it in every layer in which `whole` has it.

    Without seeds (`low == high`) the result is the part that the first seed of `whole` reaches, at weight 0 and without
    own nodes. A model can then take part in computations of all shares, and adds nothing.

    Raises:
        UsageError: The seeds are out of range.
    """
    if not 0 <= low <= high <= whole.num_seeds:
        raise UsageError(f"a share's seeds must be within [0, {whole.num_seeds}], got {low} to {high}")
    if whole.rows is not None:
        return with_relations(cut(without_relations(whole), low, high), whole)
    taken = (low, high) if high > low else (0, 1)
    arrays = whole.indptr, whole.indices, whole.num_nodes
    places, indptr, indices, edges, sizes = cut_hops(*arrays, *taken, whole.num_layers)
    owned: NDArray[np.bool_] = owned_nodes(*arrays, whole.num_seeds, low, high)[places]
    return Subgraph(
        whole.n_id[places],
        indptr,
        indices,
        tuple(sizes.tolist()),
        None if whole.e_id is None else whole.e_id[edges],
        None if whole.tree is None else whole.tree[places] - taken[0],
        Share(whole, places, owned, high - low),
    )


def without_relations(whole: Subgraph) -> Subgraph:
    """Returns `whole` with one row per node, in which its rows of all relations are joined; `e_id` is their place."""
    assert whole.rows is not None
    nodes = whole.hop_sizes[-2] if whole.num_layers else 0
    indptr = whole.indptr[np.searchsorted(whole.rows[0], np.arange(nodes + 1))]
    return dataclasses.replace(whole, indptr=indptr, rows=None, e_id=np.arange(whole.num_edges))


def with_relations(share: Subgraph, whole: Subgraph) -> Subgraph:
    """Returns `share`, cut from `without_relations(whole)`, with a row per node and relation."""
    assert whole.rows is not None
    assert share.e_id is not None
    assert share.share is not None
    rows = np.repeat(np.arange(whole.rows.shape[1]), np.diff(whole.indptr))[share.e_id]
    begins = np.flatnonzero(np.diff(rows, prepend=-1))  # a share has each row at most once
    places = np.repeat(np.arange(len(share.indptr) - 1), np.diff(share.indptr))[begins]
    return dataclasses.replace(
        share,
        indptr=np.append(begins, share.num_edges).astype(np.int32),
        e_id=None if whole.e_id is None else whole.e_id[share.e_id],
        rows=np.stack([places, whole.rows[1][rows[begins]]]).astype(np.int32),
        share=dataclasses.replace(share.share, whole=whole),
    )


class CutSampler:
    """Samples whole mini-batches with another sampler, and returns a share of each; as thread-safe as that sampler.

    Args:
        sampler: Samples the whole mini-batches.
        shares: The cut, and the share to return.
    """

    def __init__(self, sampler: AnySampler, shares: Shares) -> None:
        self._sampler, self._shares = sampler, shares

    def sample(
        self, seeds: NDArray[np.int32], epoch: int, batch: int, until: NDArray[np.int32] | None = None
    ) -> Subgraph:
        """Returns the share of the neighborhood of `seeds`, which are all seeds of the mini-batch."""
        if until is None:
            whole = self._sampler.sample(seeds, epoch, batch)
        else:
            assert isinstance(self._sampler, Sampler), "only the host samples by time"
            whole = self._sampler.sample(seeds, epoch, batch, until)
        return cut(whole, *self._shares.bounds(whole.num_seeds))


@njit(cache=True, nogil=True)
def cut_hops(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], num_nodes: int, low: int, high: int, hops: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Follows the edges of a `Subgraph` from its seeds `low` to `high`.

    Args:
        indptr: Of the whole mini-batch, shape (num_rows + 1,).
        indices: Of the whole mini-batch, shape (num_edges,).
        num_nodes: Nodes of the whole mini-batch.
        low: First seed.
        high: One past the last seed.
        hops: Hops of the whole mini-batch.

    Returns:
        The reached nodes as places in the whole, in order of discovery; indptr and indices of their rows, which are
        whole rows; the place of each edge in the whole; and the nodes known after each hop.
    """
    position = np.zeros(num_nodes, dtype=np.int32)  # one plus the place in the cut, 0 for nodes not reached
    places, sizes = np.empty(num_nodes, dtype=np.int32), np.zeros(hops + 1, dtype=np.int64)
    pointers = np.zeros(len(indptr), dtype=np.int32)
    found, edges = np.empty(len(indices), dtype=np.int32), np.empty(len(indices), dtype=np.int32)
    count = 0
    for seed in range(low, high):
        places[count] = seed
        count += 1
        position[seed] = count
    sizes[0] = count
    first, written = 0, 0
    for hop in range(hops):
        last = count
        for i in range(first, last):
            for e in range(indptr[places[i]], indptr[places[i] + 1]):
                node = indices[e]
                if position[node] == 0:
                    places[count] = node
                    count += 1
                    position[node] = count
                found[written] = position[node] - 1
                edges[written] = e
                written += 1
            pointers[i + 1] = written
        first = last
        sizes[hop + 1] = count
    return places[:count].copy(), pointers[: first + 1].copy(), found[:written].copy(), edges[:written].copy(), sizes


@njit(cache=True, nogil=True)
def owned_nodes(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], num_nodes: int, num_seeds: int, low: int, high: int
) -> NDArray[np.bool_]:
    """Returns which nodes belong to the seeds `low` to `high`, bool, shape (num_nodes,).

    A node belongs to the owner of the row that discovered it: the first row with an edge from it. So the share that
    owns a node reaches it at the same hop as the whole does, and has it in the same layers.
    """
    owned, known = np.zeros(num_nodes, dtype=np.bool_), np.zeros(num_nodes, dtype=np.bool_)
    owned[low:high] = True
    known[:num_seeds] = True
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            node = indices[e]
            if not known[node]:
                known[node] = True
                owned[node] = owned[i]
    return owned
