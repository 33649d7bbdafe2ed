"""`Factory`: a function that makes a user's model, known by a name that any process can import."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from a3gnn.errors import ModelError, UsageError, unknown_name
from a3gnn.graphs.types import GraphTypes
from a3gnn.models.links import LinkModel
from a3gnn.models.own.user_model import ValuedEdges, called, check_values, edge_values_of
from a3gnn.seeding import derive
from a3gnn.task import EMBEDDING, SHIPPED, Task, names_factory

#: The factories of `SHIPPED`.
_SHIPPED = {"rsage": "a3gnn.models.relational:rsage", EMBEDDING: "a3gnn.models.links:embedding"}
_FILE = (
    "write it to a file that Python can import, and import it from there; in a notebook, use %%writefile "
    "my_models.py as the first line of its cell"
)


@dataclass(frozen=True, slots=True)
class Factory:
    """A function or class `make(in_channels, out_channels)` that returns a `torch.nn.Module`.

    Attributes:
        name: In the form package.module:function.
    """

    name: str

    @classmethod
    def of(cls, model: object) -> Self:
        """Returns the factory for `model`, a function, class or name.

        Raises:
            UsageError: Another process could not import it by its name.
        """
        if names_factory(model):
            assert isinstance(model, str)
            return cls(model)
        if model in SHIPPED:
            return cls(_SHIPPED[str(model)])
        module, name = getattr(model, "__module__", None), getattr(model, "__qualname__", None)
        if not callable(model) or module is None or name is None:
            raise UsageError(
                "model must be the name of a built-in model, package.module:function, or a function (in_channels, "
                f"out_channels) that returns a torch.nn.Module, got {model!r}"
            )
        if module == "__main__" or "<" in name:
            where = "defined in the notebook or script itself" if module == "__main__" else "local to a function"
            raise UsageError(
                f"model must be importable in the processes of trials, got {name}, which is {where}; {_FILE}"
            )
        found = cls(f"{module}:{name}")
        if found._attribute() is not model:
            raise UsageError(f"model must be the object {found.name}, got another object of that name; reload it")
        return found

    @property
    def module(self) -> str:
        """The module that contains the factory."""
        return self.name.partition(":")[0]

    def load(self) -> Callable[..., Any]:
        """Returns the function, imported in this process.

        Raises:
            UsageError: There is no such module, or no such name in it.
            ModelError: Importing it raised an exception.
        """
        try:
            made: Callable[..., Any] = self._attribute()
        except ModuleNotFoundError as error:
            if error.name is not None and f"{self.module}.".startswith(f"{error.name}."):
                remedy = "run this from the folder with the module, or add that folder to PYTHONPATH"
                if self.module.endswith(".py"):
                    remedy = "name the module without .py, not its file"
                raise UsageError(
                    f"model {self.name} must be in a module that Python can import, but no module is named "
                    f"{error.name}; {remedy}"
                ) from error
            raise _raised(f"importing {self.module}", error) from error
        except AttributeError as error:
            if error.obj is None or getattr(error.obj, "__name__", "") != self.module:
                raise _raised(f"importing {self.module}", error) from error
            raise UsageError(f"model {self.name} must exist, but {error}; check its spelling") from error
        except Exception as error:
            raise _raised(f"importing {self.module}", error) from error
        if not callable(made):
            raise UsageError(f"model {self.name} must be a function (in_channels, out_channels), got {made!r}")
        return made

    def check_arguments(self, names: Collection[str]) -> dict[str, Any]:
        """Returns the defaults of the arguments `names`, of those that have one.

        Raises:
            UsageError: There is no such factory, or it does not take one of them by name.
        """
        taken = list(inspect.signature(self.load()).parameters.values())
        further = {one.name: one for one in taken[2:] if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        for name in names:
            if name not in further and not any(one.kind is one.VAR_KEYWORD for one in taken):
                raise unknown_name(f"search: an argument of {self.name}", name, further)
        given = {name: further[name].default for name in names if name in further}
        return {name: value for name, value in given.items() if value is not inspect.Parameter.empty}

    def build(self, in_channels: int | GraphTypes, out_channels: int, seed: int, **options: Any) -> nn.Module:
        """Returns a new module; its initial weights depend on `seed`, not on torch's generator.

        `options` are further arguments of the factory.

        Lazy parameters of a model for types get their shapes by a pass over a node of each type.

        Raises:
            UsageError: There is no such factory.
            ModelError: The factory raised an exception, or returned another type.
        """
        make = self.load()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "weights"))
            try:
                model = make(in_channels, out_channels, **options)
                if isinstance(in_channels, GraphTypes) and isinstance(model, nn.Module):
                    _materialize(self.name, model, in_channels)
            except ModelError:
                raise
            except Exception as error:
                given = "types" if isinstance(in_channels, GraphTypes) else in_channels
                raise _raised(f"{self.name}({given}, {out_channels})", error) from error
        if not isinstance(model, nn.Module):
            raise ModelError(f"{self.name} must return a torch.nn.Module, got {model!r}")
        return model

    def build_for(self, task: Task, in_channels: int | GraphTypes, out_channels: int) -> nn.Module:
        """Returns a new module for `task`, as `build` does.

        To predict links or values of edges, the module is the encoder of a `LinkModel`, with `task.hidden_channels`
        outputs; `out_channels` are those of a pair.
        """
        if not isinstance(in_channels, GraphTypes) or not in_channels.has_links:
            return self.build(in_channels, out_channels, task.seed, **task.factory_options)
        encoder = self.build(in_channels, task.hidden_channels, task.seed, **task.factory_options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(task.seed, "decoder"))
            return LinkModel(encoder, in_channels, task, out_channels)

    def _attribute(self) -> Any:
        module, _, path = self.name.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return found


def _materialize(name: str, model: nn.Module, types: GraphTypes) -> None:
    """Gives lazy parameters their shapes: one node of each type, and an edge of each relation."""
    if not any(torch.nn.parameter.is_lazy(one) for one in model.parameters()):
        return
    x = {
        kind: torch.zeros(1, types.in_channels[kind])
        if kind in types.in_channels
        else torch.zeros(1, dtype=torch.int64)
        for kind in types.metadata[0]
    }
    check_values(name, model, types.edge_values)
    edges = {relation: torch.zeros(2, 1, dtype=torch.int64) for relation in types.metadata[1]}
    values = {
        kind: {one: torch.zeros((1, width) if kind == "edge_attr" else 1) for one, width in of.items()}
        for kind, of in types.edge_values.items()
        if kind in edge_values_of(model)
    }
    with torch.no_grad():
        called(model, x, ValuedEdges(edges, values))


def _raised(doing: str, error: BaseException) -> ModelError:
    """Returns the error for an exception in the user's code, with its traceback; `doing` describes the call."""
    return ModelError(f"{doing} raised an exception:\n{''.join(traceback.format_exception(error)).rstrip()}")


def model_name(model: object) -> str:
    """Returns the name of `model` in a task: a built-in model's or a factory's.

    Raises:
        UsageError: `model` is neither, or another process could not import it.
    """
    return model if isinstance(model, str) and not names_factory(model) else Factory.of(model).name
