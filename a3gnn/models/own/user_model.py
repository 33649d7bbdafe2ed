"""`UserModel`: wraps a user's module with its declared attributes, and checks the contract."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from a3gnn.errors import ModelError
from a3gnn.graphs.edge_values import EDGE_VALUES
from a3gnn.metric import LabelTarget
from a3gnn.models.adam import Optimizer, make_adam
from a3gnn.models.links import LinkModel
from a3gnn.models.loss import Loss
from a3gnn.task import Aggregates, Takes


class ValuedEdges(NamedTuple):
    """An edge_index, and values of its edges that `forward` gets by name.

    Attributes:
        edge_index: As in PyG, shape (2, num_edges); with types, a dict of them by relation.
        values: float32, shape (num_edges, columns) for edge_attr and (num_edges,) for edge_weight; with types, a dict
            of them by relation, of the relations that have them.
    """

    edge_index: Any
    values: dict[str, Any]


#: Names of the same values by relation.
_DICTS = tuple(f"{name}_dict" for name in EDGE_VALUES)


@dataclass(frozen=True, slots=True, eq=False)
class UserModel:
    """A module and its optional attributes; `docs/reference/own_models.md` is the contract.

    Attributes:
        name: The factory's name, for errors.
        module: The trained module.
        takes: The form of the edges that `forward` takes, by the name of its second parameter.
        aggregates: The module's declared aggregation of its input layer, or None.
        loss: Takes the seeds' outputs, (num_seeds, out_channels) float32, and labels; returns their mean loss.
        target: The predicted node type; "" without types.
        edge_values: Values of edges that `forward` gets (`on`); those that it takes, before the graph is known.
    """

    name: str
    module: nn.Module
    takes: Takes
    aggregates: Aggregates | None
    loss: Loss
    target: str = ""
    edge_values: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, module: nn.Module, target: str = "") -> Self:
        """Returns `module`, made by the factory `name`, with its declared attributes.

        Raises:
            ModelError: A declared attribute, a parameter or the signature of `forward` is invalid.
        """
        for optional in ("loss", "optimizer", "schedule"):
            given = getattr(module, optional, None)
            if given is not None and not callable(given):
                raise ModelError(f"{name}: {optional} must be a method, got {given!r}; leave it out for the default")
        aggregates = getattr(module, "aggregates", None)
        if aggregates not in (None, "mean"):
            raise ModelError(f'{name}: aggregates must be "mean" or left out, got {aggregates!r}')
        if lazy := [label for label, one in module.named_parameters() if torch.nn.parameter.is_lazy(one)]:
            raise ModelError(
                f"{name}: parameters must have their shapes when the model is built, but {', '.join(lazy)} have "
                "none; give layers in_channels instead of -1"
            )
        loss = getattr(module, "loss", None) or functional.cross_entropy
        takes = _takes(name, module, {*EDGE_VALUES, *_DICTS} if target else {*EDGE_VALUES})
        if target and takes == "adjs":
            raise ModelError(f"{name}: forward must take (x_dict, edge_index_dict) for node types, got adjs")
        return cls(
            name, module, takes, aggregates, loss, target, edge_values_of(module) if takes == "edge_index" else ()
        )

    def on(self, values: Collection[str]) -> Self:
        """Returns the model with those `edge_values` that a graph has.

        Args:
            values: Names of the values of the graph's edges.

        Raises:
            ModelError: `forward` needs others.
        """
        check_values(self.name, self.module, values)
        return dataclasses.replace(self, edge_values=tuple(one for one in self.edge_values if one in values))

    def with_loss(self, loss: Loss, weights: str, target: LabelTarget) -> Self:
        """Returns the model with `loss`, or with the module's own loss, which gets labels as torch's losses take them.

        Args:
            loss: The loss for the labels.
            weights: The task's class weights.
            target: The kind of labels.

        Raises:
            ModelError: The module has its own loss, and there are class weights.
        """
        if self.loss is functional.cross_entropy:
            return dataclasses.replace(self, loss=loss)
        if weights != "none":
            raise ModelError(
                f"{self.name}: class_weights must be none for a model with its own loss, got {weights}; weight "
                "classes in that loss"
            )
        own = self.loss
        match target:
            case "classes":
                return self
            case "labels":
                return dataclasses.replace(self, loss=lambda outputs, labels: own(outputs, labels.float()))
            case (
                "values"
            ):  # a column, as outputs are; otherwise torch's losses would compare each output with each value
                return dataclasses.replace(self, loss=lambda outputs, labels: own(outputs, labels[:, None]))

    @property
    def shapes(self) -> str:
        """A short stable hash of the names, shapes and dtypes of the parameters and buffers."""
        listed = [(name, tuple(one.shape), str(one.dtype)) for name, one in self.module.state_dict().items()]
        return hashlib.blake2b(repr(listed).encode(), digest_size=8).hexdigest()

    @property
    def num_parameters(self) -> int:
        """Number of weights."""
        return sum(one.numel() for one in self.module.parameters())

    def outputs(self, x: Any, structure: Any, count: int, classes: int) -> Tensor:
        """Returns the output of `forward` for the first `count` nodes, float32, shape (count, classes).

        For `classes` 0, the number of columns is not checked.

        With types, they are nodes of the target type, and the output may be a dict by type.

        Raises:
            ModelError: The output has another type or shape.
        """
        out = called(self.module, x, structure)
        if self.target and isinstance(out, dict):
            out = out.get(self.target)
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) < count or classes not in (0, out.shape[1]):
            got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else repr(type(out).__name__)
            raise ModelError(
                f"{self.name}: forward must return at least {count} rows of {classes} values (out_channels), one per "
                f"node, seeds first, got {got}"
            )
        return out[:count].float()

    def optimizer(self, learning_rate: float, weight_decay: float) -> Optimizer:
        """Returns a new optimizer: the module's own, by `optimizer(learning_rate)`, or Adam."""
        make = getattr(self.module, "optimizer", None)
        if make is None:
            weights = [one for one in self.module.parameters() if one.requires_grad]
            if all(one.dtype is torch.float32 and one.is_contiguous() and one.numel() for one in weights):
                return make_adam(weights, learning_rate, weight_decay)
            return torch.optim.Adam(weights, lr=learning_rate, weight_decay=weight_decay)
        if weight_decay:
            raise ModelError(
                f"{self.name}: weight_decay must be 0 for a model with its own optimizer, got {weight_decay}; set it "
                "in that optimizer"
            )
        made = make(learning_rate)
        if not isinstance(made, torch.optim.Optimizer):
            raise ModelError(f"{self.name}: optimizer(learning_rate) must return a torch.optim.Optimizer, got {made!r}")
        return made

    def factor(self, batch: int, batches_per_epoch: int) -> float:
        """Returns the learning rate's factor for mini-batch `batch`, counted over all epochs."""
        return schedule_factor(self.name, self.module, batch, batches_per_epoch)


def schedule_factor(name: str, module: nn.Module, batch: int, batches_per_epoch: int) -> float:
    """Returns the factor by the module's own `schedule`, or 1 without one; see `UserModel.factor`.

    Raises:
        ModelError: The factor is negative or not a number.
    """
    schedule = getattr(module, "schedule", None)
    factor = 1.0 if schedule is None else float(schedule(batch, batches_per_epoch))
    if not factor >= 0:
        raise ModelError(
            f"{name}: schedule(batch, batches_per_epoch) must return a factor >= 0, got {factor} for "
            f"({batch}, {batches_per_epoch})"
        )
    return factor


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds the generators of the host and of `device` within this context, and restores them afterwards."""
    with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        torch.manual_seed(seed)
        yield


def check_values(name: str, module: nn.Module, values: Collection[str]) -> None:
    """Checks that the graph of a model `name` has the values of edges that `forward` needs; `values` are its names.

    Raises:
        ModelError: One is lacking.
    """
    parameters = _parameters(module)
    keywords = {one: _keyword(parameters, one) for one in edge_values_of(module)}
    if lacking := [one for one in keywords if one not in values and _is_needed(parameters[keywords[one]])]:
        raise ModelError(
            f"{name}: forward needs {' and '.join(lacking)}, which the graph lacks; give its edges such values, or the "
            f"parameter a default: {keywords[lacking[0]]}=None"
        )


def called(module: nn.Module, x: Any, structure: Any) -> Any:
    """Returns the result of `forward` for `Inputs`."""
    if not isinstance(structure, ValuedEdges):
        return module(x, structure)
    parameters = _parameters(module)
    return module(
        x, structure.edge_index, **{_keyword(parameters, name): one for name, one in structure.values.items()}
    )


def _parameters(module: nn.Module) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of `forward`; those of its encoder for a model of links."""
    return inspect.signature((module.encoder if isinstance(module, LinkModel) else module).forward).parameters


def _keyword(parameters: Collection[str], name: str) -> str:
    """Returns the parameter that gets the values `name` of edges: `edge_attr`, or with types also `edge_attr_dict`."""
    return name if name in parameters else f"{name}_dict"


def _takes(name: str, module: nn.Module, values: Collection[str]) -> Takes:
    """Returns the form of the edges that `forward` takes, beside `values` of edges."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [one for one in parameters if one.kind in kinds]
    adjs = len(places) > 1 and places[1].name == "adjs"
    starred = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    further = {one.name for one in parameters[2:] if _is_needed(one) and one in places}
    further |= {one.name for one in parameters if _is_needed(one) and one.kind is one.KEYWORD_ONLY}
    further -= set() if adjs else {*values}
    if (len(places) < 2 and not starred) or further:
        raise ModelError(
            f"{name}: forward must take (x, edge_index) or (x, adjs) and nothing else without a default, got "
            f"{inspect.signature(module.forward)}; beside edge_index, {' and '.join(EDGE_VALUES)} are passed by name"
        )
    return "adjs" if adjs else "edge_index"


def edge_values_of(module: nn.Module) -> tuple[str, ...]:
    """Returns the values of edges that `forward` takes by name.

    PyG's `BasicGNN` has both as options: it says which it ignores, and convolutions without edge_dim refuse edge_attr.
    """
    parameters = _parameters(module)
    dims = [one.edge_dim for one in module.modules() if hasattr(one, "edge_dim")]
    refused = {name for name in EDGE_VALUES if not getattr(module, f"supports_{name}", True)}
    refused |= {"edge_attr"} if dims and all(one is None for one in dims) else set()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    others = {name: one for name, one in list(parameters.items())[2:] if one.kind in by_name}
    taken = {name: others.get(_keyword(others, name)) for name in EDGE_VALUES}
    return tuple(name for name, one in taken.items() if one and (_is_needed(one) or name not in refused))


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    )
