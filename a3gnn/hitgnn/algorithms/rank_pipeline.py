"""`RankPipeline`: the mini-batches of one rank of a synchronous algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.stores.store import FeatureStore
from a3gnn.hitgnn.algorithms.iterations import Iterations
from a3gnn.pipeline.pipeline import Pipeline, open_sampler
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import Sampler
from a3gnn.sampling.share import cut
from a3gnn.sampling.subgraph import Subgraph


class RankPipeline(Pipeline):
    """See `Pipeline`: its mini-batches are the rank's of each iteration, sampled in the whole graph.

    Args:
        given: As of `Pipeline`.
        iterations: Which mini-batches.
        rank: Whose.
        features: The rank's.
        options: As of `Pipeline`.
    """

    def __init__(self, *given: Any, iterations: Iterations, rank: int, features: FeatureStore, **options: Any) -> None:
        self._iterations, self._rank, self._features = iterations, rank, features
        super().__init__(*given, **options)
        self.num_batches = len(iterations)

    def plan(self, epoch: int) -> list[PlannedBatch]:
        """Returns which seeds the rank trains in each iteration of `epoch`: none where it is idle."""
        return [planned[self._rank] for planned in self._iterations.of(epoch)]

    def first_samples(self, count: int) -> list[Subgraph]:
        """Returns what is sampled for the first `count` mini-batches of all ranks: the same on every one."""
        busy = [one for planned in self._iterations.of(0) for one in planned if len(one.seeds)]
        return [self._stages.sample(0, planned).subgraph for planned in busy[:count]]

    def _open_sources(self, *given: Any) -> tuple[FeatureStore, Sampler]:
        _, adjacency, fanouts, config, seed, *_ = given  # of `open_sources`
        sampler = open_sampler(adjacency, fanouts, config, seed, np.empty(0, dtype=np.int32), None, None)
        return self._features, _KeepingStep(sampler, self._seeds[:1])


class _KeepingStep:
    """Samples what another sampler does; without seeds, what a node reaches, at weight 0 (`a3gnn.sampling.share.cut`).

    Args:
        sampler: The other one.
        stand_in: That node, int32, shape (1,).
    """

    def __init__(self, sampler: Sampler, stand_in: NDArray[np.int32]) -> None:
        self._sample: Callable[..., Subgraph] = sampler.sample
        self._stand_in = stand_in

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighbourhood of `seeds`."""
        if len(seeds):
            return self._sample(seeds, epoch, batch)
        return cut(self._sample(self._stand_in, epoch, batch), 0, 0)
