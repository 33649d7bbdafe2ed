"""By how much a training's peak of memory exceeds its trial's.

    python -m benchmarks.training_peaks [GRAPH ...] [--configs 6] [--trainings 2] [--seconds 6] [--json FILE]

Of each graph the default and random configurations of its space run as a tune runs them, under a limit that none
passes: a trial whose curve takes two seconds, then trainings from the start that are as long as --seconds and test at
their end. Columns: the trial's peak of host memory; the excess of each training's over it, in percent; seconds of
evaluation and of training in the trainings. The last line has the excesses of all: their median, and what 19 of 20 and
all of them are below.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.graphs.graph import Graph
from a3gnn.measurement import Metrics
from a3gnn.metric import AUTO
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.request import CurvePlan, TrialPlan, TrialRequest
from a3gnn.report.text import describe_config
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn.tuning.recommend import probed_machine
from a3gnn.units import format_size
from benchmarks.engine.graphs import spec_of
from benchmarks.report import write_report

#: Seconds that a trial's curve trains.
_TRIAL_S = 2.0
#: Bytes that no training takes: a trial under a limit evaluates test nodes, as a training does.
_LIMIT = 1 << 50
#: The seconds of a training that are shown.
_SECONDS = ("curve_eval_seconds", "curve_train_seconds")


def peaks(given: str, options: argparse.Namespace, executor: LocalExecutor) -> list[dict[str, Any]]:
    """Returns a row per configuration that ran without failing."""
    graph = Graph.load(spec_of(given)).on_disk()
    task = with_metric(Task(), AUTO, graph, print)
    executor.make_ready(graph, task)
    setting = Setting(task, graph.characteristics(), probed_machine(print))
    space = SearchSpace.of(setting)
    drawn = [space.decode(row).canonical() for row in space.sample(options.configs - 1, options.seed)]
    rows = []
    for config in (TrainConfig().canonical(), *drawn):

        def run(curve: CurvePlan, config: TrainConfig = config) -> Metrics | None:
            plan = TrialPlan(curve=curve, timed_seconds=1.0, timeout_s=300.0, host_limit_bytes=_LIMIT)
            found = executor.run(TrialRequest(config, setting, str(graph.folder), plan))
            return found if isinstance(found, Metrics) else None

        whole = CurvePlan(options.seconds, whole=True, tests=True)
        found = [run(CurvePlan(_TRIAL_S)), *(run(whole) for _ in range(options.trainings))]
        done = [one for one in found if one is not None]
        if len(done) < len(found):
            continue
        trial, trainings = done[0], done[1:]
        rows.append(
            {"graph": graph.name, "config": config.to_dict(), "trial_bytes": trial.peak_host_bytes}
            | {"excess": [100 * (one.peak_host_bytes / trial.peak_host_bytes - 1) for one in trainings]}
            | {name: fmean(getattr(one, name) for one in trainings) for name in _SECONDS}
            | {"batches": fmean(one.curve.trained if one.curve else 0 for one in trainings)}
        )
    return rows


def main() -> None:
    """Prints a line per configuration, then what all come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=["facebook_pages", "amazon_computers"], help="of real graphs")
    parser.add_argument("--configs", type=int, default=6, help="of each graph, the default among them")
    parser.add_argument("--trainings", type=int, default=2, help="of each configuration")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each training")
    parser.add_argument("--seed", type=int, default=0, help="of the configurations")
    parser.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    options = parser.parse_args()
    with LocalExecutor() as executor:
        rows = [row for given in options.graphs for row in peaks(given, options, executor)]
    shown = Table("graph", "trial", "excess, %", "evaluation", "training", "mini-batches", "configuration")
    for row in rows:
        seconds = (f"{row[name]:.2f} s" for name in _SECONDS)
        excess = ", ".join(f"{one:+.1f}" for one in row["excess"])
        what = describe_config(TrainConfig.from_dict(row["config"]))
        shown.add_row(row["graph"], format_size(row["trial_bytes"]), excess, *seconds, f"{row['batches']:.0f}", what)
    Console(width=160, highlight=False).print(shown)
    every = [one for row in rows for one in row["excess"]]
    median, most, largest = np.quantile(every, (0.5, 0.95, 1.0))
    within = f"at most 3% in {sum(one <= 3 for one in every)}"
    print(f"{len(every)} pairs: {median:.1f}% in the median, {most:.1f}% in 19 of 20, {largest:.1f}% at most; {within}")
    if options.json:
        write_report(options.json, rows=rows)


if __name__ == "__main__":
    main()
