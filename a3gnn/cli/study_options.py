"""Options of `a3gnn tune` and `a3gnn recommend`: the task, the objectives, and the search space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from a3gnn.checks import Size
from a3gnn.cli.completion import DATASET, FIX, PRIORITY, RANGE
from a3gnn.cli.options import SIZE_LIMIT, added, model_options, split_options, take_fields
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.search import search_from
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn.units import parse_size

F = TypeVar("F", bound=Callable[..., Any])
#: Help of --dataset.
_GRAPHS = "Graph: FILE.npz, a folder, synthetic:..., pyg:NAME, ogb:NAME or DATA.pt."


def study_options(memory_limit: click.ParamType[Any], example: str) -> Callable[[F], F]:
    """Returns a decorator that adds these options to a command; `as_arguments` turns them into arguments."""
    limit = f"Memory limit {example}; GPU memory if there is a GPU."
    priorities = (
        "Goal: time, throughput, memory, accuracy, balanced, quality, or weights T,M,A of speed, memory, accuracy."
    )
    options = (
        click.option("--priority", type=PRIORITY, default="time", show_default=True, help=priorities),
        click.option("--memory-limit", type=memory_limit, help=limit),
        click.option("--host-memory-limit", type=SIZE_LIMIT, help="Host memory limit on a machine with a GPU."),
        click.option(
            "--max-accuracy-drop",
            type=float,
            default=0.5,
            show_default=True,
            help="Most points below the baseline, by --metric.",
        ),
        click.option("--fix", type=FIX, multiple=True, metavar="KNOB=VALUE", help="Fix a knob. May be repeated."),
        click.option(
            "--range",
            "ranges",
            type=RANGE,
            multiple=True,
            metavar="KNOB=LOW:HIGH",
            help="Restrict a knob to a range. May be repeated.",
        ),
        click.option(
            "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of search and training."
        ),
    )

    return added(task_options, *options)


def as_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `options` to arguments of `tune` and `recommend`: a task, and fixed or restricted knobs.

    Raises:
        UsageError: An option is invalid.
    """
    asked = dict(options)
    task = take_task(asked, asked["seed"])
    if "search" in asked:
        asked["search"] = search_from(asked["search"])
    return asked | {"task": task, "fix": dict(map(_fix, asked["fix"])), "ranges": dict(map(_range, asked["ranges"]))}


def with_knobs(config: TrainConfig, fixed: Sequence[str]) -> TrainConfig:
    """Returns `config` with the knobs of the texts KNOB=VALUE changed.

    Raises:
        UsageError: A text is not of this form, or there is no such knob.
        ConfigError: A value is out of range.
    """
    space = SearchSpace(KNOBS)
    return config.replace(**{name: space.knob(name).parse(value) for name, value in map(_fix, fixed)})


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
    """Converts a knob's value for the search space; sizes other than 0 need units."""
    sizes = {known.name for known in KNOBS if isinstance(known.domain, Size)}
    try:
        return parse_size(text, needs_unit=True) if knob in sizes and text != "0" else text
    except UsageError as error:
        raise UsageError(f"{flag} {knob}: {error}") from error


def task_options(command: F) -> F:
    """Adds these options to a command; `take_task` makes a task from all except the data set and the metric."""
    dataset = click.option("--dataset", type=DATASET, required=True, help=_GRAPHS)
    return added(split_options, dataset, model_options())(command)


def take_task(options: dict[str, Any], seed: int) -> Task:
    """Removes the task's options from `options`, and returns the task; the metric stays, because it needs the graph.

    Raises:
        ConfigError: An option is invalid.
    """
    fields = take_fields(options)
    return Task(**fields | {"fanouts": fields["fanouts"] or Task().fanouts, "seed": seed})
