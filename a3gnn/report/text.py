"""Configurations, figures and fronts as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from a3gnn.breach import Breach
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.domains import OneOf, Size
from a3gnn.figures import Figures
from a3gnn.knobs import Knob
from a3gnn.metric import Metric
from a3gnn.report.front import Front
from a3gnn.units import format_size

#: Under a table of which some rows were timed in the play-off and others were not.
_TIMED_BEFORE = "* timed once, before the play-off: the machine may have been faster or slower then"


def describe_config(config: TrainConfig) -> str:
    """Returns `config` in one line, leaving out what is off: `batch 512 · mode2 x2 · cache 1.2 MiB · bias 4`."""
    fields = config.canonical().to_dict()
    line = ""
    for knob in sorted(KNOBS, key=lambda knob: (knob.show.place, _continues(knob))):
        value, when = fields[knob.name], knob.show.when
        if value != knob.default if when is None else when.holds(fields):
            line += ("" if _continues(knob) or not line else " · ") + _phrase(knob, value)
    return line


def _phrase(knob: Knob, value: Any) -> str:
    match knob.domain:
        case Size():
            value = format_size(value)
        case OneOf(choices) if knob.show.names:
            value = knob.show.names[choices.index(value)]
    return knob.show.words.format(value)


def _continues(knob: Knob) -> bool:
    """Whether the knob's words continue the phrase before them."""
    return knob.show.words.startswith(" ")


def describe_figures(figures: Figures, memory: str, speed: str, metric: Metric, target: float | None = None) -> str:
    """Returns speed, memory and validation quality of `figures` in one line.

    Such as `3.7 s to 87.20% · 7.96 (7.8 to 8.2) epochs/s · 300 MiB · >= 87.20% validation accuracy`; the seconds come
    first where they are the `speed`, and are left out where no target was to be reached.

    Args:
        figures: What is described.
        memory: The metric that memory means.
        speed: The metric that speed means.
        metric: What the quality is by.
        target: The validation quality that was to be reached, where it is known.
    """
    parts = [
        f"{_throughput(figures)} epochs/s",
        format_size(getattr(figures, memory)),
        f"{_quality(figures, metric)} validation {metric.label}",
    ]
    by_seconds = speed == "seconds_to_accuracy"
    if by_seconds or target is not None or figures.seconds_to_accuracy is not None:
        parts.insert(
            0 if by_seconds else 1, _seconds_to(figures, metric.label if target is None else metric.show(target))
        )
    return " · ".join(parts)


def describe_breaches(breaches: Sequence[Breach]) -> str:
    """Returns broken limits in one line: `host memory 12.0 MiB over the limit of 300 MiB, accuracy ...`."""
    return ", ".join(breach.describe() for breach in breaches)


def front_table(front: Front, everything: bool = False) -> Table:
    """Returns the front as a table, with the default, the chosen row, and rows that say why they were not chosen.

    With `everything`, all measured rows. Where some of the shown rows were timed in the play-off and others were not, a
    footnote says so.
    """
    shown = [row for row in front.rows if everything or row.on_front or row.labels or row.note]
    mixed = len({row.in_play_off for row in shown}) > 1
    table = Table(title=_title(front), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.caption, table.caption_justify = (_TIMED_BEFORE if mixed else None), "left"
    table.add_column("", no_wrap=True)
    for heading, _ in _columns(front):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("configuration", "why not"):
        table.add_column(heading, no_wrap=True)
    for row in shown:
        cells = [show(row.measured) for _, show in _columns(front)]
        labels = ", ".join(row.labels) + (" *" if mixed and not row.in_play_off else "")
        why = ", ".join(filter(None, [row.describe_broken(), row.note]))
        style = None if row.feasible else "dim"
        table.add_row(labels.strip(), *cells, describe_config(row.config), why, style=style)
    return table


def _columns(front: Front) -> list[tuple[str, Callable[[Figures], str]]]:
    """Returns the headings of the figures, the front's speed first, and how each is shown."""
    columns: list[tuple[str, Callable[[Figures], str]]] = [
        ("epochs/s", _throughput),
        ("memory", lambda figures: format_size(getattr(figures, front.memory))),
        (f"validation {front.metric.label}", lambda figures: _quality(figures, front.metric)),
    ]
    if front.times_accuracy:
        columns.insert(0 if front.by_seconds else 1, (front.seconds_heading, _seconds))
    return columns


def _throughput(figures: Figures) -> str:
    """Returns the median, and the range of what it is the median of: `7.96 (7.8 to 8.2)`."""
    low, high = (f"{value:.3g}" for value in (figures.throughput_low, figures.throughput_high))
    median = f"{figures.throughput_epochs_per_s:.3g}"
    return median if low == high else f"{median} ({low} to {high})"


def _seconds(figures: Figures) -> str:
    return "not reached" if figures.seconds_to_accuracy is None else f"{figures.seconds_to_accuracy:.3g}"


def _seconds_to(figures: Figures, target: str) -> str:
    return f"{target} not reached" if figures.seconds_to_accuracy is None else f"{_seconds(figures)} s to {target}"


def _quality(figures: Figures, metric: Metric) -> str:
    if figures.val_accuracy is None:
        return "no"
    return (metric.show if figures.complete else metric.show_at_least)(figures.val_accuracy)


def print_table(table: Table) -> None:
    """Prints `table` on stdout at its full width, however narrow the terminal: rows are never cut."""
    console = Console()
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().rstrip().splitlines()))


def _title(front: Front) -> str:
    count = sum(row.on_front for row in front.rows)
    limit = f", limit {format_size(front.limit_bytes)}" if front.limit_bytes else ""
    kind = "device memory" if front.memory == "peak_device_bytes" else "host memory"
    return f"Pareto front: {count} of {len(front.rows)} measured configurations ({kind}{limit})"
