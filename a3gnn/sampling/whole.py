"""`WholeGraph`: the neighborhood of all seeds from all in-neighbors, sampled once for every epoch."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.edges import Edges
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph

#: The nodes that layers compute: those that the seeds need; all of them but in the last layer; all of them.
LayerRows = Literal["needed", "hidden", "all"]


class WholeGraph:
    """Returns one neighborhood for all mini-batches: its seeds first, with all in-neighbors at every hop.

    Args:
        seeds: Node ids, int32, distinct.
        num_layers: Hops.
        rows: The nodes that layers compute. Layers that normalize over nodes need all of them to equal full-batch
            training. With "all", every node is a seed of the neighborhood, the given ones first.
    """

    def __init__(self, edges: Edges, seeds: NDArray[np.int32], num_layers: int, rows: LayerRows) -> None:
        self._edges, self._seeds = edges, np.sort(seeds)
        self._num_layers, self._rows = num_layers, rows

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood; `seeds`, `epoch` and `batch` do not matter.

        Raises:
            UsageError: There are no seeds, or the graph has more than 2**31 - 1 edges.
        """
        return self._made

    @cached_property
    def _made(self) -> Subgraph:
        if self._rows == "needed":
            return Sampler(self._edges, (-1,) * self._num_layers, seed=0).sample(self._seeds, 0, 0)
        is_seed = np.zeros(self._edges.num_nodes, dtype=np.bool_)
        is_seed[self._seeds] = True
        order = np.concatenate([self._seeds, np.flatnonzero(~is_seed).astype(np.int32)])
        found = Sampler(self._edges, (-1,), seed=0).sample(order, 0, 0)
        seeds = len(self._seeds if self._rows == "hidden" else order)
        return dataclasses.replace(found, hop_sizes=(seeds, *(len(order),) * self._num_layers))
