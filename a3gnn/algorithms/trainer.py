"""`RankTrainer`: one rank of a synchronous algorithm, which trains a mini-batch of its own in each iteration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import closing
from time import perf_counter
from typing import Any

import numpy as np
import torch

from a3gnn.algorithms.exchange import Exchange, Exchanged
from a3gnn.algorithms.iterations import Iterations
from a3gnn.algorithms.rank_pipeline import RankPipeline
from a3gnn.algorithms.relayed_store import RelayedStore
from a3gnn.config import TrainConfig
from a3gnn.features.stores.store import FeatureStore
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.pipeline import Pipeline
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.task import Task
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.loss import loss_weight
from a3gnn.training.peers import Member
from a3gnn.training.replica import checked_loss
from a3gnn.training.step import Step, step_of
from a3gnn.training.traffic import Traffic
from a3gnn.training.trainer import Trainer

#: What ranks tell each other of a mini-batch; each number as two, below 2^20 and above, which float32 has exactly.
_TOLD = ("rows", "hits", "host_bytes", "activation_bytes", "structure_bytes")
_LOW = 1 << 20


class RankTrainer(Trainer):
    """See `Trainer`. In each iteration every rank trains one mini-batch, and gradients are averaged by their seeds.

    A mini-batch is sampled in the whole graph and stands for itself: what is dropped, and degrees, are those of one
    process that trains it alone. Batch norms normalise by all mini-batches of an iteration. Weights stay equal on all
    ranks, bit for bit. A rank without a mini-batch keeps step at weight 0, as ranks without seeds do.

    Args:
        graph: What is trained on.
        config: How; `batch_size` is of each rank's mini-batch.
        task: What.
        iterations: Which mini-batches.
        features: The rank's.
        exchange: Makes, of the rank's learner, what computes logits together with the other ranks; None for none.
        member: Who this rank is, and who the others are.
        options: Further ones of `Trainer`.

    Attributes:
        batches_per_epoch: Iterations of an epoch.
    """

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        *,
        iterations: Iterations,
        features: FeatureStore,
        exchange: Callable[[BuiltIn], Exchange] | None,
        member: Member,
        **options: Any,
    ) -> None:
        assert member.ranks is not None, "ranks train by algorithms"
        self._iterations, self._features, self._ranks = iterations, features, member.ranks
        self._exchange: Exchange | None = None
        self._has_exchange = exchange is not None
        self._loss_weight = loss_weight(graph, task)
        super().__init__(graph, config, task, member=member, **options)
        assert self._replica.joined is not None, "there are several"
        self._joined = self._replica.joined
        self._joined.counts = torch.zeros(member.ranks.size, len(_TOLD), 2, dtype=torch.float64).flatten()
        if exchange is not None:
            assert isinstance(self._learner, BuiltIn), "shares and algorithms are of built-in models"
            self._exchange = exchange(self._learner)
            self._learner.logits = self._exchange.logits

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from iteration `start` on, and yields after each one; see `Trainer.steps`."""
        self.model.train()
        planned = self._iterations.of(epoch)
        with closing(self._pipeline.epoch(epoch, start)) as batches:  # type: ignore[type-var]
            for iteration, batch in enumerate(batches, start):
                yield self._train_iteration(iteration, planned[iteration], batch)
                self._joined.check()

    def _open_pipeline(self, *given: Any, **options: Any) -> Pipeline:
        options["shares"] = None
        if self._has_exchange:
            options["aggregator"] = None  # which the exchange computes
        return RankPipeline(
            *given, iterations=self._iterations, rank=self._ranks.rank, features=self._features, **options
        )

    def _train_iteration(self, iteration: int, planned: list[PlannedBatch], batch: MiniBatch) -> Step:
        begin, part = perf_counter(), self._part(planned)
        before = None if self._exchange is None else self._exchange.exchanged
        self._replica.optimizer.zero_grad(set_to_none=True)
        own_loss = self._joined.propagate(batch, lambda own: self._replica.learner.loss(own) * part)
        if self._exchange is not None:
            self._exchange.finish()
        self._tell(batch, before)
        loss = self._joined.exchange(own_loss)
        self._replica.update(dataclasses.replace(batch, index=iteration))
        value = checked_loss(loss.item(), batch)
        step = step_of(batch, value, perf_counter() - begin)
        seeds = [len(one.seeds) for one in planned]
        return dataclasses.replace(step, index=iteration, seeds=sum(seeds), traffic=self._traffic(iteration, seeds))

    def _part(self, planned: list[PlannedBatch]) -> float:
        """Returns what this rank's mean loss weighs in that of all seeds of the iteration."""
        labels = np.asarray(self.graph.labels)
        weights = [self._loss_weight(labels[one.seeds]) for one in planned]
        return weights[self._ranks.rank] / sum(weights)

    def _tell(self, batch: MiniBatch, before: Exchanged | None) -> None:
        """Sets this rank's counts, which the sum of gradients takes to all; `before` is what had been exchanged."""
        rows, hits = batch.subgraph.num_nodes, batch.hits
        passed = rows - hits
        if isinstance(self._features, RelayedStore):
            passed += self._features.relayed(batch.subgraph.n_id)
        found = [rows, hits, passed * self._features.row_bytes, 0, 0]
        if self._exchange is not None and before is not None:
            others, *found[3:] = (now - then for now, then in zip(self._exchange.exchanged, before, strict=True))
            found[:2] = others, others  # a rank has its columns of every row
        self._joined.counts.zero_()
        told = self._joined.counts.view(self._ranks.size, len(_TOLD), 2)[self._ranks.rank]
        told.copy_(torch.tensor([(count % _LOW, count // _LOW) for count in found]))

    def _traffic(self, iteration: int, seeds: list[int]) -> tuple[Traffic, ...]:
        """Returns what each rank read and sent, as all have told."""
        pairs = self._joined.counts.view(self._ranks.size, len(_TOLD), 2).to(torch.int64)
        counts = (pairs[..., 0] + _LOW * pairs[..., 1]).tolist()
        moved = self._iterations.schedule.moved[iteration].tolist()
        sent = sum(weight.grad.nbytes for weight in self.model.parameters() if weight.grad is not None)
        return tuple(
            Traffic(int(own > 0), int(away), own, gradient_bytes=2 * sent, **dict(zip(_TOLD, of_rank, strict=True)))
            for own, away, of_rank in zip(seeds, moved, counts, strict=True)
        )
