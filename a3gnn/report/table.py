"""The front as a table: cells are computed once, then shown as HTML in a notebook or as lines in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.report.front import Front
from a3gnn.report.text import describe_config, show_quality, show_seconds, show_throughput
from a3gnn.units import format_size

#: Columns of a line in a terminal.
WIDTH = 80
#: Widths in characters of a row's label and of a cell.
_LABEL, _CELL = 24, 28
#: Footnote of a table in which only some rows were timed in the play-off.
_TIMED_BEFORE = "* timed once, before the play-off; shown at the speed that the machine had in it"
#: HTML styles of rows that break a limit, and of cells, by whether they hold a figure.
_PALE = ' style="opacity:0.5"'
_ALIGN = {True: "text-align:right;white-space:nowrap", False: "text-align:left;white-space:nowrap"}
_INDENT = " " * 4


class FrontCells(NamedTuple):
    """The texts of a table of a front.

    Attributes:
        title: Title above the table.
        headings: One per column: what a row is, its figures, its configuration, and why it was not chosen.
        rows: One text per column.
        feasible: Whether each row keeps the limits.
        footnote: Footnote below the table, or None.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    feasible: tuple[bool, ...]
    footnote: str | None

    @property
    def figures(self) -> range:
        """The columns that hold figures."""
        return range(1, len(self.headings) - 2)


def front_cells(front: Front, everything: bool = False) -> FrontCells:
    """Returns the cells of the front's rows, the default, the chosen row, and rows with a reason against them.

    `everything` returns all measured rows. A footnote says so if only some of the rows were timed in the play-off.
    """
    shown = [row for row in front.rows if everything or row.on_front or row.labels or row.note]
    mixed = len({row.in_play_off for row in shown}) > 1
    columns = _columns(front)
    rows = []
    for row in shown:
        labels = ", ".join(row.labels) + (" *" if mixed and not row.in_play_off else "")
        why = ", ".join(filter(None, [row.describe_broken(), row.note]))
        rows.append((labels.strip(), *(show(row.measured) for _, show in columns), describe_config(row.config), why))
    return FrontCells(
        title=_title(front),
        headings=("", *(heading for heading, _ in columns), "configuration", "why not"),
        rows=tuple(rows),
        feasible=tuple(row.feasible for row in shown),
        footnote=_TIMED_BEFORE if mixed else None,
    )


def _columns(front: Front) -> list[tuple[str, Callable[[Figures], str]]]:
    """Returns the headings of the figures, the front's speed first, each with the function that shows it."""
    columns: list[tuple[str, Callable[[Figures], str]]] = [
        ("epochs/s", show_throughput),
        ("memory", lambda figures: format_size(getattr(figures, front.memory))),
        (f"validation {front.metric.label}", lambda figures: show_quality(figures, front.metric)),
    ]
    if front.times_accuracy:
        columns.insert(0 if front.by_seconds else 1, (front.seconds_heading, show_seconds))
    return columns


def _title(front: Front) -> str:
    count = sum(row.on_front for row in front.rows)
    limit = f", limit {format_size(front.limit_bytes)}" if front.limit_bytes else ""
    kind = "device memory" if front.memory == "peak_device_bytes" else "host memory"
    return f"Pareto front: {count} of {len(front.rows)} measured configurations ({kind}{limit})"


def front_html(front: Front, everything: bool = False) -> str:
    """Returns the table of `front_cells` as HTML; rows that break a limit are pale."""
    cells = front_cells(front, everything)
    head = _html_row("th", cells, cells.headings)
    rows = [_html_row("td", cells, row, feasible) for row, feasible in zip(cells.rows, cells.feasible, strict=True)]
    note = "" if cells.footnote is None else f"<p><small>{escape(cells.footnote)}</small></p>"
    body = "\n".join(rows)
    return (
        f"<p><b>{escape(cells.title)}</b></p>\n"
        f"<table>\n<thead>\n{head}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n{note}"
    )


def _html_row(tag: str, cells: FrontCells, row: tuple[str, ...], feasible: bool = True) -> str:
    said = (f'<{tag} style="{_ALIGN[i in cells.figures]}">{escape(text)}</{tag}>' for i, text in enumerate(row))
    return f"<tr{'' if feasible else _PALE}>{''.join(said)}</tr>"


def front_lines(front: Front, everything: bool = False) -> Iterator[str]:
    """Yields the rows of `front_cells`: figures in columns, then labels with the configuration, then why not."""
    cells = front_cells(front, everything)
    numbers = [[row[i] for i in cells.figures] for row in cells.rows]
    headings = [cells.headings[i] for i in cells.figures]
    widths = [max(map(len, column)) for column in zip(headings, *numbers, strict=True)]
    yield from wrapped(cells.title)
    yield ""
    yield _aligned(headings, widths)
    for row, figures in zip(cells.rows, numbers, strict=True):
        label, *_, words, why = row
        yield _aligned(figures, widths)
        text = words.replace(" · ", " ·\n").replace(" ", "\xa0").replace("\n", " ")
        first = f"{_INDENT}{label}: " if label else _INDENT
        yield from (line.replace("\xa0", " ") for line in wrapped(text, first, _INDENT * 2))
        if why:
            yield from wrapped(f"why not: {why}", _INDENT, _INDENT * 2)
    if cells.footnote is not None:
        yield ""
        yield from wrapped(cells.footnote)


def _aligned(texts: list[str], widths: list[int]) -> str:
    return "  " + "  ".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))


def wrapped(text: str, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """Returns `text` as lines of at most `width` characters: `first` starts the first line, `rest` the others.

    Words are not split: a longer word, such as a path, stays whole.
    """
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def configuration(label: str, config: TrainConfig, width: int = WIDTH) -> Iterator[str]:
    """Yields `config` in words after its `label`, broken between knobs."""
    indent = max(13, len(label) + 2)
    text = describe_config(config).replace(" · ", " ·\n").replace(" ", "\xa0").replace("\n", " ")
    for line in wrapped(text, f"{label:<{indent}}", " " * indent, width):
        yield line.replace("\xa0", " ")


def row(label: str, *cells: str) -> str:
    """Returns a label and cells in aligned columns; a label that is too long has a line of its own."""
    above, label = (f"{label}\n", "") if len(label) >= _LABEL else ("", label)
    *first, last = cells
    return above + f"{label:<{_LABEL - 1}} {''.join(f'{cell:<{_CELL - 1}} ' for cell in first)}{last}".rstrip()
