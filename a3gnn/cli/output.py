"""Printing of commands: progress on stderr, unless quiet, and lines that fit a terminal."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from a3gnn.errors import problem
from a3gnn.notify import shown, with_details
from a3gnn.option_names import program, typed

#: Minimum width: narrower terminals count as this wide.
_LEAST_COLUMNS = 80

QUIET = click.option("--quiet", "-q", is_flag=True, help="Print only results and errors.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, errors included.")
VERBOSE = click.option("--verbose", "-v", is_flag=True, help="Print all figures and every step.")


def progress(quiet: bool = False, verbose: bool = False) -> Callable[[str], None]:
    """Returns a function that writes progress to stderr, or does nothing if `quiet`.

    It breaks lines to fit a terminal, and at 80 columns in a file or a pipe. Errors stay on one line there (`say`), so
    that programs can find them; rows of trials are shorter.
    """
    return _silent if quiet else with_details(partial(say, verbose=verbose, width=_LEAST_COLUMNS))


def say(line: str, verbose: bool = False, width: int | None = None) -> None:
    """Writes `line` to stderr, with its details if `verbose`; a file or a pipe gets lines of `width`, if given."""
    line = shown(line, verbose)
    if not line:
        return
    if sys.stderr.isatty():
        line = "\n".join(fitted(line, max(_LEAST_COLUMNS, os.get_terminal_size(sys.stderr.fileno()).columns)))
    elif width is not None:
        line = "\n".join(fitted(line, width))
    click.echo(line, err=True)


def say_usage(context: click.Context) -> None:
    """Writes the usage of a command to stderr, above an error about its options; nothing with --json."""
    if not typed("--json"):
        say(f"{context.get_usage()}\ntry: {context.command_path} --help\n")


def say_error(code: str, message: str) -> None:
    """Writes an error to stderr: one line that begins with `error:`, or with --json one object (`Problem`).

    Args:
        code: Its `A3GNNError.code`.
        message: The rule, the values and the remedy.
    """
    if typed("--json"):
        click.echo(json.dumps(problem(code, message)), err=True)
    else:
        say(f"{'' if code == 'interrupted' else 'error: '}{message}")


def show_json(answer: Mapping[str, Any]) -> None:
    """Writes the answer of a command with --json to stdout; `a3gnn schema` prints its schema."""
    click.echo(json.dumps(answer, indent=2))


def show(line: str) -> None:
    """Writes `line`, a part of the results, to stdout; breaks it at 80 columns."""
    click.echo("\n".join(fitted(line)))


def show_written(file: str | Path, config: str | Path) -> None:
    """Prints the saved `file`, and the command that trains with `config` as one line to copy to a shell."""
    click.echo(f"\n{'Saved':<11}{file}")
    click.echo(f"{'Next':<11}{program()} train {shlex.quote(str(config))}")


def fitted(text: str, width: int = _LEAST_COLUMNS) -> Iterator[str]:
    """Yields the lines of `text`; breaks lines longer than `width`, and indents the continuation.

    A word longer than `width`, such as a path, stays whole.
    """
    from a3gnn.report.text import wrapped

    for line in text.splitlines() or [""]:
        if len(line) <= width:
            yield line
            continue
        body = line.lstrip(" ")
        indent = " " * (len(line) - len(body))
        yield from wrapped(body, indent, f"{indent}    ", width)


def _silent(line: str) -> None:
    pass
