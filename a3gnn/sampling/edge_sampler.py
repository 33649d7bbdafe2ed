"""`EdgeSampler`: neighbour sampling that knows which edges it took: with replacement, by weight, in disjoint trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.sampling.edge_kernels import sample_edges
from a3gnn.sampling.edge_order import induced_edges, take_ids
from a3gnn.sampling.edges import Edges
from a3gnn.sampling.kernels import cached_first
from a3gnn.sampling.sampler import NeighbourSampler, checked_seeds, too_many_edges
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.sampling.views import readonly


class EdgeSampler(NeighbourSampler):
    """Samples as `NeighbourSampler` does with `two_bucket`, and gives each edge's id.

    Uniform and without replacement it draws the same mini-batches, bit for bit. The same holds for what decides a
    draw: seed, epoch, batch, hop and node, and with `disjoint` the tree. Seeds may be repeated: each has a row.

    Args:
        edges: What is sampled. Weighted sampling is without replacement as A-Res draws it (Efraimidis and Spirakis,
            2006), so that a row gives fewer than `fanout` where fewer of its weights are above 0.
        fanouts: In-neighbours sampled per node, the seeds' hop first; -1 takes all.
        seed: Any non-negative integer below 2**64.
        bias_rate: Weight of a cached in-neighbour, >= 1; above 1 it needs edges without weights and no replacement.
        cached: Which nodes are cached, bool, shape (num_nodes,); None caches nothing.
        replace: Whether an in-neighbour may be drawn more than once; a row then gives `fanout` edges, or none.
        disjoint: Whether each seed has a tree of its own, whose nodes are none of another's.

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
        """Returns the neighbourhood of `seeds` (int32) for mini-batch `batch` of `epoch`.

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
        """Returns all edges between the nodes `n_id`: indptr, sources as positions in it, and ids."""
        position, edges = self._positions.take(), self._edges
        indptr, sources, places = induced_edges(edges.indptr, edges.indices, n_id, position)
        self._positions.give_back(position)
        if len(edges.ids):
            take_ids(edges.ids, places)
        return indptr, sources, places
