"""Configurations, metrics and fronts as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from a3gnn.breach import Breach
from a3gnn.config import TrainConfig
from a3gnn.measurement import Metrics
from a3gnn.report.front import Front
from a3gnn.units import format_size


def describe_config(config: TrainConfig) -> str:
    """Returns `config` in one line, leaving out what is off: `batch 512 · mode2 x2 · cache 1.2 MiB · bias 4`."""
    same = config.canonical()
    parts = [f"batch {same.batch_size}"]
    parts.append(
        same.parallel_mode if same.parallel_mode == "sequential" else f"{same.parallel_mode} x{same.num_workers}"
    )
    parts.append("features on disk" if same.feature_tier == "disk" else "features in ram")
    if same.cache_bytes:
        parts.append(f"cache {format_size(same.cache_bytes)}" + _unless("degree", same.cache_policy))
        parts.append(f"bias {same.bias_rate:g}")
    if same.num_partitions > 1:
        parts.append(f"{same.num_partitions} partitions" + _unless("metis", same.partitioner))
    if same.seed_order != "random":
        parts.append(f"seeds by {same.seed_order}")
    if same.resources != "free":
        parts.append("isolated stages")
    if same.sampling_device != "cpu":
        parts.append(f"sampling on {same.sampling_device}")
    return " · ".join(parts)


def _unless(usual: str, chosen: str) -> str:
    return "" if chosen == usual else f" by {chosen}"


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
