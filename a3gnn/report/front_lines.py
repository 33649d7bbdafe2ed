"""The front in lines of at most 80 columns: each row's figures, and below them what it is."""

from __future__ import annotations

from collections.abc import Iterator

from a3gnn.report.columns import wrapped
from a3gnn.report.front import Front
from a3gnn.report.table import front_cells

_INDENT = " " * 4


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
