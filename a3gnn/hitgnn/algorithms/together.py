"""`RankOf`: the behavior of one process in a training run by a synchronous algorithm."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from a3gnn.features.stores.store import FeatureStore
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.exchanging_trainer import ExchangingTrainer
from a3gnn.hitgnn.algorithms.iterations import Iterations
from a3gnn.hitgnn.algorithms.rank_store import dense_rows, open_rank_store, warm_up
from a3gnn.hitgnn.algorithms.relayed_store import RelayedStore
from a3gnn.hitgnn.algorithms.rules import check_config
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.hitgnn.algorithms.trainer import RankTrainer
from a3gnn.ranks.group import TorchRanks
from a3gnn.training.progress import Progress
from a3gnn.training.rank_processes import Together
from a3gnn.training.request import TrainRequest
from a3gnn.training.step import by_rank
from a3gnn.training.trainer import Trainer, TrainerOptions

if TYPE_CHECKING:
    from a3gnn.hitgnn.algorithms.algorithm import Algorithm


class RankOf(Together):
    """See `Together`: each rank trains mini-batches of its own, and reads features it does not store from host memory.

    Args:
        algorithm: The algorithm.
        ranks: The group of all ranks.
    """

    def __init__(self, algorithm: Algorithm, ranks: TorchRanks) -> None:
        super().__init__(ranks)
        self._algorithm = algorithm

    @property
    def algorithm(self) -> str:
        """The algorithm's name."""
        return self._algorithm.name

    @property
    def identity(self) -> dict[str, Any]:
        """See `Algorithm.identity`."""
        return self._algorithm.identity(self._graph, self._parts, self.count)

    def adapted(self, request: TrainRequest, notify: Callable[[str], None]) -> TrainRequest:
        """Adapts `request` as `Together` does; rank 0 then partitions the graph for all ranks.

        Raises:
            UsageError: A knob conflicts with the algorithm, or the partitioner returned no valid parts.
        """
        check_config(request.config, self._algorithm)
        request = super().adapted(request, notify)
        with self.first_alone():
            warm_up()
        begin, content = perf_counter(), b""
        if self.speaks:
            content = self._algorithm.parts(request.graph, self.count, request.task.seed).tobytes()
        self._parts = np.frombuffer(self._ranks.bytes_of_first(content), dtype=np.int32)
        self._partition_s, self._graph = perf_counter() - begin, request.graph
        return request

    def trainer(self, request: TrainRequest, options: TrainerOptions) -> Trainer:
        """Returns the trainer of this rank's mini-batches."""
        graph, config, task = request.graph, request.config, request.task
        own, make = self._stored(graph, self._ranks.rank), self._algorithm.exchange
        self._features: FeatureStore
        if self._algorithm.direct:
            self._features = open_rank_store(graph, config, own, self.device)
        else:
            stored = [self._stored(graph, rank) for rank in range(self.count)]
            self._features = RelayedStore(dense_rows(graph, config), stored, self._ranks, self.device)
        self._iterations = Iterations(
            graph.train_ids,
            self._parts,
            self.count,
            config.batch_size,
            task.seed,
            balanced=self._algorithm.balanced,
        )
        if make is None:
            return RankTrainer(
                graph,
                config,
                task,
                options,
                iterations=self._iterations,
                features=self._features,
                member=self.member,
                device=self.device,
            )
        return ExchangingTrainer(
            graph,
            config,
            task,
            options,
            iterations=self._iterations,
            features=self._features,
            member=self.member,
            exchange=lambda learner: make(learner, self._ranks, own, self._features),
            device=self.device,
        )

    def told(self, done: Progress) -> dict[str, Any]:
        """Returns the algorithm's entry in a result."""
        counted = [one.traffic for one in done.epochs]
        if done.under_way.traffic:  # a target ended the epoch
            counted.append(done.under_way.traffic)
        return {
            "name": self._algorithm.name,
            "iterations": len(self._iterations),
            "partition_s": self._partition_s,
            "ranks": by_rank(counted),
        }

    def _stored(self, graph: Graph, rank: int) -> Stored:
        return self._algorithm.stored(graph, self._parts, rank, self.count)
