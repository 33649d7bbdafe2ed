"""Configurations in words, and lines of text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from a3gnn.checks import OneOf, Size, WholeOrAll
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.knobs import TASKS, Knob
from a3gnn.limits import Breach
from a3gnn.task import Task
from a3gnn.units import format_size

#: Columns of a line in a terminal.
WIDTH = 80
#: Widths in characters of a row's label and of a cell.
_LABEL, _CELL = 24, 28
#: How text shows the configuration that is equal to the baseline.
BASELINE_WORDS = "as the baseline"


def describe_config(config: TrainConfig) -> str:
    """Returns how `config` differs from the baseline, in one line: `batch 512, workers 2 (sample), cache 1.2 MiB`."""
    fields = config.canonical().knobs()
    line = ""
    for knob in sorted(KNOBS, key=lambda knob: (knob.show.place, _continues(knob))):
        value, when = fields[knob.name], knob.show.when
        if value != knob.default if when is None else when.holds(fields):
            line += ("" if _continues(knob) or not line else ", ") + describe_knob(knob, value)
    searched = ", ".join(f"{name} {_shown(value)}" for name, value in config.searched)
    return ", ".join(filter(None, (searched, line))) or BASELINE_WORDS


def describe_knob(knob: Knob, value: Any) -> str:
    """Returns the knob's words for `value`; if they start with a space, they continue the phrase before them."""
    match knob.domain:
        case Size():
            value = format_size(value)
        case OneOf(choices) if knob.show.names:
            value = knob.show.names[choices.index(value)]
        case WholeOrAll():
            value = knob.text(value)
    return knob.show.words.format(value)


def _shown(value: Any) -> str:
    """Returns a value of a search in text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


class Change(NamedTuple):
    """A knob, or a name of a search, that differs from the baseline: both values, and how lines print the new one."""

    name: str
    before: str
    now: str
    words: str


def changes_of(config: TrainConfig, task: Task) -> tuple[Change, ...]:
    """Returns the values in which `config` differs from the baseline, of a search and of knobs, as `describe_config`.

    `task` is the baseline's.
    """
    own, baseline = config.canonical().knobs(), TrainConfig().canonical().knobs()
    found = [Change(name, _shown(task.value(name)), _shown(value), "") for name, value in config.searched]
    for knob in sorted(KNOBS, key=lambda knob: (knob.show.place, _continues(knob))):
        value, before = own[knob.name], baseline[knob.name]
        if value != before:
            words = describe_knob(knob, value).strip(" ()") if _has_words(knob) else ""
            found.append(Change(knob.name, show_value(knob, before, task), show_value(knob, value, task), words))
    return tuple(found)


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yields a line per change, in columns: `batch_size  1024 -> 256`."""
    widths = [max((len(change[i]) for change in changes), default=0) for i in range(2)]
    for name, before, now, words in changes:
        yield f"{name:<{widths[0]}}  {before:>{widths[1]}} -> {now}{f'  ({words})' if words else ''}"


def show_value(knob: Knob, value: Any, task: Task | None = None) -> str:
    """Returns a knob's value as --fix takes it; None, the task's fanout, as its number if `task` is given."""
    if value is None:
        seed, *deep = ("", "") if task is None else task.fanouts
        return TASKS if task is None else str(seed) if knob.name == "seed_fanout" else ",".join(map(str, deep))
    if isinstance(knob.domain, Size):
        return format_size(value).replace(" ", "") if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(knob.text(value))


def _has_words(knob: Knob) -> bool:
    """Whether the knob's words say more than its name and value."""
    return bool(knob.show.names) or "{:g}" in knob.show.words


def _continues(knob: Knob) -> bool:
    """Whether the knob's words continue the phrase before them."""
    return knob.show.words.startswith(" ")


def describe_breaches(breaches: Sequence[Breach]) -> str:
    """Returns broken limits in one line: `host memory 12.0 MiB over the limit of 300 MiB, accuracy ...`."""
    return ", ".join(breach.describe() for breach in breaches)


def wrapped(text: str, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """Returns `text` as lines of at most `width` characters: `first` starts the first line, `rest` the others.

    Words are not split: a longer word, such as a path, stays whole.
    """
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def configuration(label: str, config: TrainConfig) -> Iterator[str]:
    """Yields `config` in words after its `label`."""
    indent = max(13, len(label) + 2)
    yield from wrapped(describe_config(config), f"{label:<{indent}}", " " * indent)


def row(label: str, cells: Sequence[str]) -> str:
    """Returns a label and cells in aligned columns; a label that is too long has a line of its own."""
    above, label = (f"{label}\n", "") if len(label) >= _LABEL else ("", label)
    *first, last = cells
    return above + f"{label:<{_LABEL - 1}} {''.join(f'{cell:<{_CELL - 1}} ' for cell in first)}{last}".rstrip()
