"""`Trainer`: trains a model on mini-batches, and evaluates it.

with Trainer(graph, config, task) as trainer:
    for step in trainer.steps(epoch=0): ...  # trains; yields a `Step` after each whole mini-batch
    trainer.validate()                       # quality on validation nodes by the task's metric, from all neighbors
    trainer.test()                           # quality on test nodes by the same metric: once, at the end

Profilers time `steps`: it waits for the device before it yields a step. Callers may leave its loop early;
`steps(epoch, start=n)` continues at mini-batch `n`. `fit` runs whole epochs, `curve` a learning curve.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, Self

import torch
from torch import nn

from a3gnn.config import AHEAD, TrainConfig, check_whole
from a3gnn.errors import UsageError
from a3gnn.evaluation.evaluate import metric_of
from a3gnn.evaluation.inference import Scratch
from a3gnn.evaluation.references import references, row_references
from a3gnn.graphs.graph import Graph
from a3gnn.knobs import ALL
from a3gnn.metric import Metric
from a3gnn.models.adam import Optimizer
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pairs import PairSeeds
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions, checked_device
from a3gnn.process.memory_guard import MemoryGuard, host_bytes
from a3gnn.ranks.joined_step import JoinedStep, check_member
from a3gnn.ranks.peers import Member
from a3gnn.sampling.link_history import LinkHistory
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.storage.host_limits import evaluation_bytes
from a3gnn.task import NegativeDraws, Task
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.learner import Learner, LearningRate, Replica, checked_loss
from a3gnn.training.own_learner import EdgeLearner, EventLearner, LinkLearner, Own
from a3gnn.training.step import EpochWork, Step, step_of


class Stateful(Protocol):
    """State that training changes, and that checkpoints save for a resumed run."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as plain values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `state_dict` returned."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainerOptions:
    """Options of a `Trainer` that do not influence the trained weights.

    Attributes:
        scratch: Folder for files that evaluation writes, on a disk; by default in the cache folder.
        host_memory_limit: Maximum bytes of memory that can't be reclaimed; None for no limit.
        evaluation_bytes: Memory of one evaluation pass of a user's model; None for an eighth of the machine's memory.
            Built-in models need tens of MiB.
        on_chunk: Called before each chunk of nodes that is evaluated; an exception that it raises ends the evaluation.
        should_stop: Called at each mini-batch, if other processes train shares of it. If it returns True in one
            process, all stop after this mini-batch.
    """

    scratch: str | Path | None = None
    host_memory_limit: int | None = None
    evaluation_bytes: int | None = None
    on_chunk: Callable[[], None] = lambda: None
    should_stop: Callable[[], bool] = lambda: False


class Trainer:
    """A model, its optimizer and the pipeline that feeds them; a context manager.

    Every random decision depends only on the task's seed and the mini-batch's epoch and index. On the CPU, a resumed
    run therefore continues bit-identically, unless measured times decide something (`resources` auto, or a `division`
    that changes).

    Args:
        graph: Provides features, labels and splits.
        config: How to train; influences speed, memory and accuracy.
        task: Model, metric, seed and hyperparameters.
        options: Scratch folder, limits, and callbacks.
        device: Where the model is: cpu or cuda.
        member: This process's share of each mini-batch, and the peers that train the others. None trains whole
            mini-batches.

    Attributes:
        memory: Measures peak memory, and checks the limit.
        batches_per_epoch: Mini-batches per epoch.
        gpus: Indices of the GPUs that train here, as in torch.
        division: How mini-batches are divided, or how much is cached, if this changes during training.

    Raises:
        DeviceError: A requested device does not exist.
        ModelError: A user's model can't be built, or differs from the task's description.
        ConfigError: `input_aggregation` is full, and the model has no table for it or the table is too large; or
            `batch_size` is all, and the whole graph can't be the mini-batch.
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
        typed, parted = graph.types is not None, graph.is_parted
        check_whole(config, task, typed=typed, parted=parted, several=member is not None)
        self.graph, self.config, self.task, self._member, self._options = graph, config, task, member, options
        self._device = torch.device(checked_device(device))
        self.gpus = gpus_of([self._device])
        self._scratch = Scratch(None if options.scratch is None else Path(options.scratch))
        self.memory = MemoryGuard(options.host_memory_limit)
        self._learner = learner = self._learner_of()
        joined = None
        if member is not None:
            joined = JoinedStep(learner.model, member.peers, self.memory, options.should_stop)
        self._pipeline = self._open_pipeline(self._pipeline_options(learner, device))
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
        """Adam, or the optimizer that a user's model makes."""
        return self._replica.optimizer

    @property
    def cache_bytes(self) -> int:
        """The current size of the feature cache."""
        return self._pipeline.store.cache_bytes

    @property
    def disk_reads(self) -> dict[str, int] | None:
        """Bytes that the cache policy ahead `read` from the disk, and bytes of the rows `used`; None otherwise."""
        store = self._pipeline.store
        stats = store.stats
        if stats.policy != AHEAD:
            return None
        return {"read": stats.read_bytes, "used": (stats.hits + stats.misses) * store.row_bytes}

    @property
    def trying_batches(self) -> int:
        """Mini-batches left to train until `resources: auto` has assigned cores to the stages."""
        isolation = self._pipeline.isolation
        return 0 if isolation is None else isolation.batches_left_to_profile

    @property
    def choices(self) -> list[str]:
        """What was chosen so far while training runs, with reasons: here the stages' cores by `resources: auto`."""
        isolation = self._pipeline.isolation
        allocation = None if isolation is None else isolation.allocation
        return [] if allocation is None else [f"resources: {allocation.why}"]

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from mini-batch `start` on, and yields after each one.

        Raises:
            MemoryLimitError: Memory exceeded the limit; the last yielded mini-batch has been trained.
            KeyboardInterrupt: A process that trains other shares should stop; the last yielded one has been trained.
            PeerLostError: Such a process has ended; weights and optimizer are as after the last yielded mini-batch.
            A3GNNError: The loss is not finite.
        """
        self.model.train()
        joined = self._replica.joined
        with closing(self._pipeline.epoch(epoch, start)) as batches:  # type: ignore[type-var]
            for batch in batches:
                yield self._train(batch)
                self.memory.check() if joined is None else joined.check()

    def starts(self, epoch: int) -> set[int]:
        """Returns the indices of mini-batches at the begin of `epoch` or of a part in it."""
        plan = self._pipeline.plan(epoch)
        return {0} | {batch.index for before, batch in pairwise(plan) if before.part != batch.part}

    def first_samples(self, count: int) -> list[Subgraph]:
        """Returns the samples of the first `count` mini-batches, or of a whole epoch if shorter, without training."""
        return self._pipeline.first_samples(count)

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph` in bytes moved, comparable with `validation_cost`."""
        return self._learner.cost(subgraph)

    def ready_to_save(self) -> bool:
        """Returns whether `model` and `optimizer` are up to date with the last mini-batch; here always True."""
        return True

    def restart(self) -> None:
        """Resets the model to its initial weights, which the seed decides, and the optimizer to an empty state."""
        self._learner.restart()
        self._replica.optimizer = self._learner.fresh_optimizer()

    def validate(self) -> float:
        """Returns the model's quality on validation nodes; `evaluation` says which neighbors it uses.

        Raises:
            MemoryLimitError: Memory exceeded the limit.
            A3GNNError: An output is not a number.
        """
        return self._within_limit(self._learner.validate())

    def test(self) -> float:
        """Returns the model's quality on test nodes; see `validate`."""
        return self._within_limit(self._learner.test())

    def rehearse_test(self) -> None:
        """Takes the memory of `test`, whose result nobody needs; of very many test nodes it evaluates a sample."""
        if not (isinstance(self._learner, BuiltIn) and self._learner.rehearse_test()):
            self.test()

    def _within_limit(self, quality: float) -> float:
        """Returns `quality` unless memory exceeded the limit; ranks check this together at their next mini-batch."""
        if self._replica.joined is None:
            self.memory.check()
        return quality

    @property
    def trainers(self) -> dict[str, Any] | None:
        """The entry about several trainers of this process in a result; None for one trainer."""
        return None

    def over_ranks(self, work: EpochWork) -> EpochWork:
        """Returns the sum of all ranks' `work`; every rank calls it."""
        return work.over(None if self._member is None else self._member.ranks)

    @property
    def metric(self) -> Metric:
        """The metric of `validate` and `test`."""
        return metric_of(self.task, self.graph)

    @property
    def heuristics(self) -> dict[str, float]:
        """The qualities on test examples of predictions without a model, by name, within the memory limit."""
        return references("test", self.graph, self.task, self._spare_bytes)

    def row_references(self, seconds: float, notify: Callable[[str], None]) -> dict[str, dict[str, float]]:
        """Returns the qualities of models without a graph network, within the memory limit (`row_references`)."""
        return row_references(self.graph, self.task, self._spare_bytes, seconds, notify)

    @property
    def _spare_bytes(self) -> int:
        """Bytes that predictions without a network may take."""
        limit, budget = self.memory.limit, evaluation_bytes(self.memory.limit)
        return budget if limit is None else min(budget, limit - host_bytes())

    @property
    def evaluation(self) -> str:
        """Which neighbors `validate` and `test` use, as text for people."""
        return self._learner.evaluation

    @property
    def validation_cost(self) -> float:
        """The cost of `validate` in bytes moved, computed from shapes alone."""
        return self._learner.validation_cost

    def check_sources(self) -> None:
        """Checks that keys cover all files that the model depends on.

        Raises:
            ModelError: A file is missing from the keys; the message names it.
        """
        self._learner.check()

    def _open_pipeline(self, options: PipelineOptions) -> Pipeline:
        return Pipeline(self.graph, self.config, self.config.fanouts(self.task), options)

    def _pipeline_options(self, learner: Learner, device: str) -> PipelineOptions:
        graph, member = self.graph, self._member
        times = graph.links is not None and graph.links.ranks is not None  # links come in their order
        placed = times or bool(learner.edge_values)
        return PipelineOptions(
            edges=None if graph.types is None else graph.placed_edges if placed else graph.edges,
            disjoint=times,
            last=times,
            shuffle=not times,
            features=None if graph.types is None else graph.types.features,
            pairs=self._pairs(),
            seed=self.task.seed,
            device=device,
            aggregator=None if self.config.batch_size == ALL else learner.aggregator,
            rows=learner.layer_rows if isinstance(learner, BuiltIn) else None,
            table=learner.rows,
            dtype=learner.dtype,
            shares=None if member is None else member.shares,
            edge_values={name: graph.edge_values[name] for name in learner.edge_values},
        )

    def _pairs(self) -> PairSeeds | None:
        """Returns what makes seeds of links; None if nodes are predicted."""
        graph, task = self.graph, self.task
        if graph.types is None or graph.links is None:
            return None
        if self._member is not None:
            raise UsageError("links are trained by one process, got several; leave out ranks")
        draws = None if graph.links.valued else NegativeDraws.of(task.negatives)
        hides = task.own_links == "hidden" and graph.links.ranks is None
        history = LinkHistory.read_by(task, graph.links)
        seed = task.seed
        return PairSeeds(graph.links, graph.types.schema, graph.train_ids, draws, seed, hides=hides, history=history)

    def _learner_of(self) -> Learner:
        given, on_chunk, links = (self.graph, self.config, self.task), self._options.on_chunk, self.graph.links
        if self.task.is_own:
            evaluation_bytes = self._options.evaluation_bytes
            kind = Own if links is None else EdgeLearner if links.valued else LinkLearner
            if links is not None and links.ranks is not None:
                kind = EventLearner
            return kind(*given, device=self._device, evaluation_bytes=evaluation_bytes, on_chunk=on_chunk)
        ranks, scratch = None if self._member is None else self._member.ranks, self._scratch
        return BuiltIn(*given, device=self._device, scratch=scratch, on_chunk=on_chunk, ranks=ranks)

    def _train(self, batch: MiniBatch) -> Step:
        begin = perf_counter()
        loss = self._replica.gradients(batch)
        self._replica.update(batch)
        value = checked_loss(loss.item(), batch)  # waits for the device
        return step_of(batch, value, perf_counter() - begin)


def gpus_of(devices: Iterable[torch.device]) -> tuple[int, ...]:
    """Returns torch's indices of the GPUs among `devices`."""
    return tuple(device.index or 0 for device in devices if device.type == "cuda")
