"""Option types and decorators that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from a3gnn.checks import checked_limit
from a3gnn.errors import UsageError, unknown_name
from a3gnn.metric import AUTO, METRIC_NAMES
from a3gnn.option_names import option
from a3gnn.task import (
    CLASS_WEIGHTS,
    LOSSES,
    MODELS,
    NORMS,
    NUMBER_OPTIONS,
    SCHEDULES,
    Task,
    names_factory,
    usual_fanouts,
)
from a3gnn.units import parse_budget, parse_duration, parse_size

F = TypeVar("F", bound=Callable[..., Any])
METRIC = click.Choice((AUTO, *METRIC_NAMES))
METRICS_HELP = "Metric that judges models; auto chooses it by the labels."
LOSS = click.Choice(LOSSES)
LOSS_HELP = "Loss of a regression: a graph with a value per node instead of a class."
SCHEDULE = click.Choice(SCHEDULES)
SCHEDULE_HELP = "Schedule of the learning rate; linear and cosine fall to 0."
LR_EPOCHS = click.IntRange(1)
LR_EPOCHS_HELP = "Epochs until --lr-schedule reaches 0."
NORM = click.Choice(NORMS)
NORM_HELP = "Normalization between layers."
RESIDUAL_HELP = "Add the input of each layer to its output, except in the first layer."
WEIGHTS = click.Choice(CLASS_WEIGHTS)
WEIGHTS_HELP = "Class weights in the loss; balanced gives rare classes more weight."
MODELS_HELP = f"Model: {', '.join(MODELS)}, or your own as package.module:function."
FANOUTS_HELP = "Neighbors to sample per node, one number per layer."
LAYERS = click.IntRange(1)
LAYERS_HELP = "Number of layers."
#: Type and help of each of `NUMBER_OPTIONS`.
_NUMBERS: dict[str, tuple[click.ParamType[Any], str]] = {
    "hidden": (click.IntRange(1), "Width of the hidden layers."),
    "lr": (click.FloatRange(0, min_open=True), "Learning rate of Adam."),
    "dropout": (click.FloatRange(0, 1, max_open=True), "Probability of dropping an activation between layers."),
    "weight_decay": (click.FloatRange(0), "L2 penalty of Adam."),
    "heads": (click.IntRange(1), "Attention heads of gat, gatv2 and transformer."),
}


class SizeType(click.ParamType[int]):
    """A size such as 512MiB or 4GiB, as bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the bytes of `value`."""
        try:
            return value if isinstance(value, int) else parse_size(value, needs_unit=True)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class SizeLimit(SizeType):
    """A memory limit, as bytes; must be large enough for a process."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the bytes of `value`; the error for a limit that is too small quotes the original text."""
        size = super().convert(value, param, ctx)
        try:
            if param is not None and param.name is not None:
                checked_limit(option(param.name), value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return size


class Limit(SizeLimit):
    """A size, or the word `baseline`, which stays text; `default` is its name in older versions."""

    name = "size or baseline"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the type's name in help."""
        return "SIZE|baseline"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the bytes of `value`, or the word."""
        return value if value in ("baseline", "default") else super().convert(value, param, ctx)


class AnyLimit(Limit):
    """A size, or the word `baseline` or `none`, which stays text."""

    name = "size, baseline or none"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the type's name in help."""
        return "SIZE|baseline|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the bytes of `value`, or the word."""
        return value if value == "none" else super().convert(value, param, ctx)


class Duration(click.ParamType[float]):
    """A duration such as 90s, 10min or 30d, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the seconds of `value`."""
        try:
            return value if isinstance(value, float) else parse_duration(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class BudgetType(click.ParamType[int | float]):
    """A duration such as 10min, as a float in seconds, or a number of trials, as an int."""

    name = "duration|trials"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Returns trials (int) or seconds (float)."""
        try:
            return value if isinstance(value, int | float) else parse_budget(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Fanouts(click.ParamType[tuple[int, ...]]):
    """Neighbors sampled per node, one number per layer, such as 25,10."""

    name = "k1,k2,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Returns the fanouts, seeds' hop first."""
        try:
            return value if isinstance(value, tuple) else tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(
                f"fanouts must be integers separated by commas, one per layer, such as 25,10, got {value!r}", param, ctx
            )


class Integers(click.ParamType[tuple[int, ...]]):
    """Integers separated by commas.

    Args:
        what: Description of the integers for error messages, with an example.
        name: The type's name in help.
    """

    def __init__(self, what: str, name: str) -> None:
        self._what, self.name = what, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Returns the integers, in their order."""
        try:
            return value if isinstance(value, tuple) else tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{self._what}, got {value!r}", param, ctx)


class ModelType(click.ParamType[str]):
    """A built-in model, or the factory of a user's model as package.module:function."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name; for a factory, also makes modules in the working folder importable."""
        if names_factory(value):
            import_from_here()
            return str(value)
        if value not in MODELS:
            error = unknown_name("a model", value, MODELS)
            self.fail(f"{error}; a model of your own is package.module:function", param, ctx)
        return str(value)


def import_from_here() -> None:
    """Makes modules in the working folder importable, because they may contain the user's model."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


class SharesType(click.ParamType[str]):
    """Shares of train, validation and test nodes, such as 0.6,0.2,0.2, as text."""

    name = "train,val,test"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns `value` after checking that it contains three shares."""
        from a3gnn.graphs.split import Split

        try:
            Split.of(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def split_options(command: F) -> F:
    """Adds --split and --split-seed to a command."""
    shares = "Split labeled nodes at random, for example 0.6,0.2,0.2. Default: the graph's own split."
    command = click.option(
        "--split-seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of --split."
    )(command)
    return click.option("--split", type=SharesType(), metavar="TRAIN,VAL,TEST", help=shares)(command)


def number_options(default: str = "") -> list[Callable[[F], F]]:
    """Returns the decorators of the options `NUMBER_OPTIONS`; `take_numbers` reads them.

    Args:
        default: The default in words, for commands where it is not the task's; such options are None if left out.
    """
    usual, made = Task(), []
    for name, (kind, help) in _NUMBERS.items():
        known = None if default else getattr(usual, NUMBER_OPTIONS[name])
        text = f"{help} Default: {default}." if default else help
        flag = f"--{name.replace('_', '-')}"
        made.append(click.option(flag, name, type=kind, default=known, show_default=not default, help=text))
    return made


def take_numbers(options: dict[str, Any]) -> dict[str, Any]:
    """Removes the options `NUMBER_OPTIONS` from `options`; returns them as fields of a task."""
    return {field: options.pop(name) for name, field in NUMBER_OPTIONS.items()}


def added(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Returns a decorator that adds `options` to a command, in this order."""

    def decorate(command: F) -> F:
        for one in reversed(options):
            command = one(command)
        return command

    return decorate


def address_options(port: int, token_variable: str) -> Callable[[F], F]:
    """Returns a decorator that adds --host, --port and --token to the command of a server.

    Args:
        port: The default port.
        token_variable: The environment variable that may contain the token.
    """
    return added(
        click.option(
            "--host",
            default="127.0.0.1",
            show_default=True,
            help="Address to listen on; other addresses than this need --token.",
        ),
        click.option(
            "--port", type=click.IntRange(0, 65535), default=port, show_default=True, help="Port; 0 takes a free one."
        ),
        click.option(
            "--token",
            envvar=token_variable,
            show_envvar=True,
            metavar="TEXT",
            help="Access token that requests must carry; the variable keeps it out of process lists.",
        ),
    )


MODEL = ModelType()
SIZE = SizeType()
SIZE_LIMIT = SizeLimit()
LIMIT = Limit()
ANY_LIMIT = AnyLimit()
DURATION = Duration()
BUDGET = BudgetType()
FANOUTS = Fanouts()
SHARES = Integers("shares must be integers separated by commas, one per trainer, such as 700,324", "n1,n2,...")
DEPTHS = Integers("depths must be three integers separated by commas, such as 1,1,1", "n1,n2,n3")


def asked_fanouts(layers: int | None, fanouts: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Returns the fanouts requested by --layers and --fanouts; None if neither is set.

    Raises:
        UsageError: They contradict each other.
    """
    if layers is None or fanouts is None:
        return fanouts if layers is None else usual_fanouts(layers)
    if len(fanouts) != layers:
        given = ",".join(map(str, fanouts))
        raise UsageError(
            f"--fanouts must have a number for each of --layers, got {given} and {layers}; leave one of the options out"
        )
    return fanouts
