"""`EdgeSampler`: neighbor sampling that reports edge ids: with replacement, by weight, in disjoint trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.sampling.edge_kernels import induced_edges, is_by_target, places_by_target, sample_edges, take_ids
from a3gnn.sampling.sample_kernels import cached_first
from a3gnn.sampling.sampler import NeighborSampler, checked_seeds, too_many_edges
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.storage.compiled import readonly


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges as CSR by target; an edge may occur more than once.

    Attributes:
        indptr: int64, shape (num_nodes + 1,).
        indices: Sources, int32, shape (num_edges,), ascending in each row.
        ids: Each edge's place in the original list, int32 or int64, shape (num_edges,); empty if the order is the same.
        weights: float64, shape (num_edges,), finite and >= 0; empty if all weigh the same.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    ids: NDArray[Any]
    weights: NDArray[np.float64]

    @classmethod
    def plain(cls, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> Self:
        """Returns the edges of a CSR, memory maps included: not copied, without ids and weights."""
        return cls(readonly(indptr), readonly(indices), readonly(np.empty(0, dtype=np.int32)), readonly(np.empty(0)))

    @classmethod
    def of(
        cls, sources: NDArray[Any], targets: NDArray[Any], num_nodes: int, weights: NDArray[Any] | None = None
    ) -> Self:
        """Returns the edges from `sources` to `targets`, integers in [0, num_nodes), in time linear in their number.

        Raises:
            UsageError: `weights` are not one finite number >= 0 for each edge.
        """
        sources, targets = readonly(sources), readonly(targets)
        checked = np.empty(0) if weights is None else _checked(weights, len(sources))
        indptr = _indptr(targets, num_nodes)
        ids = np.empty(0, dtype=np.int32)
        if not is_by_target(sources, targets):
            ids = places_by_target(sources, targets, num_nodes)
            # Half the memory is half the cache misses in look-ups of a mini-batch's ids.
            ids = ids.astype(np.int32) if len(ids) < 2**31 else ids
            sources, checked = sources[ids], checked[ids] if len(checked) else checked
        return cls(readonly(indptr), readonly(sources.astype(np.int32)), readonly(ids), readonly(checked))

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return len(self.indptr) - 1

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns indptr and indices with each edge once; the arrays themselves if no edge is repeated."""
        targets = self._targets
        kept = np.ones(len(self.indices), dtype=np.bool_)
        kept[1:] = (self.indices[1:] != self.indices[:-1]) | (targets[1:] != targets[:-1])
        if kept.all():
            return self.indptr, self.indices
        return _indptr(targets[kept], self.num_nodes), self.indices[kept]

    def within(self, parts: NDArray[np.int32]) -> Self:
        """Returns the edges between nodes of one part; `parts` int32, shape (num_nodes,)."""
        targets = self._targets
        places = np.flatnonzero(parts[targets] == parts[self.indices])
        indptr = _indptr(targets[places], self.num_nodes)
        ids = self.ids[places] if len(self.ids) else places
        weights = self.weights[places] if len(self.weights) else self.weights
        return type(self)(readonly(indptr), readonly(self.indices[places]), readonly(ids), readonly(weights))

    @property
    def _targets(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))


class EdgeSampler(NeighborSampler):
    """Samples as `NeighborSampler` does, and reports each edge's id.

    Uniform sampling without replacement draws the same mini-batches, bit for bit. A draw depends only on seed, epoch,
    batch, hop and node, and with `disjoint` on the tree. Seeds may be repeated: each has a row.

    Args:
        edges: The edges to sample. Weighted sampling without replacement follows A-Res (Efraimidis and Spirakis, 2006);
            a row gives fewer than `fanout` edges if fewer of its weights are above 0.
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all.
        seed: Any non-negative integer below 2**64.
        bias_rate: Weight of a cached in-neighbor, >= 1; above 1 it needs edges without weights and no replacement.
        cached: Which nodes are cached, bool, shape (num_nodes,); None caches nothing.
        replace: Whether an in-neighbor may be drawn more than once; a row then gives `fanout` edges, or none.
        disjoint: Whether each seed has its own tree, which shares no node with other trees.

    Raises:
        UsageError: An argument is out of range.
    """

    def __init__(
        self,
        edges: Edges,
        fanouts: Sequence[int],
        *,
        seed: int,
        bias_rate: float = 1.0,
        cached: NDArray[np.bool_] | None = None,
        replace: bool = False,
        disjoint: bool = False,
    ) -> None:
        if bias_rate > 1 and (replace or len(edges.weights)):
            raise UsageError(f"bias_rate must be 1 with weights or replacement, got {bias_rate}; 1 leaves caches alone")
        super().__init__(edges.indptr, edges.indices, fanouts, seed=seed, bias_rate=bias_rate, cached=cached)
        self._edges = edges
        self._ids = edges.ids
        if len(self._adjacency.num_cached) and cached is not None:
            places = edges.ids if len(edges.ids) else np.arange(len(edges.indices))
            self._ids = np.empty_like(places)
            cached_first(edges.indptr, edges.indices, readonly(cached), readonly(places), self._ids)
        self._replace = replace
        self._disjoint = disjoint

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood of `seeds` (int32) for mini-batch `batch` of `epoch`.

        Raises:
            UsageError: There are no seeds, one is out of range, or there are more than 2**31 - 1 edges.
        """
        adjacency = self._adjacency
        seeds, position = checked_seeds(seeds, adjacency.num_nodes), self._positions.take()
        n_id, indptr, indices, places, starts, sizes = sample_edges(
            adjacency.indptr,
            adjacency.indices,
            adjacency.num_cached,
            self._edges.weights,
            self._fanouts,
            self.bias_rate,
            self._replace,
            self._disjoint,
            self._seed,
            np.uint64(epoch),
            np.uint64(batch),
            seeds,
            position,
        )
        if sizes[-1] == 0:
            raise too_many_edges()
        self._positions.give_back(position)
        if len(self._ids):
            take_ids(self._ids, places)
        tree = None
        if self._disjoint:
            tree = np.concatenate([np.repeat(np.arange(len(seeds)), np.diff(hop)) for hop in starts])
        return Subgraph(n_id, indptr, indices, tuple(sizes.tolist()), places, tree)

    def induced(self, n_id: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Returns all edges between the nodes `n_id`: indptr, sources as positions in `n_id`, and ids."""
        position, edges = self._positions.take(), self._edges
        indptr, sources, places = induced_edges(edges.indptr, edges.indices, n_id, position)
        self._positions.give_back(position)
        if len(edges.ids):
            take_ids(edges.ids, places)
        return indptr, sources, places


def _indptr(targets: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    indptr[1:] = np.bincount(targets, minlength=num_nodes).cumsum()
    return indptr


def _checked(weights: NDArray[Any], num_edges: int) -> NDArray[np.float64]:
    if weights.shape != (num_edges,) or weights.dtype.kind not in "fiub":
        raise UsageError(f"weights must be {num_edges} numbers, one per edge, got {weights.dtype} of {weights.shape}")
    checked = weights.astype(np.float64)
    bad = int(np.count_nonzero(~(np.isfinite(checked) & (checked >= 0))))
    if bad:
        raise UsageError(f"weights must be finite and >= 0, {bad} of {num_edges} are not; 0 leaves an edge out")
    return checked
