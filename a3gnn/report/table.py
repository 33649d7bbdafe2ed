"""Tables: rows of cells as lines of a terminal, as HTML and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from a3gnn.report.text import wrapped

#: HTML styles of cells, by whether they hold a figure, and of pale rows.
_ALIGN = {True: "text-align:right;white-space:nowrap", False: "text-align:left;white-space:normal;min-width:8em"}
_PALE = ' style="opacity:0.5"'
#: Width of a label before a text.
_LABEL = 11


def aligned(rows: Sequence[Sequence[str]], left: int = 1, gap: str = "  ") -> Iterator[str]:
    """Yields a line per row, with columns as wide as their texts: the first `left` flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield gap.join(f"{text:{'<' if i < left else '>'}{width}}" for i, (text, width) in cells)


def noted(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields rows of a label, figures and a note, in columns; a long note goes on in its column."""
    labels, figures = aligned([row[:1] for row in rows]), aligned([row[1:-1] for row in rows], 0, "   ")
    for label, texts, row in zip(labels, figures, rows, strict=True):
        first = f"  {label}  {texts}   "
        yield from wrapped(row[-1], first, " " * len(first)) or [first.rstrip()]


def labeled(label: str, text: str) -> list[str]:
    """Returns lines of `text` in a column beside its label."""
    return wrapped(text, f"{label:<{_LABEL}}", " " * _LABEL)


def beside(label: str, text: str) -> str:
    """Returns `text` beside its label in one line of any length, such as of a path or a command."""
    return f"{label:<{_LABEL}}{text}"


def html_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], figures: Container[int], pale: Container[int] = ()
) -> str:
    """Returns an HTML table; the columns `figures` are flush right, and the rows `pale` are pale."""

    def line(tag: str, row: Sequence[str], style: str = "") -> str:
        cells = (f'<{tag} style="{_ALIGN[i in figures]}">{escape(text)}</{tag}>' for i, text in enumerate(row))
        return f"<tr{style}>{''.join(cells)}</tr>"

    body = "\n".join(line("td", row, _PALE if i in pale else "") for i, row in enumerate(rows))
    return f"<table>\n<thead>\n{line('th', headings)}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Returns `records` as CSV after a line of headings; None is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()
