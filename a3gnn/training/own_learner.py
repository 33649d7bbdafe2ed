"""`Own`: the learner of users' models.

Also makes their batch norms use running statistics for a single row in training, as built-in models do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, ModelError
from a3gnn.evaluation.event_evaluator import EventEvaluator
from a3gnn.evaluation.input_table import FullTable, full_table
from a3gnn.evaluation.link_evaluator import EdgeEvaluator, LinkEvaluator
from a3gnn.evaluation.own_evaluator import OwnEvaluator
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import target_of
from a3gnn.models.adam import Optimizer
from a3gnn.models.decoders import taken
from a3gnn.models.links import LinkModel
from a3gnn.models.loss import Loss, loss_of
from a3gnn.models.own.ages import edge_ages, with_ages
from a3gnn.models.own.factory import Factory
from a3gnn.models.own.inputs import Inputs, extent_of, of_batch
from a3gnn.models.own.sources import Sources
from a3gnn.models.own.user_model import UserModel, called, seeded
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.seeding import derive
from a3gnn.storage.host_limits import evaluation_bytes as budget_bytes
from a3gnn.task import OwnModel, Task
from a3gnn.training.own_loop import accelerated
from a3gnn.units import count

#: The begin of torch's error for a single row; the error has no type of its own.
_TORCH_SAYS = "Expected more than 1 value per channel when training"
#: Cost of training relative to a forward pass: the backward pass costs two.
_PASSES = 3


class Own:
    """A `Learner` for a module made by the user's factory, and called as PyG's modules are.

    Args:
        graph: Provides features, labels and splits.
        config: Its `compute_dtype`, `batch_size` and `input_aggregation` are used.
        task: Must describe its model (`a3gnn.training.describe`).
        device: Where the model is.
        evaluation_bytes: Memory of one evaluation pass; None for an eighth of the machine's memory.
        on_chunk: Called before each mini-batch that is evaluated; an exception that it raises ends the evaluation.

    Raises:
        ModelError: The model can't be built, differs from the task's description, or has its own loss besides class
            weights, or its own schedule besides the task's.
        ConfigError: `input_aggregation` is full, and the model reads no table or the table is too large.
    """

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        *,
        device: torch.device,
        evaluation_bytes: int | None,
        on_chunk: Callable[[], None],
    ) -> None:
        self._graph, self._task, self._device, self._on_chunk = graph, task, device, on_chunk
        self._narrow, self._batch_size = config.compute_dtype == "bfloat16", config.batch_size
        self._budget = budget_bytes(None) if evaluation_bytes is None else evaluation_bytes
        self._factory = Factory.of(task.model)
        self._imported = set(sys.modules)
        self._own = UserModel.of(self._factory.name, self._built(), graph.target_type).on(graph.edge_values)
        self._sources = Sources.of(self._factory.module)
        self._known = _checked(task, self._own, self._sources)
        accelerated(self._own)
        if graph.links is None:
            self._own = self._own.with_loss(loss_of(graph, task, device), task.class_weights, target_of(graph.labels))
        if task.lr_schedule != "constant" and getattr(self._own.module, "schedule", None) is not None:
            raise ModelError(
                f"{task.model}: lr_schedule must be constant for a model with its own schedule, got "
                f"{task.lr_schedule}; leave one of the two out"
            )
        self.model = self._own.module.to(device)
        if min(config.batch_size, len(graph.train_ids)) > 1:  # otherwise running statistics are never updated
            take_single_rows(self.model)
        table = self._table(config) if config.input_aggregation == "full" else FullTable()
        #: Autocast reduces the precision of computations, but not of the features that are read, unless from a table.
        self.dtype = table.dtype
        self.aggregator, self.rows, self._degrees = table.aggregator, table.rows, table.degrees
        self._rates: list[float] = []
        self.edge_values = task.edge_values

    #: The class of the evaluator; both have the same arguments, `cost`, `text`, `validate` and `test`.
    _evaluator_kind: type[OwnEvaluator] | type[LinkEvaluator] = OwnEvaluator

    @property
    def evaluation(self) -> str:
        """Which neighbors the evaluation uses, as text."""
        return self._evaluator.text

    def restart(self) -> None:
        """Resets the model to its initial weights, which the seed decides."""
        self.model.load_state_dict(self._built().state_dict())

    def fresh_optimizer(self) -> Optimizer:
        """Returns the model's own optimizer, or Adam, with an empty state."""
        made = self._own.optimizer(self._task.learning_rate, self._task.weight_decay)
        self._rates = [group["lr"] for group in made.param_groups]
        return made

    def set_rate(self, optimizer: Optimizer, rate: float, batch: int, batches_per_epoch: int) -> None:
        """Multiplies each group's own step size by the ratio of `rate` to the task's, and by the model's schedule."""
        factor = rate / self._task.learning_rate * self._own.factor(batch, batches_per_epoch)
        for group, own in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = own * factor

    def loss(self, batch: MiniBatch) -> Tensor:
        """Returns the model's loss for the seeds; seeds torch's generator for the mini-batch meanwhile."""
        inputs = of_batch(batch, self._own.takes, self._degrees, self._graph.types).taken_by(self.model)
        inputs = inputs.to(self._device)
        seed = derive(self._task.seed, "mini-batch", batch.epoch, batch.index)
        with seeded(seed, self._device):
            try:
                with torch.autocast(self._device.type, torch.bfloat16, enabled=self._narrow):
                    outputs = self._outputs(inputs, batch)
            except ValueError as error:
                if is_single_row(error):
                    raise ModelError(self._why_not_single(batch)) from error
                raise
            loss = self._loss_of(outputs, batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise ModelError(f"{self._factory.name}: loss(outputs, labels) must return a scalar tensor, got {loss!r}")
        return loss.reshape(())

    def _outputs(self, inputs: Inputs, batch: MiniBatch) -> Any:
        """Returns what the loss takes, computed in the precision of `compute_dtype`."""
        return self._own.outputs(*inputs, batch.num_seeds, self._graph.num_classes)

    def _loss_of(self, outputs: Any, batch: MiniBatch) -> Any:
        """Returns the mean loss of the seeds, which should be a scalar tensor."""
        return self._own.loss(outputs, batch.y)

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph`, in bytes moved."""
        return _PASSES * self._known.cost.moved(*extent_of(subgraph, self._known.takes))

    @property
    def validation_cost(self) -> float:
        """The cost of `validate` in bytes moved."""
        return self._evaluator.cost

    def validate(self) -> float:
        """Returns the quality on validation nodes, as `evaluation` says."""
        return self._evaluator.validate()

    def test(self) -> float:
        """Returns the quality on test nodes, by the same rule."""
        return self._evaluator.test()

    def check(self) -> None:
        """Checks that the model's sources contain every user file that was imported for it.

        Raises:
            ModelError: A file is missing.
        """
        self._sources.check(self._imported)

    def _why_not_single(self, batch: MiniBatch) -> str:
        """Returns the error text for a norm that can't be trained on a single row of `batch`."""
        return (
            f"{self._factory.name}: a batch norm needs at least 2 rows, got a single row in mini-batch {batch.index} "
            f"of {count(batch.num_seeds, 'seed')} (batch_size {self._batch_size}, "
            f"{count(len(self._graph.train_ids), 'train node')}). Choose another batch_size, more train nodes, a "
            "layer norm, or running statistics (track_running_stats=True)"
        )

    @cached_property
    def _evaluator(self) -> OwnEvaluator | LinkEvaluator:
        return self._evaluator_kind(
            self._graph,
            self._task,
            self._own,
            device=self._device,
            budget_bytes=self._budget,
            on_chunk=self._on_chunk,
        )

    def _built(self) -> torch.nn.Module:
        return self._factory.build_for(self._task, self._graph.in_channels, self._graph.num_classes)

    def _table(self, config: TrainConfig) -> FullTable:
        aggregator = self._task.aggregates
        if aggregator is None:
            raise ConfigError(
                "input_aggregation full needs a model whose input layer reads a table (docs/reference/own_models.md), "
                f"got {self._task.model} with forward(x, {self._known.takes}); use sampled"
            )
        return full_table(self._graph, aggregator, config, self._known.takes, self._on_chunk)


def take_single_rows(module: nn.Module) -> None:
    """Makes each batch norm of `module` use its running statistics for a single row, which has no variance.

    Larger mini-batches and the names of weights do not change.
    """
    for norm in module.modules():
        if isinstance(norm, _BatchNorm) and norm.track_running_stats:
            single = _Single()
            norm.register_forward_pre_hook(single.begin)
            norm.register_forward_hook(single.end, always_call=True)


def is_single_row(error: ValueError) -> bool:
    """Returns whether `error` is torch's error for training a norm on a single row."""
    return str(error).startswith(_TORCH_SAYS)


class _Single:
    """Hooks that set a norm to evaluation mode while it processes a single row in training."""

    def __init__(self) -> None:
        self._set = False

    def begin(self, norm: nn.Module, given: tuple[Any, ...]) -> None:
        if norm.training and given and isinstance(given[0], Tensor) and _values_per_channel(given[0]) == 1:
            norm.training, self._set = False, True

    def end(self, norm: nn.Module, given: Any, out: Any) -> None:
        if self._set:
            norm.training, self._set = True, False


def _values_per_channel(x: Tensor) -> int:
    return x.numel() // x.size(1) if x.ndim >= 2 and x.size(1) else 0


def _checked(task: Task, model: UserModel, sources: Sources) -> OwnModel:
    """Returns the description of its model in `task`, after comparing it with `model` and `sources`.

    Raises:
        ConfigError: The task has no description.
        ModelError: They differ, because a file was changed since the model was described.
    """
    known = task.own
    if known is None:
        raise ConfigError(
            f"the task's own must describe the model to train {task.model}, got None; call described(task, graph)"
        )
    declared = model.aggregates if known.takes == "adjs" else known.aggregates
    found = (sources.hash, model.shapes, model.takes, declared, model.edge_values)
    if found != (known.sources, known.shapes, known.takes, known.aggregates, known.edge_values):
        raise ModelError(
            f"{task.model} must not change during a run, but its files, packages or parameters have changed. In a "
            "notebook, its module may be older than the file. Start again"
        )
    return known


#: Passes over the rows of a mini-batch's nodes by the embedding, the decoder and the optimizer. Guess.
_ROW_PASSES = 12


class LinkLearner(Own):
    """A `Learner` for a `LinkModel`; see `Own` for its arguments and errors."""

    _evaluator_kind = LinkEvaluator

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph`, in bytes moved."""
        rows = subgraph.num_seeds * self._task.hidden_channels
        return super().cost(subgraph) + 4.0 * _ROW_PASSES * rows

    def _outputs(self, inputs: Inputs, batch: MiniBatch) -> Any:
        """Returns the encoder's rows by type."""
        return called(self._own.module, *inputs)

    def _loss_of(self, outputs: Any, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the pairs."""
        assert batch.examples is not None
        heads, tails = self._rows(outputs, batch)
        return self._module.loss(heads, tails, batch.examples.to(self._device))

    @property
    def _module(self) -> LinkModel:
        assert isinstance(self._own.module, LinkModel)
        return self._own.module

    def _rows(self, outputs: Any, batch: MiniBatch) -> list[Tensor]:
        """Returns the rows that the decoder takes of the seeds at both ends."""
        module, types, links = self._module, self._graph.types, self._graph.links
        assert types is not None
        assert links is not None
        assert batch.typed is not None
        assert batch.examples is not None
        past: Sequence[Tensor | None] = [one.to(self._device) for one in batch.examples.nodes] or (None, None)
        rows = []
        for are_tails, kind in enumerate(links.ends):
            place = types.schema.types.index(kind)
            count = int(batch.typed.view.num_sampled_nodes[place, 0])
            ids = torch.from_numpy(batch.typed.view.n_id[place][:count]).to(self._device)
            rows.append(module.rows(outputs[kind][:count], ids, are_tails=bool(are_tails), past=past[are_tails]))
        return rows


class EdgeLearner(LinkLearner):
    """A `Learner` for a `LinkModel` that predicts values of edges; otherwise as `LinkLearner`."""

    _evaluator_kind = EdgeEvaluator

    @cached_property
    def _value_loss(self) -> Loss:
        return loss_of(self._graph, self._task, self._device)

    def _loss_of(self, outputs: Any, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the edges."""
        assert batch.examples is not None
        heads, tails = self._rows(outputs, batch)
        examples = batch.examples.to(self._device)
        found = self._module.outputs(taken(heads, examples.heads), taken(tails, examples.tails))
        return self._value_loss(found, batch.y.to(self._device))


class EventLearner(LinkLearner):
    """A `LinkLearner` for mini-batches in which each link sees earlier edges alone; its encoder may read their ages."""

    _evaluator_kind = EventEvaluator

    def _outputs(self, inputs: Inputs, batch: MiniBatch) -> Any:
        """Returns the encoder's rows by type."""
        types = self._graph.types
        assert types is not None
        assert types.times is not None
        assert batch.typed is not None
        assert batch.examples is not None
        assert batch.examples.ranks is not None
        seen = types.times.distinct[batch.examples.ranks]
        ages = edge_ages(batch.typed.view, types.schema, types.times, seen)
        return super()._outputs(with_ages(inputs, self._module, ages).to(self._device), batch)
