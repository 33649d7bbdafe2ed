"""`Algorithm`: a synchronous training algorithm, as its partitioner and its feature-storing strategy.

`RankOf` is one process in a training run by it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.store import FeatureStore
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.exchange import ExchangeMaker, ExchangingTrainer
from a3gnn.hitgnn.algorithms.iterations import Iterations
from a3gnn.hitgnn.algorithms.rank_store import RelayedStore, dense_rows, open_rank_store, warm_up
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.hitgnn.algorithms.trainer import RankTrainer
from a3gnn.option_names import option
from a3gnn.ranks.group import TorchRanks
from a3gnn.training.progress import Progress
from a3gnn.training.rank_processes import Together
from a3gnn.training.request import TrainRequest
from a3gnn.training.step import by_rank
from a3gnn.training.trainer import Trainer, TrainerOptions
from a3gnn.units import count

#: Takes the graph, the number of ranks and a seed; returns the part of each node, integers in [0, ranks).
AssignsParts = Callable[[Graph, int, int], NDArray[np.integer]]
#: Takes the graph, the part of each node (int32), a rank, and the number of ranks; returns the rank's features.
Storing = Callable[[Graph, NDArray[np.int32], int, int], Stored]


#: Knobs with their required value, and the reason.
_FIXED: tuple[tuple[str, Any, str], ...] = (
    ("num_partitions", 1, "its partitions keep the edges between them"),
    ("cache_bytes", 0, "the algorithm decides which rows are in a device's memory"),
    ("seed_order", "random", "seeds are shuffled within each part"),
    ("input_aggregation", "sampled", "a rank does not store aggregates of whole in-neighborhoods"),
)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A synchronous training algorithm: a partitioner and a feature-storing strategy (HitGNN, Table I).

    A rank trains on the train nodes of its part. In-neighbors are sampled in the whole graph, so edges between parts
    are kept. A rank reads features that it does not store from host memory. All algorithms share everything else.

    Attributes:
        name: A name for people; `resume` requires the same name.
        partition: Assigns each train node to the rank that it is a seed of.
        storing: Chooses the features in each rank's device memory.
        exchange: Makes the exchange between ranks if features are split by columns; None for none.
        balanced: Whether a rank with an exhausted part trains mini-batches of others (Algorithm 3), or is idle.
        direct: Whether a missing row comes straight from host memory (section V-B, "DC"), or, for comparison, from the
            device of the rank that stores it, through host memory.
    """

    name: str
    partition: AssignsParts
    storing: Storing
    exchange: ExchangeMaker | None = None
    balanced: bool = True
    direct: bool = True

    def parts(self, graph: Graph, ranks: int, seed: int) -> NDArray[np.int32]:
        """Returns the part of each node, int32 in [0, ranks), shape (num_nodes,).

        Raises:
            UsageError: The partitioner returned something else.
        """
        found = np.asarray(self.partition(graph, ranks, seed))
        whose = f"the partitioner of {self.name}"
        law = f"{whose} must return an integer in [0, {ranks}) for each of {count(graph.num_nodes, 'node')}"
        if found.dtype.kind not in "iu" or found.shape != (graph.num_nodes,):
            raise UsageError(f"{law}, got {found.dtype} of shape {found.shape}")
        if found.min() < 0 or found.max() >= ranks:
            raise UsageError(f"{law}, got values from {found.min()} to {found.max()}")
        return found.astype(np.int32)

    def stored(self, graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
        """Returns the features that `rank` stores.

        Raises:
            UsageError: The strategy returned something else, or does not fit the algorithm.
        """
        found = self.storing(graph, parts, rank, ranks)
        if not isinstance(found, Stored):
            raise UsageError(f"the storing strategy of {self.name} must return a Stored, got {found!r}")
        if found.is_split(graph) and not self.direct:
            raise UsageError(
                f"direct must be True for {self.name}, because its ranks store columns and no rank has a whole row"
            )
        if found.is_split(graph) and self.exchange is None:
            raise UsageError(
                f"{self.name} must have an exchange, because a rank stores only columns {found.columns[0]} to "
                f"{found.columns[1]} of {graph.num_features}; P3 uses a3gnn.hitgnn.algorithms.p3.PartialSums"
            )
        return found

    def identity(self, graph: Graph, parts: NDArray[np.int32], ranks: int) -> dict[str, Any]:
        """Returns the values, by name as JSON types, that must be equal for a run to continue bit-identically.

        Stored rows do not change results. Stored columns do: they decide the order in which partial sums are added.
        """
        digest = hashlib.blake2b(parts[graph.train_ids].tobytes(), digest_size=8).hexdigest()
        known = {"algorithm": self.name, "parts": digest, "balanced": self.balanced}
        if self.exchange is None:
            return known
        return known | {"columns": [list(self.stored(graph, parts, rank, ranks).columns) for rank in range(ranks)]}

    def joined(self, ranks: TorchRanks) -> RankOf:
        """Returns this process's role in a training run of `ranks` by the algorithm."""
        return RankOf(self, ranks)


class RankOf(Together):
    """See `Together`: each rank trains mini-batches of its own, and reads features it lacks from host memory."""

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
        balanced, size = self._algorithm.balanced, config.batch_size
        self._iterations = Iterations(graph.train_ids, self._parts, self.count, size, task.seed, balanced=balanced)
        kind: Callable[..., RankTrainer] = RankTrainer
        if make is not None:
            kind = partial(ExchangingTrainer, exchange=lambda learner: make(learner, self._ranks, own, self._features))
        return kind(
            graph,
            config,
            task,
            options,
            iterations=self._iterations,
            features=self._features,
            member=self.member,
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


def check_config(config: TrainConfig, algorithm: Algorithm) -> None:
    """Checks that `config` sets no knob against the algorithm.

    Raises:
        UsageError: A knob has another value than the algorithm requires.
    """
    for name, value, reason in (*_FIXED, *_fixed_by(algorithm)):
        found = getattr(config, name)
        if found != value:
            raise UsageError(
                f"{name} must be {value} with algorithm {algorithm.name}, got {found}, because {reason}; a tune with "
                f"{option('fix')} {name}={value} chooses such a configuration"
            )


def _fixed_by(algorithm: Algorithm) -> Iterator[tuple[str, Any, str]]:
    if algorithm.exchange is not None:
        yield "compute_dtype", "float32", "ranks exchange values of the weights' type"
    if not algorithm.direct:
        yield "parallel_mode", "sequential", "ranks send each other rows in the order of mini-batches"
