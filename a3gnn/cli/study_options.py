"""The options of `a3gnn tune` and `a3gnn recommend`: what is trained, what is wanted, and what may be chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from a3gnn.cli.completion import FIX, PRIORITY, RANGE
from a3gnn.cli.options import SIZE_LIMIT
from a3gnn.cli.task_options import take_task, task_options
from a3gnn.config import KNOBS
from a3gnn.domains import Size
from a3gnn.errors import UsageError
from a3gnn.units import parse_size

F = TypeVar("F", bound=Callable[..., Any])


def study_options(memory_limit: click.ParamType[Any], example: str) -> Callable[[F], F]:
    """Returns a decorator that gives a command these options; `as_arguments` turns them into arguments.

    Args:
        memory_limit: The type of --memory-limit.
        example: What it takes, for people.
    """
    limit = f"Of the GPU where there is one, of the host otherwise: {example}."
    priorities = "time, throughput, memory, accuracy, balanced, T,M,A."
    options = (
        click.option("--priority", type=PRIORITY, default="time", show_default=True, help=priorities),
        click.option("--memory-limit", type=memory_limit, help=limit),
        click.option("--host-memory-limit", type=SIZE_LIMIT, help="Of the host, beside a GPU."),
        click.option(
            "--max-accuracy-drop",
            type=float,
            default=1.0,
            show_default=True,
            help="Points below the default, by the metric.",
        ),
        click.option("--fix", type=FIX, multiple=True, metavar="KNOB=VALUE", help="Fix a knob; may be repeated."),
        click.option(
            "--range",
            "ranges",
            type=RANGE,
            multiple=True,
            metavar="KNOB=LOW:HIGH",
            help="Restrict a knob; may be repeated.",
        ),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
    )

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return task_options(command)

    return decorate


def as_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `options` as `tune` and `recommend` take them: a task, and knobs that are fixed or restricted.

    Raises:
        UsageError: An option is not what it must be.
    """
    asked = dict(options)
    task = take_task(asked, asked["seed"])
    return asked | {"task": task, "fix": dict(map(_fix, asked["fix"])), "ranges": dict(map(_range, asked["ranges"]))}


def _fix(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UsageError(f"--fix must be KNOB=VALUE such as batch_size=512, got {text!r}")
    return name, _value("--fix", name, value)


def _range(text: str) -> tuple[str, tuple[Any, Any]]:
    name, sign, values = text.partition("=")
    low, colon, high = values.partition(":")
    if not (name and sign and low and colon and high):
        raise UsageError(f"--range must be KNOB=LOW:HIGH such as batch_size=256:4096, got {text!r}")
    return name, (_value("--range", name, low), _value("--range", name, high))


def _value(flag: str, knob: str, text: str) -> Any:
    """Returns the value as the space takes it; sizes need units, but for 0."""
    sizes = {known.name for known in KNOBS if isinstance(known.domain, Size)}
    try:
        return parse_size(text, needs_unit=True) if knob in sizes and text != "0" else text
    except UsageError as error:
        raise UsageError(f"{flag} {knob}: {error}") from error
