"""Whether `a3gnn train --auto` is done sooner than a training of the baseline, its comparison counted.

    python -m benchmarks.auto_gain [GRAPH ...] [--epochs 30] [--rounds 2] [--json FILE]

Each round trains with and without `--auto`, for as many epochs at most and with the same seed, one per round; which
comes first alternates. Each is one command, timed by the clock from its start to its end. They share a cache folder
that is filled before: kernels, the probe and the fit of the surrogate are needed once on a machine, and the converted
graph and the table for its evaluation once per graph. The target is the best validation quality that the baseline kept
in the round, less half a point.

Columns: seconds of the baseline's command; seconds of `--auto` over them until both kept the target, and of both whole
commands; points of validation and of test quality less the baseline's; rounds in which `--auto` missed the target; and
what trained to the end. Medians and ranges of rounds. Graphs are names of files in the folder of real graphs
($A3GNN_DATA), or arguments of `--dataset`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.figures import Spread
from a3gnn.graphs.graph import Graph
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.metric import AUTO
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.tuning.recommend import recommend
from benchmarks.engine.graphs import spec_of
from benchmarks.live_tunes import own_cache
from benchmarks.report import write_report

#: Validation quality that may be lost: `max_accuracy_drop` of a tune.
_DROP = 0.005


class Run(NamedTuple):
    """One command.

    Attributes:
        seconds: Of the whole command, by the clock.
        result: What it printed.
        epochs: The lines of its metrics.jsonl.
    """

    seconds: float
    result: dict[str, Any]
    epochs: list[dict[str, Any]]

    @property
    def curve(self) -> LearningCurve:
        """Validation quality after each epoch."""
        values = tuple(line["val_accuracy"] for line in self.epochs)
        return LearningCurve(tuple(range(1, len(values) + 1)), values, CurveEnd.BUDGET)

    def seconds_to(self, target: float) -> float | None:
        """Returns the seconds from the start of the command until training kept `target`; None if it did not."""
        place = self.curve.place_reaching(target)
        if place is None:
            return None
        later = sum(float(line["train_s"]) + float(line["eval_s"]) for line in self.epochs[place + 1 :])
        return self.seconds - later


def run(spec: str, epochs: int, seed: int, folder: Path, *, auto: bool) -> Run:
    """Trains on the graph of `spec`, with `--auto` or the baseline."""
    options = ["--dataset", spec, "--epochs", str(epochs), "--patience", str(epochs), "--seed", str(seed)]
    options += ["--auto"] if auto else ["--model", "sage"]
    begin = time.perf_counter()
    command = [sys.executable, "-m", "a3gnn", "train", *options, "--out", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    lines = (Path(result["folder"]) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return Run(seconds, result, [json.loads(line) for line in lines])


def row(graph: str, pairs: list[tuple[Run, Run]]) -> dict[str, Any]:
    """Returns the figures of the `pairs` of `--auto` and the baseline, a pair per round."""
    sooner = []
    for auto, baseline in pairs:
        target = baseline.curve.best_held() - _DROP
        own, other = auto.seconds_to(target), baseline.seconds_to(target)
        if own is not None and other is not None:
            sooner.append(own / other)
    points = {
        name: Spread.of(100 * (auto.result[name] - baseline.result[name]) for auto, baseline in pairs)
        for name in ("val_accuracy", "test_accuracy")
    }
    spreads = {
        "baseline_s": Spread.of(baseline.seconds for _, baseline in pairs),
        "to_target": Spread.of(sooner),
        "whole": Spread.of(auto.seconds / baseline.seconds for auto, baseline in pairs),
        **points,
    }
    rounds = [{"trained": auto.result["auto"]["trains"], "config": auto.result["config"]} for auto, _ in pairs]
    return {"graph": graph, "rounds": rounds, "missed": len(pairs) - len(sooner)} | {
        name: None if spread is None else spread.to_dict() for name, spread in spreads.items()
    }


def warm(spec: str, folder: Path) -> None:
    """Fills the cache folder with all that is made once on a machine or of a graph."""
    graph = Graph.load(spec)
    compile_ahead(KernelSet.of(graph, with_metric(Task(), AUTO, graph, print)).of_a_tune, print)
    run(spec, 1, 0, folder, auto=False)
    recommend(spec, notify=lambda line: None)


def main() -> None:
    """Prints a line per graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=["fb100_multi_a"], help="names of real graphs, or for --dataset")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    options, rows = parser.parse_args(), []
    shown = Table("graph", "baseline", "to the target", "whole", "validation", "test", "missed", "trained")
    for given in options.graphs:
        spec, pairs = spec_of(given), []
        with tempfile.TemporaryDirectory() as name, own_cache(Path(name) / "cache"):
            folder = Path(name)
            warm(spec, folder / "warm")
            for number in range(options.rounds):
                done = {
                    auto: run(spec, options.epochs, number, folder / f"{number}-{auto}", auto=auto)
                    for auto in ((True, False) if number % 2 else (False, True))
                }
                pairs.append((done[True], done[False]))
        rows.append(row(given, pairs))
        spreads = (
            rows[-1][key] and Spread.from_dict(rows[-1][key]).describe(form, unit)
            for key, form, unit in (
                *(("baseline_s", ".0f", " s"), ("to_target", ".2f", "x"), ("whole", ".2f", "x")),
                *(("val_accuracy", "+.1f", ""), ("test_accuracy", "+.1f", "")),
            )
        )
        trained = ", ".join(one["trained"] for one in rows[-1]["rounds"])
        shown.add_row(given, *(one or "never" for one in spreads), str(rows[-1]["missed"]), trained)
    Console(width=160, highlight=False).print(shown)
    if options.json:
        write_report(options.json, rows=rows)


if __name__ == "__main__":
    main()
