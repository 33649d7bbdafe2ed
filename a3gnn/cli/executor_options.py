"""Options of commands that run trials: the machine or cluster that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from a3gnn.cli.options import added
from a3gnn.errors import UsageError
from a3gnn.profiling.executor_choice import EXECUTORS, LOCAL, ExecutorChoice

F = TypeVar("F", bound=Callable[..., Any])

#: Help of --machines for commands that run trials on one kind of machines.
ONE_KIND = "Kind of machines to use in the cluster; a3gnn machines lists them."


def executor_options(machines: str) -> Callable[[F], F]:
    """Returns a decorator that adds these options to a command; `take_choice` reads them.

    Args:
        machines: Help text of --machines.
    """
    return added(
        click.option(
            "--executor",
            type=click.Choice(EXECUTORS),
            default=LOCAL,
            show_default=True,
            help="Run trials on this machine, or on the machines of a Ray cluster.",
        ),
        click.option(
            "--ray-address", metavar="HOST:PORT", help="Head of the Ray cluster. Default: the head on this machine."
        ),
        click.option("--machines", metavar="NAME", help=machines),
    )


def take_choice(options: dict[str, Any]) -> ExecutorChoice:
    """Removes these options from `options`, and returns the choice.

    Raises:
        UsageError: The options contradict each other.
    """
    return ExecutorChoice(**{name: options.pop(name) for name in ExecutorChoice().to_dict()})


def refuse_executor(options: Mapping[str, Any], server: str | None) -> None:
    """Raises a `UsageError` if executor options are combined with a server, which decides where trials run."""
    for name, usual in ExecutorChoice().to_dict().items():
        if server is not None and options[name] != usual:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} {options[name]} has no effect with --server, because a3gnn serve {flag} decides where trials "
                "run; leave one of the options out"
            )
