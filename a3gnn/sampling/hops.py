"""`HopSampler`: samples hop by hop what is drawn elsewhere: by torch on a device, or by graph servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.relabeling import forget, relabel
from a3gnn.sampling.sample_kernels import MAX_EDGES, grown
from a3gnn.sampling.sampler import Fanout, PositionMaps, check_arguments, checked_seeds, repeated_seeds
from a3gnn.sampling.subgraph import Subgraph


class NeighborDraw(NamedTuple):
    """A draw of in-neighbors: `fanout` per node, -1 for all, by random numbers that the other fields key."""

    fanout: int
    hop: int = 0
    seed: int = 0
    epoch: int = 0
    batch: int = 0


class HopSampler(ABC):
    """Samples hop by hop; mini-batches are `Sampler`'s, bit for bit.

    Thread-safe; each concurrent call takes an int32 of scratch memory per node, which is reused by later calls.

    Args:
        num_nodes: Nodes of the graph.
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all.
        seed: Any non-negative integer below 2**64.
        bias_rate: Weight of a cached in-neighbor, >= 1.

    Raises:
        UsageError: An argument is out of range.
    """

    def __init__(self, num_nodes: int, fanouts: Sequence[Fanout], *, seed: int, bias_rate: float = 1.0) -> None:
        check_arguments(fanouts, bias_rate, seed)
        self.fanouts = tuple(int(fanout) for fanout in fanouts if not isinstance(fanout, tuple))
        self.bias_rate = float(bias_rate)
        self._seed, self._num_nodes, self._positions = int(seed), num_nodes, PositionMaps(num_nodes)

    @abstractmethod
    def _draw(
        self, nodes: NDArray[np.int32], draw: NeighborDraw, most: int
    ) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
        """Returns the number of in-neighbors drawn for each of `nodes`, and their global ids row by row.

        Raises:
            UsageError: They are more than `most`.
        """

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood of `seeds` (int32, distinct) for mini-batch `batch` of `epoch`.

        Raises:
            UsageError: There are no seeds, one is out of range or repeated, or there are more than 2**31 - 1 edges.
            GraphServerError: A graph server refuses, or can't be reached.
        """
        seeds, position = checked_seeds(seeds, self._num_nodes), self._positions.take()
        n_id = np.empty(len(seeds) + 1, dtype=np.int32)
        count = relabel(seeds.copy(), position, n_id, 0)
        if count < len(seeds):
            raise repeated_seeds(len(seeds), count)
        sizes, first, total = [count], 0, 0
        degrees: list[NDArray[np.integer]] = [np.zeros(1, dtype=np.int64)]
        edges = [np.empty(0, dtype=np.int32)]
        for hop, fanout in enumerate(self.fanouts):
            draw = NeighborDraw(fanout, hop, self._seed, epoch, batch)
            counts, ids = self._draw(n_id[first:count], draw, MAX_EDGES - total)
            total += len(ids)
            n_id, first = grown(n_id, count, min(count + len(ids), self._num_nodes) + 1), count
            count = relabel(ids, position, n_id, count)
            degrees.append(counts)
            edges.append(ids)
            sizes.append(count)
        forget(n_id[:count], position)
        self._positions.give_back(position)
        indptr = np.concatenate(degrees).cumsum().astype(np.int32)
        return Subgraph(n_id[:count].copy(), indptr, np.concatenate(edges), tuple(sizes))
