"""One training run: mini-batches in, weights and their quality out.

with Trainer(graph, config, task) as trainer:
    for step in trainer.steps(epoch=0): ...  # trains; yields a `Step` after each whole mini-batch
    trainer.validate()                       # quality on validation nodes by the task's metric, full neighbours
    trainer.test()                           # quality on test nodes, likewise: once, at the end

`steps` is what a profiler times: the device has been waited for when a step is yielded. Leaving its loop early is fine;
`steps(epoch, start=n)` goes on at mini-batch `n`. `fit` runs whole epochs, `curve` a learning curve.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, Self

import torch
from torch import nn

from a3gnn.config import TrainConfig
from a3gnn.evaluation.evaluate import metric_of
from a3gnn.evaluation.inference import Scratch
from a3gnn.graphs.graph import Graph
from a3gnn.metric import Metric
from a3gnn.models.adam import Optimizer
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.upload import checked_device, gpus_of
from a3gnn.process.memory_guard import MemoryGuard
from a3gnn.ranks.joined_step import JoinedStep, check_member
from a3gnn.ranks.peers import Member
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.task import Task
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.learner import Learner, LearningRate, Replica, checked_loss
from a3gnn.training.own_learner import Own
from a3gnn.training.step import EpochWork, Step, step_of


class Stateful(Protocol):
    """Something that training changes, and that a resumed run goes on with."""

    def state_dict(self) -> dict[str, Any]:
        """Returns it as plain values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainerOptions:
    """What a `Trainer` may be given beside what decides what it learns.

    Attributes:
        scratch: Folder for what evaluation writes, on a disk; by default in the cache folder.
        host_memory_limit: Bytes of memory that can't be reclaimed; None for no limit.
        evaluation_bytes: Of a model of the user's, at a time; None for an eighth of memory. Others need tens of MiB.
        on_chunk: Called before each chunk of nodes that is evaluated; what it raises ends the evaluation there.
        should_stop: Asked at each mini-batch that other processes train shares of: all stop after it where one of them
            should.
    """

    scratch: str | Path | None = None
    host_memory_limit: int | None = None
    evaluation_bytes: int | None = None
    on_chunk: Callable[[], None] = lambda: None
    should_stop: Callable[[], bool] = lambda: False


class Trainer:
    """A model, its optimiser and the pipeline that feeds them; a context manager.

    Every random decision derives from the task's seed and from the mini-batch's epoch and index, never from what ran
    before: on the CPU a run that goes on from its saved state continues bit-identically (but where measured times
    choose: with `resources` auto, or where a `division` changes).

    Args:
        graph: What is trained on.
        config: How.
        task: What.
        options: Its scratch folder, its limits, and who may stop it.
        device: Where the model is: cpu or cuda.
        member: Which share of each mini-batch is trained here, and who trains the others; None trains all of it here.

    Attributes:
        graph: As given.
        config: As given.
        task: As given.
        memory: The guard that knows the peak.
        batches_per_epoch: Mini-batches of an epoch.
        gpus: Devices that train here, by torch's numbers.
        division: Of mini-batches, or how they are prepared, where that changes while training runs.

    Raises:
        DeviceError: A device is asked for that is not there.
        ModelError: A model of the user's can't be built, or is not the one that the task says.
        ConfigError: The input layer is to read a table that its model has none of, or that is too large.
        GraphError: The table is damaged, or can't be written.
    """

    division: Stateful | None = None

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        options: TrainerOptions = TrainerOptions(),
        *,
        device: str = "cpu",
        member: Member | None = None,
    ) -> None:
        check_member(member, config, task)
        self.graph, self.config, self.task, self._member, self._options = graph, config, task, member, options
        self._device = torch.device(checked_device(device))
        self.gpus = gpus_of([self._device])
        self._scratch = Scratch(None if options.scratch is None else Path(options.scratch))
        self.memory = MemoryGuard(options.host_memory_limit)
        self._learner = learner = self._learner_of()
        joined = None
        if member is not None:
            joined = JoinedStep(learner.model, member.peers, self.memory, options.should_stop)
        self._pipeline = self._open_pipeline(
            PipelineOptions(
                seed=task.seed,
                device=device,
                aggregator=learner.aggregator,
                table=learner.rows,
                dtype=learner.dtype,
                shares=None if member is None else member.shares,
            )
        )
        self.batches_per_epoch = self._pipeline.num_batches
        self._rates = LearningRate.of(task, config, self.batches_per_epoch)
        self._replica = Replica(self._learner, self._rates, self.batches_per_epoch, joined)

    def __enter__(self) -> Self:
        self.memory.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._pipeline.close()
        self.memory.__exit__(*error)

    @property
    def model(self) -> nn.Module:
        """The model."""
        return self._replica.learner.model

    @property
    def optimizer(self) -> Optimizer:
        """Adam, or what a model of the user's makes."""
        return self._replica.optimizer

    @property
    def cache_bytes(self) -> int:
        """What the feature cache really takes now."""
        return self._pipeline.store.cache_bytes

    @property
    def trying_batches(self) -> int:
        """Mini-batches that are yet to be trained before `resources: auto` has given the stages what it finds."""
        isolation = self._pipeline.isolation
        return 0 if isolation is None else isolation.batches_left_to_profile

    @property
    def choices(self) -> list[str]:
        """What `auto` has chosen so far for the cache and for the stages' cores, and why: a sentence each."""
        isolation, reason = self._pipeline.isolation, self._pipeline.store.stats.reason
        allocation = None if isolation is None else isolation.allocation
        cores = [] if allocation is None else [f"resources: {allocation.why}"]
        return [*([f"cache {reason}"] if reason else []), *cores]

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from mini-batch `start` on, and yields after each one.

        Raises:
            MemoryLimitError: The limit was passed; the mini-batch before has been trained on.
            KeyboardInterrupt: Someone who trains shares of the same mini-batches should stop, likewise.
            PeerLostError: One of them has ended; weights and optimiser are those after the mini-batch before.
            A3GNNError: The loss is not finite.
        """
        self.model.train()
        joined = self._replica.joined
        with closing(self._pipeline.epoch(epoch, start)) as batches:  # type: ignore[type-var]
            for batch in batches:
                yield self._train(batch)
                self.memory.check() if joined is None else joined.check()

    def starts(self, epoch: int) -> set[int]:
        """Returns the indices of the mini-batches that begin `epoch` or a part in it."""
        plan = self._pipeline.plan(epoch)
        return {0} | {batch.index for before, batch in pairwise(plan) if before.part != batch.part}

    def first_samples(self, count: int) -> list[Subgraph]:
        """Returns what the first `count` mini-batches sample, or all of an epoch's; nothing is trained."""
        return self._pipeline.first_samples(count)

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph` in bytes moved, as `validation_cost` is counted."""
        return self._learner.cost(subgraph)

    def ready_to_save(self) -> bool:
        """Returns whether `model` and `optimizer` are as of the last mini-batch: here always."""
        return True

    def restart(self) -> None:
        """Gives the model the weights that the seed decides, and the optimiser no memory: as before any mini-batch."""
        self._learner.restart()
        self._replica.optimizer = self._learner.fresh_optimizer()

    def validate(self) -> float:
        """Returns the model's quality on validation nodes, from all neighbours, or as `evaluation` says.

        Raises:
            MemoryLimitError: The limit was passed.
            A3GNNError: An output is not a number.
        """
        return self._within_limit(self._learner.validate())

    def test(self) -> float:
        """Returns the model's quality on test nodes, likewise."""
        return self._within_limit(self._learner.test())

    def _within_limit(self, quality: float) -> float:
        """Returns `quality` unless its evaluation passed the limit; ranks tell each other at their next mini-batch."""
        if self._replica.joined is None:
            self.memory.check()
        return quality

    @property
    def trainers(self) -> dict[str, Any] | None:
        """Of several trainers of this process, what a result says of them; None of this one alone."""
        return None

    def over_ranks(self, work: EpochWork) -> EpochWork:
        """Returns the sum of all ranks' `work`; every rank calls it."""
        return work.over(None if self._member is None else self._member.ranks)

    @property
    def metric(self) -> Metric:
        """By what the model is judged."""
        return metric_of(self.task, self.graph)

    @property
    def evaluation(self) -> str:
        """From what the quality is computed, for people."""
        return self._learner.evaluation

    @property
    def validation_cost(self) -> float:
        """The cost of `validate` in bytes moved: by shapes alone."""
        return self._learner.validation_cost

    def check_sources(self) -> None:
        """Does nothing where all files that the model depends on are known to keys.

        Raises:
            ModelError: One is not; the message names it.
        """
        self._learner.check()

    def _open_pipeline(self, options: PipelineOptions) -> Pipeline:
        return Pipeline(self.graph, self.config, self.config.fanouts(self.task), options)

    def _learner_of(self) -> Learner:
        given, on_chunk = (self.graph, self.config, self.task), self._options.on_chunk
        if self.task.is_own:
            evaluation_bytes = self._options.evaluation_bytes
            return Own(*given, device=self._device, evaluation_bytes=evaluation_bytes, on_chunk=on_chunk)
        ranks, scratch = None if self._member is None else self._member.ranks, self._scratch
        return BuiltIn(*given, device=self._device, scratch=scratch, on_chunk=on_chunk, ranks=ranks)

    def _train(self, batch: MiniBatch) -> Step:
        begin = perf_counter()
        loss = self._replica.gradients(batch)
        self._replica.update(batch)
        value = checked_loss(loss.item(), batch)  # waits for the device
        return step_of(batch, value, perf_counter() - begin)
