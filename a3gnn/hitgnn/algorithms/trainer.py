"""`RankTrainer` and `RankPipeline`: one rank of a synchronous algorithm, and the mini-batches that it trains.

In each iteration, each rank trains a mini-batch of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from contextlib import closing
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.features.store import FeatureStore
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.iterations import Iterations
from a3gnn.hitgnn.algorithms.rank_store import RelayedStore
from a3gnn.models.loss import loss_weight
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions, open_sampler
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.ranks.peers import Member
from a3gnn.sampling.share import cut
from a3gnn.sampling.subgraph import AnySampler, Subgraph
from a3gnn.task import Task
from a3gnn.training.learner import checked_loss
from a3gnn.training.step import Step, Traffic, step_of
from a3gnn.training.trainer import Trainer, TrainerOptions

#: Counts of a mini-batch that ranks exchange. Each is sent as two numbers, below 2^20 and above, exact in float32.
_TOLD = ("rows", "hits", "host_bytes", "activation_bytes", "structure_bytes")
_LOW = 1 << 20


class RankPipeline(Pipeline):
    """A `Pipeline` of one rank's mini-batch of each iteration, sampled in the whole graph."""

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        fanouts: Sequence[int],
        options: PipelineOptions,
        *,
        iterations: Iterations,
        rank: int,
        features: FeatureStore,
    ) -> None:
        self._iterations, self._rank, self._features = iterations, rank, features
        super().__init__(graph, config, fanouts, options)
        self.num_batches = len(iterations)

    def plan(self, epoch: int) -> list[PlannedBatch]:
        """Returns this rank's mini-batch in each iteration of `epoch`; without seeds if the rank is idle."""
        return [planned[self._rank] for planned in self._iterations.of(epoch)]

    def first_samples(self, count: int) -> list[Subgraph]:
        """Returns the samples of the first `count` mini-batches of all ranks; the same on every rank."""
        busy = [one for planned in self._iterations.of(0) for one in planned if len(one.seeds)]
        return [self._stages.sample(0, planned).subgraph for planned in busy[:count]]

    def _open_sources(
        self, graph: Graph, adjacency: tuple[NDArray[np.int64], NDArray[np.int32]]
    ) -> tuple[FeatureStore, AnySampler]:
        none_cached = np.empty(0, dtype=np.int32)
        edges = Edges(indptr=adjacency[0], indices=adjacency[1])
        sampler = open_sampler(edges, self._fanouts, self._config, self._options, none_cached)
        return self._features, _KeepingStep(sampler, self._seeds[:1])


class RankTrainer(Trainer):
    """A `Trainer` of one rank: in each iteration every rank trains one mini-batch, and gradients are averaged by seeds.

    Each mini-batch is sampled in the whole graph. Its dropout and degrees are those of one process that trains it
    alone. Batch norms normalize over all mini-batches of an iteration. Weights stay equal on all ranks, bit for bit. A
    rank without a mini-batch keeps step at weight 0, as ranks without seeds do. The configuration's `batch_size` counts
    the seeds of one rank's mini-batch.

    Attributes:
        batches_per_epoch: Iterations per epoch.
    """

    #: Whether to gather the whole `model` after the iteration, if ranks train parts of it.
    _wants_whole = False

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        options: TrainerOptions = TrainerOptions(),
        *,
        iterations: Iterations,
        features: FeatureStore,
        member: Member,
        device: str = "cpu",
    ) -> None:
        assert member.ranks is not None, "ranks train by algorithms"
        if task.edge_dim:
            raise ConfigError(
                f"an algorithm exchanges no values of edges, so {task.model} can't read {task.edge_value} with one; "
                f"delete {task.edge_value} from the graph, or train without an algorithm"
            )
        self._iterations, self._features, self._ranks = iterations, features, member.ranks
        self._loss_weight = loss_weight(graph, task)
        super().__init__(graph, config, task, options, device=device, member=member)
        assert self._replica.joined is not None, "there are several"
        self._joined = self._replica.joined
        self._joined.counts = torch.zeros(2 * len(_TOLD) * member.ranks.size + 1, dtype=torch.float64)

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from iteration `start` on, and yields after each one; see `Trainer.steps`."""
        self.model.train()
        planned = self._iterations.of(epoch)
        with closing(self._pipeline.epoch(epoch, start)) as batches:  # type: ignore[type-var]
            for iteration, batch in enumerate(batches, start):
                yield self._train_iteration(iteration, planned[iteration], batch)
                self._check()

    def _open_pipeline(self, options: PipelineOptions) -> Pipeline:
        return RankPipeline(
            self.graph,
            self.config,
            self.config.fanouts(self.task),
            dataclasses.replace(options, shares=None),
            iterations=self._iterations,
            rank=self._ranks.rank,
            features=self._features,
        )

    def _train_iteration(self, iteration: int, planned: list[PlannedBatch], batch: MiniBatch) -> Step:
        begin, part = perf_counter(), self._part(planned)
        self._replica.optimizer.zero_grad(set_to_none=True)
        own_loss = self._joined.propagate(batch, lambda own: self._replica.learner.loss(own) * part)
        self._tell(batch)
        loss = self._joined.exchange(own_loss)
        numbered = dataclasses.replace(batch, index=iteration)
        self._update(numbered)
        value = checked_loss(loss.item(), numbered)
        step = step_of(batch, value, perf_counter() - begin)
        seeds = [len(one.seeds) for one in planned]
        return dataclasses.replace(step, index=iteration, seeds=sum(seeds), traffic=self._traffic(iteration, seeds))

    def _update(self, batch: MiniBatch) -> None:
        """Runs the optimizer's step; `batch.index` is the number of the iteration."""
        self._replica.update(batch)

    def _part(self, planned: list[PlannedBatch]) -> float:
        """Returns the weight of this rank's mean loss in the mean over all seeds of the iteration."""
        labels = np.asarray(self.graph.labels)
        weights = [self._loss_weight(labels[one.seeds]) for one in planned]
        return weights[self._ranks.rank] / sum(weights)

    def _tell(self, batch: MiniBatch) -> None:
        """Sets this rank's counts and whether it wants the whole model; all ranks get them with the gradients' sum."""
        self._joined.counts.zero_()
        self._counts[self._ranks.rank] = torch.tensor([(count % _LOW, count // _LOW) for count in self._read(batch)])
        self._joined.counts[-1] = self._wants_whole

    def _read(self, batch: MiniBatch) -> list[int]:
        """Returns this rank's counts for the iteration, in the order of `_TOLD`."""
        rows, hits = batch.subgraph.num_nodes, batch.hits
        passed = rows - hits
        if isinstance(self._features, RelayedStore):
            passed += self._features.relayed(batch.subgraph.n_id)
        return [rows, hits, passed * self._features.row_bytes, 0, 0]

    @property
    def _counts(self) -> Tensor:
        """The counts of all ranks, as a view, float64, shape (ranks, len(_TOLD), 2)."""
        return self._joined.counts[:-1].view(self._ranks.size, len(_TOLD), 2)

    def _check(self) -> None:
        """Raises if all ranks should stop after the last iteration; see `JoinedStep.check`."""
        self._joined.check()

    def _traffic(self, iteration: int, seeds: list[int]) -> tuple[Traffic, ...]:
        """Returns the traffic of each rank, from the exchanged counts."""
        pairs = self._counts.to(torch.int64)
        counts = (pairs[..., 0] + _LOW * pairs[..., 1]).tolist()
        moved = self._iterations.schedule.moved[iteration].tolist()
        both_ways = 2 * self._joined.gradient_bytes
        return tuple(
            Traffic(int(own > 0), int(away), own, gradient_bytes=both_ways, **dict(zip(_TOLD, of_rank, strict=True)))
            for own, away, of_rank in zip(seeds, moved, counts, strict=True)
        )


class _KeepingStep:
    """Wraps a sampler; a mini-batch without seeds gets the sample of a stand-in node, cut to a share without seeds.

    Idle ranks thus keep step at weight 0 (`a3gnn.sampling.share.cut`).
    """

    def __init__(self, sampler: AnySampler, stand_in: NDArray[np.int32]) -> None:
        self._sample = sampler.sample
        self._stand_in = stand_in

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood of `seeds`, or the stand-in's."""
        if len(seeds):
            return self._sample(seeds, epoch, batch)
        return cut(self._sample(self._stand_in, epoch, batch), 0, 0)
