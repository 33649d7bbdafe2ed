"""Configurations, metrics and fronts as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from a3gnn.breach import Breach
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.domains import OneOf, Size
from a3gnn.knobs import Knob
from a3gnn.measurement import Metrics
from a3gnn.report.front import Front
from a3gnn.units import format_size


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


def describe_metrics(metrics: Metrics, memory: str) -> str:
    """Returns throughput, memory and accuracy of `metrics` in one line."""
    return (
        f"{metrics.throughput_epochs_per_s:.3g} epochs/s · {format_size(getattr(metrics, memory))}"
        f" · {metrics.test_accuracy:.2%} accuracy"
    )


def describe_breaches(breaches: Sequence[Breach]) -> str:
    """Returns broken limits in one line: `host memory 12.0 MiB over the limit of 300 MiB, accuracy ...`."""
    return ", ".join(breach.describe() for breach in breaches)


def front_table(front: Front, everything: bool = False) -> Table:
    """Returns the front (with the default and the chosen row; with `everything`, all measured rows) as a table."""
    table = Table(title=_title(front), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("", "epochs/s", "memory", "accuracy"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    table.add_column("configuration", no_wrap=True)
    for row in front.rows:
        if not (everything or row.on_front or row.labels):
            continue
        labels = ", ".join(filter(None, [*row.labels, row.describe_broken()]))
        table.add_row(
            labels,
            f"{row.measured.throughput_epochs_per_s:.3g}",
            format_size(getattr(row.measured, front.memory)),
            f"{row.measured.test_accuracy:.2%}",
            describe_config(row.config),
            style=None if row.feasible else "dim",
        )
    return table


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
