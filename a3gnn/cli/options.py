"""Option types and decorators that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from a3gnn import task
from a3gnn.checks import checked_limit
from a3gnn.cli.completion import TARGET
from a3gnn.errors import ConfigError, UsageError, unknown_name
from a3gnn.metric import AUTO, METRIC_NAMES
from a3gnn.option_names import option
from a3gnn.units import parse_budget, parse_duration, parse_size

#: Variable of `a3gnn.graphs.derived_room`, whose import takes too long for --help.
DISK_LIMIT = "A3GNN_DISK_LIMIT"
F = TypeVar("F", bound=Callable[..., Any])


class Parsed(click.ParamType[Any]):
    """Text that a function parses; its `UsageError` becomes an error of the option."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the value of a text; another default stays as it is."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except UsageError as error:
            self.fail(str(error), param, ctx)


class _Residual(click.types.BoolParamType):
    """True, False or linear: the values of the flags of residual connections."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the value of a flag."""
        return value if value == "linear" else super().convert(value, param, ctx)


class Limit(Parsed):
    """A memory limit, as bytes, which must be large enough for a process.

    Args:
        words: Words that stay text. `default` is the name of `baseline` in older versions.
    """

    def __init__(self, *words: str) -> None:
        super().__init__(", ".join(("size", *words)), size_with_unit)
        self._metavar, self._words = "|".join(("SIZE", *words)), (*words, "default") if words else ()

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the type's name in help."""
        return self._metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the bytes of `value`, or the word; the error for a limit that is too small quotes the text."""
        if value in self._words:
            return value
        size = super().convert(value, param, ctx)
        try:
            if param is not None and param.name is not None:
                checked_limit(option(param.name), value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return size


def size_with_unit(text: str) -> int:
    """Returns the bytes of a size such as 512MiB or 4GiB."""
    return parse_size(text, needs_unit=True)


def integers(what: str) -> Callable[[str], tuple[int, ...]]:
    """Returns a function that parses integers separated by commas; `what` describes them in errors, with an example."""

    def parse(text: str) -> tuple[int, ...]:
        try:
            return tuple(int(part) for part in text.split(","))
        except ValueError as error:
            raise UsageError(f"{what}, got {text!r}") from error

    return parse


def model(text: str) -> str:
    """Returns the name of a built-in model, or of a factory; then makes modules in the working folder importable."""
    if task.names_factory(text):
        import_from_here()
    elif text not in (names := (*task.MODELS, *task.SHIPPED)):
        raise UsageError(f"{unknown_name('a model', text, names)}; a model of your own is package.module:function")
    return text


def negatives(text: str) -> str:
    """Returns `text` after a check that it names the negatives of links."""
    try:
        task.NegativeDraws.of(text)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return text


def split_shares(text: str) -> str:
    """Returns `text` after a check that it has the shares of train, validation and test nodes."""
    from a3gnn.graphs.split import Split

    Split.of(text)
    return text


def import_from_here() -> None:
    """Makes modules in the working folder importable, because they may contain the user's model."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def split_options(command: F) -> F:
    """Adds --target, which becomes a part of the graph's spec, --split and --split-seed to a command."""
    shares = "Split labeled nodes, or links, at random (links with times in their order), for example 0.6,0.2,0.2. "
    shares += "Default: the graph's own split."
    command = target_option(command)
    command = click.option(
        "--split-seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of --split."
    )(command)
    return click.option("--split", type=Parsed("train,val,test", split_shares), metavar="TRAIN,VAL,TEST", help=shares)(
        command
    )


def target_option(command: F) -> F:
    """Adds --target, which becomes a part of the graph's spec, to a command."""
    return click.option(
        "--target",
        is_eager=True,
        expose_value=False,
        metavar="TYPE|SRC,REL,DST[=NAME]",
        callback=lambda context, _, value: context.meta.update({TARGET: value or ""}),
        help="Node type to predict, or relation to predict links of, in a graph with node types. Default: the only "
        "type with labels. With =NAME, the values NAME of its edges.",
    )(command)


def disk_limit_option(command: F) -> F:
    """Adds --disk-limit, which child processes get by its variable, to a command."""

    def note(_context: click.Context, _option: click.Parameter, value: int | None) -> None:
        if value is not None:
            os.environ[DISK_LIMIT] = f"{value}B"

    return click.option(
        "--disk-limit",
        type=SIZE,
        envvar=DISK_LIMIT,
        show_envvar=True,
        expose_value=False,
        callback=note,
        help="Disk for files derived from the graph, of which the oldest are removed, and for scratch files, each. "
        "Default: the disk's room.",
    )(command)


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


SIZE = Parsed("size", size_with_unit)
SIZE_LIMIT, LIMIT, ANY_LIMIT = Limit(), Limit("baseline"), Limit("baseline", "none")
DURATION = Parsed("duration", parse_duration)
BUDGET = Parsed("duration|trials", parse_budget)
REFERENCES = click.option(
    "--references/--no-references",
    default=True,
    show_default=True,
    help="Train models of nodes without a graph network too, and tell if one is nearly as good.",
)
SHARES = Parsed("n1,n2,...", integers("shares must be integers separated by commas, one per trainer, such as 700,324"))
DEPTHS = Parsed("n1,n2,n3", integers("depths must be three integers separated by commas, such as 1,1,1"))
FANOUTS = Parsed("k1,k2,...", integers("fanouts must be integers separated by commas, one per layer, such as 25,10"))
#: Type and help of each option of a task.
_TASK: dict[str, tuple[click.ParamType[Any], str]] = {
    "model": (Parsed("model", model), f"Model: {', '.join(task.MODELS)}, or your own as package.module:function."),
    "layers": (click.IntRange(1), "Number of layers."),
    "fanouts": (FANOUTS, "Neighbors to sample per node, one number per layer."),
    "hidden": (click.IntRange(1), "Width of the hidden layers."),
    "lr": (click.FloatRange(0, min_open=True), "Learning rate of Adam."),
    "dropout": (click.FloatRange(0, 1, max_open=True), "Probability of dropping an activation between layers."),
    "weight_decay": (click.FloatRange(0), "L2 penalty of Adam."),
    "heads": (click.IntRange(1), "Attention heads of gat, gatv2 and transformer."),
    "norm": (click.Choice(task.NORMS), "Normalization between layers."),
    "residual": (_Residual(), "Add the input of each layer to its output, except in the first layer."),
    "lr_schedule": (click.Choice(task.SCHEDULES), "Schedule of the learning rate; linear and cosine fall to 0."),
    "lr_epochs": (click.IntRange(1), "Epochs until --lr-schedule reaches 0."),
    "loss": (click.Choice(task.LOSSES), "Loss of a regression: a graph with a value per node instead of a class."),
    "decoder": (
        click.Choice(task.DECODERS),
        "Score of a link: dot product, multilayer perceptron, or a knowledge graph's DistMult or RotatE.",
    ),
    "negatives": (
        Parsed("negatives", negatives),
        "Loss of links: binary:N with N negatives per link, softmax:N with N shared candidates, or softmax.",
    ),
    "own_links": (click.Choice(task.OWN_LINKS), "Links of a mini-batch in its own message passing."),
    "pair_history": (click.IntRange(0), "Last links of each end that show how often a pair was linked; with times."),
    "class_weights": (
        click.Choice(task.CLASS_WEIGHTS),
        "Class weights in the loss; balanced gives rare classes more weight.",
    ),
    "metric": (
        click.Choice((AUTO, *METRIC_NAMES)),
        "Metric that judges models (docs/reference/metrics.md); auto chooses by the labels.",
    ),
}
_LINEAR_RESIDUAL = click.option(
    "--linear-residual",
    "residual",
    flag_value="linear",
    type=_Residual(),
    help="Add a linear map of the input of every layer to its output.",
)
#: Defaults of these options in words, where a task's field does not say them.
_DEFAULTS = {"layers": "2", "fanouts": "25,10 for 2 layers"}


def task_option(name: str, default: str | None = None) -> Callable[[F], F]:
    """Returns the decorator of an option of a task.

    Args:
        name: The option's name in `_TASK`.
        default: The default in words, for a command where it is not the task's; the option is None if left out.
    """
    kind: click.ParamType[Any] | None
    kind, help = _TASK[name]
    known = AUTO if name == "metric" else getattr(task.Task(), task.NUMBER_OPTIONS.get(name, name), None)
    words = default or _DEFAULTS.get(name)
    flag = f"--{name.replace('_', '-')}"
    if name == "residual":
        flag, kind, known = (f"{flag}/--no-residual", kind, None) if default else (flag, kind, False)
    return click.option(
        flag,
        name,
        type=kind,
        is_flag=name == "residual",
        metavar={"model": "MODEL", "metric": "NAME"}.get(name),
        default=None if words else known,
        show_default=True,
        help=f"{help} Default: {words}." if words else help,
    )


def model_options(default: str | None = None, **others: str) -> Callable[[F], F]:
    """Returns a decorator that adds the options of a task, with arguments as in `task_option`; see `take_fields`."""
    return added(*(task_option(name, others.get(name, default)) for name in _TASK), _LINEAR_RESIDUAL)


def take_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Removes all options of a task but the metric, which needs the graph; returns its fields, None where left out.

    Raises:
        UsageError: --layers and --fanouts contradict each other.
    """
    fanouts = asked_fanouts(options.pop("layers"), options.pop("fanouts"))
    names = (name for name in _TASK if name not in ("layers", "fanouts", "metric"))
    return {"fanouts": fanouts} | {task.NUMBER_OPTIONS.get(name, name): options.pop(name) for name in names}


def asked_fanouts(layers: int | None, fanouts: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Returns the fanouts requested by --layers and --fanouts; None if neither is set.

    Raises:
        UsageError: They contradict each other.
    """
    if layers is None or fanouts is None:
        return fanouts if layers is None else task.usual_fanouts(layers)
    if len(fanouts) != layers:
        given = ",".join(map(str, fanouts))
        raise UsageError(
            f"--fanouts must have a number for each of --layers, got {given} and {layers}; leave one of the options out"
        )
    return fanouts
