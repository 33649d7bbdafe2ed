"""How commands print: progress on stderr, unless it is to be quiet, and lines that fit a terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

#: No terminal is taken to be narrower.
_LEAST_COLUMNS = 80

QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress on stderr; errors alone.")


def progress(quiet: bool = False) -> Callable[[str], None]:
    """Returns what takes lines of progress: they go to stderr, or nowhere where it is to be `quiet`.

    On a terminal they are broken to fit it; in a file or a pipe a message stays a line, for programs to find.
    """
    return _silent if quiet else say


def say(line: str) -> None:
    """Writes `line` on stderr."""
    if sys.stderr.isatty():
        line = "\n".join(fitted(line, max(_LEAST_COLUMNS, os.get_terminal_size(sys.stderr.fileno()).columns)))
    click.echo(line, err=True)


def show(line: str) -> None:
    """Writes `line`, a part of the results, on stdout; what is longer than 80 columns is broken."""
    click.echo("\n".join(fitted(line)))


def show_written(files: str, config: str | Path) -> None:
    """Writes that `files` are written, and the command that trains with `config`: a line, for a shell to take."""
    show(f"\n{files} written; train with it:")
    click.echo(f"  a3gnn train --config {shlex.quote(str(config))}")


def fitted(text: str, width: int = _LEAST_COLUMNS) -> Iterator[str]:
    """Yields the lines of `text`, those that are longer than `width` broken: what continues one stands further in.

    Configurations are broken between knobs. A word that is longer, such as a path, stays whole.
    """
    from a3gnn.report.table import wrapped

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
    """Returns a knob's phrase with spaces that no line is broken at; the first one may follow other words."""
    return knob if first else knob.replace(" ", "\xa0")


def _silent(line: str) -> None:
    pass
