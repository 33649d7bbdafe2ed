"""Printing of commands: progress on stderr, unless quiet, and lines that fit a terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

#: Minimum width: narrower terminals count as this wide.
_LEAST_COLUMNS = 80

QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress on stderr; errors alone.")


def progress(quiet: bool = False) -> Callable[[str], None]:
    """Returns a function that writes progress to stderr, or does nothing if `quiet`.

    It breaks lines to fit a terminal. In a file or a pipe, a message stays on one line, so that programs can find it.
    """
    return _silent if quiet else say


def say(line: str) -> None:
    """Writes `line` to stderr."""
    if sys.stderr.isatty():
        line = "\n".join(fitted(line, max(_LEAST_COLUMNS, os.get_terminal_size(sys.stderr.fileno()).columns)))
    click.echo(line, err=True)


def show(line: str) -> None:
    """Writes `line`, a part of the results, to stdout; breaks it at 80 columns."""
    click.echo("\n".join(fitted(line)))


def show_written(files: str, config: str | Path) -> None:
    """Prints that `files` are written, and the command that trains with `config` as one line to copy to a shell."""
    show(f"\n{files} written; train with it:")
    click.echo(f"  a3gnn train --config {shlex.quote(str(config))}")


def fitted(text: str, width: int = _LEAST_COLUMNS) -> Iterator[str]:
    """Yields the lines of `text`; breaks lines longer than `width`, and indents the continuation.

    Configurations are broken between knobs. A word longer than `width`, such as a path, stays whole.
    """
    from a3gnn.report.text import wrapped

    for line in text.splitlines() or [""]:
        if len(line) <= width:
            yield line
            continue
        body = line.lstrip(" ")
        indent = " " * (len(line) - len(body))
        knobs = body.replace(" · ", " ·\n").split("\n")
        words = body if len(knobs) < 3 else "\n".join(_bound(knob, first=not i) for i, knob in enumerate(knobs))
        for part in wrapped(words, indent, f"{indent}    ", width):
            yield part.replace("\xa0", " ")


def _bound(knob: str, first: bool) -> str:
    """Returns a knob's phrase with non-breaking spaces, except the first phrase, which may follow other words."""
    return knob if first else knob.replace(" ", "\xa0")


def _silent(line: str) -> None:
    pass
