"""Receives what `--verbose` shows of a call's progress."""

from __future__ import annotations

from collections.abc import Callable

from a3gnn.notify import shown, with_details


def everything(lines: list[str]) -> Callable[[str], None]:
    """Returns a function for `notify` that appends each line to `lines`, details included."""

    def append(line: str) -> None:
        if text := shown(line, verbose=True):
            lines.append(text)

    return with_details(append)
