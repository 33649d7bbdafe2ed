"""Text of at most 80 columns: wrapped lines, configurations, and rows of a label and two cells."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from a3gnn.config import TrainConfig
from a3gnn.report.text import describe_config

WIDTH = 80
#: Columns of a row's label, and of a cell.
_LABEL, _CELL = 24, 28


def wrapped(text: str, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """Returns the lines of `text`, of at most `width` columns: `first` begins the first one, `rest` the others.

    Words are not split: one that is longer, such as a path, stays whole.
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
    """Returns a label and two cells below those of other rows; a label that is too long has a line of its own."""
    above, label = (f"{label}\n", "") if len(label) >= _LABEL else ("", label)
    *first, last = cells
    return above + f"{label:<{_LABEL - 1}} {''.join(f'{cell:<{_CELL - 1}} ' for cell in first)}{last}".rstrip()
