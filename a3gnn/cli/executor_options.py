"""The options of commands that run trials: where they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from a3gnn.errors import UsageError
from a3gnn.profiling.executor_choice import EXECUTORS, LOCAL, ExecutorChoice

F = TypeVar("F", bound=Callable[..., Any])

#: What --machines takes where trials are for one kind of machines.
ONE_KIND = "Their kind, where the cluster has several (a3gnn machines)."


def executor_options(machines: str) -> Callable[[F], F]:
    """Returns a decorator that gives a command these options; `take_choice` takes them again.

    Args:
        machines: What --machines takes, for people.
    """
    options = (
        click.option(
            "--executor",
            type=click.Choice(EXECUTORS),
            default=LOCAL,
            show_default=True,
            help="Where trials run: on this machine, or on those of a Ray cluster.",
        ),
        click.option(
            "--ray-address", metavar="HOST:PORT", help="The head of the cluster; by default the one on this machine."
        ),
        click.option("--machines", metavar="NAME", help=machines),
    )

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def take_choice(options: dict[str, Any]) -> ExecutorChoice:
    """Returns what the options say, which are removed from `options`.

    Raises:
        UsageError: They contradict each other.
    """
    return ExecutorChoice(**{name: options.pop(name) for name in ExecutorChoice().to_dict()})


def refuse_executor(options: Mapping[str, Any], server: str | None) -> None:
    """Raises a `UsageError` where trials of a server's study are to run elsewhere than the server says."""
    for name, usual in ExecutorChoice().to_dict().items():
        if server is not None and options[name] != usual:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} {options[name]} means nothing with --server, whose trials run where a3gnn serve {flag} says; "
                "leave one of the options out"
            )
