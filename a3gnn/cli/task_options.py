"""The options that say what is trained, of `a3gnn tune`, `recommend` and `profile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from a3gnn.cli.completion import DATASET
from a3gnn.cli.options import (
    FANOUTS,
    FANOUTS_HELP,
    LAYERS,
    LAYERS_HELP,
    LOSS,
    LOSS_HELP,
    LR_EPOCHS,
    LR_EPOCHS_HELP,
    METRIC,
    METRICS_HELP,
    MODEL,
    MODELS_HELP,
    NORM,
    NORM_HELP,
    RESIDUAL_HELP,
    SCHEDULE,
    SCHEDULE_HELP,
    WEIGHTS,
    WEIGHTS_HELP,
    asked_fanouts,
    split_options,
)
from a3gnn.metric import AUTO
from a3gnn.task import Task

F = TypeVar("F", bound=Callable[..., Any])

_GRAPHS = "FILE.npz, a folder, synthetic:..., pyg:NAME, ogb:NAME or DATA.pt."
_OPTIONS = (
    click.option("--dataset", type=DATASET, required=True, help=_GRAPHS),
    click.option("--model", type=MODEL, metavar="MODEL", default="sage", show_default=True, help=MODELS_HELP),
    click.option("--layers", type=LAYERS, help=f"{LAYERS_HELP} 2 by default."),
    click.option("--fanouts", type=FANOUTS, help=f"{FANOUTS_HELP} 25,10 by default, with --layers what is usual."),
    click.option(
        "--hidden", type=click.IntRange(1), default=256, show_default=True, help="Width of the hidden layers."
    ),
    click.option("--norm", type=NORM, default="none", show_default=True, help=NORM_HELP),
    click.option("--residual", is_flag=True, help=RESIDUAL_HELP),
    click.option("--lr-schedule", type=SCHEDULE, default="constant", show_default=True, help=SCHEDULE_HELP),
    click.option("--lr-epochs", type=LR_EPOCHS, help=LR_EPOCHS_HELP),
    click.option("--loss", type=LOSS, default="mse", show_default=True, help=LOSS_HELP),
    click.option("--class-weights", type=WEIGHTS, default="none", show_default=True, help=WEIGHTS_HELP),
    click.option("--metric", type=METRIC, default=AUTO, show_default=True, help=METRICS_HELP),
)


def task_options(command: F) -> F:
    """Gives a command these options; `take_task` makes a task of all but the data set and the metric."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return split_options(command)


def take_task(options: dict[str, Any], seed: int) -> Task:
    """Returns the task that `options` say, which are taken out of them; the metric needs the graph first.

    Raises:
        ConfigError: An option is not what it must be.
    """
    return Task(
        model=options.pop("model"),
        fanouts=asked_fanouts(options.pop("layers"), options.pop("fanouts")) or Task().fanouts,
        hidden_channels=options.pop("hidden"),
        norm=options.pop("norm"),
        residual=options.pop("residual"),
        lr_schedule=options.pop("lr_schedule"),
        lr_epochs=options.pop("lr_epochs"),
        seed=seed,
        class_weights=options.pop("class_weights"),
        loss=options.pop("loss"),
    )
