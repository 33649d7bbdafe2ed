"""The gain of a tune's choice over the default, and over a static degree cache with seeds in random order.

    a3gnn tune --dataset GRAPH --priority throughput ...
    python -m benchmarks.tuned_gain runs/NAME [runs/OTHER ...] [--rounds 4] [--json FILE]

Configurations of the same task are measured in trials of their own (`docs/measurement.md`), one after the other in
every round, in an order that rotates: the choice; the default; and the choice with BGL's baseline: rows cached by
degree, seeds in random order, METIS parts. A choice without a cache is compared with a cache of a fifth of the
features' bytes. Ratios are of the same round; "the same again" is the choice once more, whose ratio would be 1 on an
idle machine.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from rich.console import Console
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.machine.probe import probe_hardware
from a3gnn.measurement import Metrics, default_accuracy_epochs
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.profiling.trial.request import TrialPlan
from a3gnn.report.text import describe_config
from a3gnn.setting import Setting
from a3gnn.training.tuned import TunedConfig
from benchmarks.report import median_and_range, write_report

_CACHED_SHARE = 0.2
Found = dict[str, list[Metrics]]


def compared(tuned: TunedConfig) -> dict[str, TrainConfig]:
    """Returns the configurations by name."""
    size = tuned.config.cache_bytes or int(_CACHED_SHARE * tuned.setting.graph.feature_bytes)
    degree = tuned.config.replace(cache_bytes=size, cache_policy="degree", seed_order="random", partitioner="metis")
    return {"choice": tuned.config, "default": TrainConfig(), "degree cache": degree, "the same again": tuned.config}


def measured(tuned: TunedConfig, rounds: int) -> Found:
    """Returns the metrics of every configuration, one per round.

    Raises:
        RuntimeError: A trial failed.
    """
    graph = Graph.load(tuned.spec).on_disk()
    plan = TrialPlan(accuracy_epochs=default_accuracy_epochs(tuned.setting.graph))
    configurations = list(compared(tuned).items())
    found: Found = {name: [] for name, _ in configurations}
    setting = Setting(tuned.setting.task, graph.characteristics(), probe_hardware())
    with (
        ProfileStore.open(":memory:") as store,
        Profiler(store, graph, setting, plan) as profiler,
    ):
        for first in range(rounds):
            for offset in range(len(configurations)):
                name, config = configurations[(first + offset) % len(configurations)]
                outcome = profiler.repeat(config).outcome
                if not isinstance(outcome, Metrics):
                    raise RuntimeError(f"the {name} failed on {tuned.setting.graph.name}: {outcome.detail}")
                found[name].append(outcome)
    return found


def table(tuned: TunedConfig, found: Found) -> Table:
    """Returns the configurations of one graph as a table: medians, and the choice's ratios to each with their range."""
    columns = ("", "epochs/s", "choice's over it", "memory, choice's over it", "accuracy", "choice's less it, points")
    shown = Table(*columns, title=f"{tuned.setting.graph.name}: {describe_config(tuned.config)}")
    choice = found["choice"]
    for name, own in found.items():
        pairs = list(zip(choice, own, strict=True))
        shown.add_row(
            name,
            f"{statistics.median(one.throughput_epochs_per_s for one in own):.3g}",
            median_and_range([mine.throughput_epochs_per_s / one.throughput_epochs_per_s for mine, one in pairs]),
            median_and_range([mine.peak_host_bytes / one.peak_host_bytes for mine, one in pairs]),
            f"{100 * statistics.median(one.test_accuracy for one in own):.2f} %",
            median_and_range([100 * (mine.test_accuracy - one.test_accuracy) for mine, one in pairs]),
        )
    return shown


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("tuned", nargs="+", type=Path, help="tuned.json, or the folder of a tune")
    made.add_argument("--rounds", type=int, default=4)
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints a table per tune."""
    options, console, rows = parser().parse_args(), Console(width=160, highlight=False), []
    for path in options.tuned:
        tuned = TunedConfig.read(path)
        found = measured(tuned, options.rounds)
        console.print(table(tuned, found))
        graph = tuned.setting.graph.name
        rows += [
            {"graph": graph, "config": config.to_dict(), "rounds": [one.to_dict() for one in found[name]]}
            for name, config in compared(tuned).items()
        ]
    if options.json:
        write_report(options.json, rows=rows)


if __name__ == "__main__":
    main()
