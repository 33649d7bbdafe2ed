"""`PartedSampler`: neighbor sampling on graph servers, with the same results as `NeighbourSampler`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.part_kernels import put_rows
from a3gnn.parts.protocol import NeighbourDraw
from a3gnn.sampling.kernel_types import readonly
from a3gnn.sampling.relabelling import forget, relabel
from a3gnn.sampling.sample_kernels import MAX_EDGES, grown
from a3gnn.sampling.sampler import PositionMaps, check_arguments, checked_seeds, repeated_seeds, too_many_edges
from a3gnn.sampling.subgraph import Subgraph


class PartedSampler:
    """Samples hop by hop: each graph server draws for the nodes of its part. Mini-batches are `NeighbourSampler`'s.

    Random numbers are keyed by seed, epoch, batch, hop and node, so they do not depend on the process that draws.
    Thread-safe; each concurrent call takes an int32 of scratch memory per node, which is reused by later calls.

    Args:
        graph: A graph by parts.
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all.
        seed: Any non-negative integer below 2**64.

    Raises:
        UsageError: An argument is out of range.
    """

    def __init__(self, graph: PartedGraph, fanouts: Sequence[int], *, seed: int) -> None:
        check_arguments(fanouts, 1.0, seed)
        self._graph, self.fanouts, self._seed = graph, tuple(map(int, fanouts)), int(seed)
        self._positions = PositionMaps(graph.num_nodes)

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood of `seeds` (int32, distinct) for mini-batch `batch` of `epoch`.

        Raises:
            UsageError: There are no seeds, one is out of range or repeated, or there are more than 2**31 - 1 edges.
            GraphServerError: A server refuses, or can't be reached.
        """
        graph, num_nodes = self._graph, self._graph.num_nodes
        seeds, position = checked_seeds(seeds, num_nodes), self._positions.take()
        n_id = np.empty(len(seeds) + 1, dtype=np.int32)
        count = relabel(seeds.copy(), position, n_id, 0)
        if count < len(seeds):
            raise repeated_seeds(len(seeds), count)
        sizes, first, total = [count], 0, 0
        ends, edges = [np.zeros(1, dtype=np.int64)], []
        for hop, fanout in enumerate(self.fanouts):
            nodes = n_id[first:count]
            counts = graph.counts(nodes, fanout)
            drawn = int(counts.sum())
            if total + drawn > MAX_EDGES:
                raise too_many_edges()
            ends.append(total + np.cumsum(counts))
            total += drawn
            found = graph.draw(nodes, counts, NeighbourDraw(fanout, hop, self._seed, epoch, batch))
            n_id, first = grown(n_id[:count], min(count + drawn, num_nodes) + 1), count
            count = relabel(found, position, n_id, count)
            edges.append(found)
            sizes.append(count)
        forget(n_id[:count], position)
        self._positions.give_back(position)
        indptr = np.concatenate(ends).astype(np.int32)
        indices = np.concatenate(edges) if edges else np.empty(0, dtype=np.int32)
        return Subgraph(n_id[:count].copy(), indptr, indices, tuple(sizes))


def warm_up() -> None:
    """Compiles the clients' kernels, or loads them from numba's cache, before any timing."""
    nothing, one, longs = np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int64)
    relabel(nothing, nothing, one, 0)
    forget(nothing, nothing)
    grown(one, 1)
    put_rows(readonly(nothing), longs, longs, longs, nothing)
