"""The options of `a3gnn tune` and `a3gnn recommend`: what is trained, what is wanted, and what may be chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from a3gnn.cli.options import (
    FANOUTS,
    LOSS,
    LOSS_HELP,
    METRIC,
    METRICS_HELP,
    MODEL,
    MODELS_HELP,
    SIZE,
    WEIGHTS,
    WEIGHTS_HELP,
)
from a3gnn.config import KNOBS
from a3gnn.domains import Size
from a3gnn.errors import UsageError
from a3gnn.metric import AUTO
from a3gnn.task import Task
from a3gnn.units import parse_size

F = TypeVar("F", bound=Callable[..., Any])


def study_options(memory_limit: click.ParamType[Any], example: str) -> Callable[[F], F]:
    """Returns a decorator that gives a command these options; `as_arguments` turns them into arguments.

    Args:
        memory_limit: The type of --memory-limit.
        example: What it takes, for people.
    """
    limit = f"Of the GPU where there is one, of the host otherwise: {example}."
    graphs = "FILE.npz, a folder, synthetic:..., pyg:NAME, ogb:NAME or DATA.pt."
    priorities = "time, throughput, memory, accuracy, balanced, T,M,A."
    options = (
        click.option("--dataset", required=True, help=graphs),
        click.option("--model", type=MODEL, metavar="MODEL", default="sage", show_default=True, help=MODELS_HELP),
        click.option(
            "--fanouts", type=FANOUTS, default="25,10", show_default=True, help="Neighbours per node, one per layer."
        ),
        click.option(
            "--hidden", type=click.IntRange(1), default=256, show_default=True, help="Width of the hidden layers."
        ),
        click.option("--priority", default="throughput", show_default=True, help=priorities),
        click.option("--memory-limit", type=memory_limit, help=limit),
        click.option("--host-memory-limit", type=SIZE, help="Of the host, beside a GPU."),
        click.option(
            "--max-accuracy-drop",
            type=float,
            default=1.0,
            show_default=True,
            help="Points below the default, by the metric.",
        ),
        click.option("--loss", type=LOSS, default="mse", show_default=True, help=LOSS_HELP),
        click.option("--class-weights", type=WEIGHTS, default="none", show_default=True, help=WEIGHTS_HELP),
        click.option("--metric", type=METRIC, default=AUTO, show_default=True, help=METRICS_HELP),
        click.option("--fix", multiple=True, metavar="KNOB=VALUE", help="Fix a knob; may be repeated."),
        click.option(
            "--range", "ranges", multiple=True, metavar="KNOB=LOW:HIGH", help="Restrict a knob; may be repeated."
        ),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
    )

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def as_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `options` as `tune` and `recommend` take them: a task, and knobs that are fixed or restricted.

    Raises:
        UsageError: An option is not what it must be.
    """
    asked = dict(options)
    task = Task(
        model=asked.pop("model"),
        fanouts=asked.pop("fanouts"),
        hidden_channels=asked.pop("hidden"),
        seed=asked["seed"],
        class_weights=asked.pop("class_weights"),
        loss=asked.pop("loss"),
    )
    return asked | {"task": task, "fix": dict(map(_fix, asked["fix"])), "ranges": dict(map(_range, asked["ranges"]))}


def _fix(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UsageError(f"--fix must be KNOB=VALUE such as batch_size=512, got {text!r}")
    return name, _value(name, value)


def _range(text: str) -> tuple[str, tuple[Any, Any]]:
    name, sign, values = text.partition("=")
    low, colon, high = values.partition(":")
    if not (name and sign and low and colon and high):
        raise UsageError(f"--range must be KNOB=LOW:HIGH such as batch_size=256:4096, got {text!r}")
    return name, (_value(name, low), _value(name, high))


def _value(knob: str, text: str) -> Any:
    """Returns the value as the space takes it: sizes may have units."""
    sizes = {known.name for known in KNOBS if isinstance(known.domain, Size)}
    return parse_size(text) if knob in sizes and text != "0" else text
