"""Tunes whose trials are chosen by the tune's own rule and by samplers of Optuna, on graphs that nothing was fitted to.

    python -m benchmarks.live_tunes [GRAPH ...] [--budget 2min] [--seeds 2] [--priority time] [--rounds 5]
        [--rules NAME ...] [--out runs/live] [--json FILE]

Every tune is whole: references, rounds of trials, play-off; with the same surrogate, limits, budget in seconds and
racing, whatever proposes its trials, and with a cache folder of its own, in which no curve, partition or table of
another tune is found: what comes first on a graph would have to make them for all. Seed by seed the rules take turns,
each seed beginning with another one. The limit on memory is what the default takes. Then what they chose and the
default train again by turns, each in a process of its own, for as long as the default's budget was, but long enough
that an epoch's speed can be told; the target is that of the first tune of the graph. A tune that is finished in --out
is not repeated, one that was interrupted goes on.

Columns: trials, and the share of their seconds that went to ones which failed or broke a limit; then medians and ranges
of the rounds: the choice's epochs per second over the default's, the default's seconds to accuracy and peak of memory
over the choice's, points of validation quality less the default's; and rounds in which the default reached the target
and the choice did not. The last lines are geometric means over graphs and seeds. Graphs are names of files in the
folder of real graphs ($A3GNN_DATA), or what `--dataset` takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.figures import Spread
from a3gnn.graphs.graph import Graph
from a3gnn.limits import Limits
from a3gnn.metric import AUTO
from a3gnn.objectives import Priority, memory_metric
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.engines.propose import propose
from a3gnn.tuning.run.rounds import Proposer
from a3gnn.tuning.run.session import open_study
from a3gnn.tuning.study.folder import holds_tune
from a3gnn.tuning.study.study import DEFAULT_PEAK, TuneRequest
from a3gnn.tuning.tune import tune_study
from a3gnn.units import parse_budget
from benchmarks.acquisition.sampler_proposals import SAMPLERS, SamplerProposals
from benchmarks.engine.graphs import spec_of
from benchmarks.report import write_report
from benchmarks.tuned_gain import Spent, trained

#: Real graphs of which the shipped profiles have no row.
GRAPHS = ("facebook_pages", "wordnet_en", "amazon_computers", "flickr_small")
_OWN, _CACHE = "a3gnn", "A3GNN_CACHE"
RULES = (_OWN, "Optuna GP", "Optuna TPE")


class Chosen(NamedTuple):
    """What came of a tune.

    Attributes:
        rule: What proposed its trials.
        seed: Its seed.
        tuned: Its choice.
        spent: Its trials.
    """

    rule: str
    seed: int
    tuned: TunedConfig
    spent: Spent


def proposer(rule: str, seed: int) -> Proposer:
    """Returns what proposes trials by `rule`."""
    return propose if rule == _OWN else SamplerProposals(SAMPLERS[rule], seed)


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """Has `folder` be the cache folder meanwhile, of this process and of those that it starts."""
    before = os.environ.get(_CACHE)
    os.environ[_CACHE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CACHE]
        else:
            os.environ[_CACHE] = before


def chosen(spec: str, rule: str, seed: int, folder: Path, options: argparse.Namespace) -> Chosen:
    """Returns what a tune of a graph by `rule` in `folder` chooses; a finished one is read, an interrupted resumed."""
    if not (folder / "tuned.json").exists():
        with own_cache(folder.with_name(f"{folder.name}-cache").absolute()):
            graph = Graph.load(spec)
            task, priority = with_metric(Task(), AUTO, graph, print), Priority.parse(options.priority)
            request = TuneRequest(spec, task, priority, DEFAULT_PEAK, None, 1.0, options.budget, "local", seed=seed)
            opened = open_study(request, graph, folder, resume=holds_tune(folder), started=time.monotonic())
            with opened as (history, runner):
                tune_study(history, runner, proposer(rule, seed))
    return Chosen(rule, seed, TunedConfig.read(folder), Spent.of(folder))


def trained_again(found: Sequence[Chosen], rounds: int) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Returns what `a3gnn train` prints of each choice and of the default, round by round, in an order that rotates.

    The target is the first tune's, and no limit ends them. Rounds have seeds of their own. A choice that is the default
    has its figures.
    """
    target = found[0].tuned.target_accuracy
    tuned = [dataclasses.replace(one.tuned, target_accuracy=target, limits=Limits()) for one in found]
    plans = [(tuned[0], TrainConfig()), *((one, one.config) for one in tuned)]
    results: list[list[dict[str, Any]]] = [[] for _ in plans]
    for number in range(rounds):
        for turn in range(len(plans)):
            place = (turn + number) % len(plans)
            one, config = plans[place]
            if place and config == TrainConfig().canonical():
                continue
            with tempfile.TemporaryDirectory() as folder:
                seed = one.setting.task.seed + number
                results[place].append(trained(one, config, seed, Path(folder), until_target=False))
    default = results[0]
    return [one or default for one in results[1:]], default


class Beside(NamedTuple):
    """A choice beside the default, trained again; spreads are over rounds.

    Attributes:
        throughput: Its epochs per second over the default's.
        time: The default's seconds to accuracy over its own; None where no round has both.
        memory: The default's peak over its own.
        points: Its points of validation accuracy less the default's.
        missed: Rounds in which it did not reach the target and the default did.
    """

    throughput: Spread | None
    time: Spread | None
    memory: Spread | None
    points: Spread | None
    missed: int

    @classmethod
    def of(cls, choice: Sequence[dict[str, Any]], default: Sequence[dict[str, Any]], memory: str) -> Beside:
        """Returns what the results of `a3gnn train`, round by round, come to."""
        pairs = list(zip(choice, default, strict=True))
        name = "seconds_to_accuracy"
        times = [other[name] / one[name] for one, other in pairs if one[name] and other[name]]
        speed = "throughput_epochs_per_s"
        return cls(
            throughput=Spread.of(one[speed] / other[speed] for one, other in pairs),
            time=Spread.of(times),
            memory=Spread.of(other[memory] / one[memory] for one, other in pairs),
            points=Spread.of(100 * (one["val_accuracy"] - other["val_accuracy"]) for one, other in pairs),
            missed=sum(not one[name] and bool(other[name]) for one, other in pairs),
        )


def main() -> None:
    """Prints a line per graph, seed and rule, then one per rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=GRAPHS, help="names of real graphs, or what --dataset takes")
    parser.add_argument("--budget", default="2min", type=parse_budget)
    parser.add_argument("--seeds", type=int, default=2, help="tunes of each graph by each rule")
    parser.add_argument("--priority", default="time")
    parser.add_argument("--rounds", type=int, default=5, help="times that what was chosen trains again")
    parser.add_argument("--rules", nargs="+", default=RULES, choices=(_OWN, *SAMPLERS))
    parser.add_argument("--out", type=Path, default=Path("runs/live"), help="where the tunes' folders are")
    parser.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    options, console = parser.parse_args(), Console(width=160, highlight=False)
    compile_ahead(KernelSet(), print)
    rows: list[dict[str, Any]] = []
    for given in options.graphs:
        spec, found = spec_of(given), []
        name = Graph.load(spec).name
        for seed in range(options.seeds):
            for turn in range(len(options.rules)):
                rule = options.rules[(turn + seed) % len(options.rules)]
                folder = options.out / f"{name}-{rule.replace(' ', '-')}-{seed}"
                found.append(chosen(spec, rule, seed, folder, options))
        memory = memory_metric(found[0].tuned.setting.hardware.has_device)
        again, default = trained_again(found, options.rounds)
        for one, results in zip(found, again, strict=True):
            rows.append(_row(name, one, Beside.of(results, default, memory)))
        console.print(_table([row for row in rows if row["graph"] == name]))
    for rule in options.rules:
        console.print(summary(rule, [row for row in rows if row["rule"] == rule]))
    if options.json:
        write_report(options.json, rows=rows)


def summary(rule: str, rows: Sequence[dict[str, Any]]) -> str:
    """Returns the line of one rule: geometric means over its tunes."""
    parts = []
    for name, label in (("time", "time"), ("throughput", "epochs/s"), ("memory", "memory")):
        values = [row[name]["median"] for row in rows if row[name]]
        parts.append(f"{label} {statistics.geometric_mean(values):.2f} x" if values else f"{label} unknown")
    points = statistics.fmean(row["points"]["median"] for row in rows)
    lost = sum(row["lost_s"] for row in rows) / max(sum(row["trials_s"] for row in rows), 1e-9)
    missed = sum(row["missed"] for row in rows)
    return f"{rule}: {', '.join(parts)}, {points:+.2f} points; {lost:.0%} of seconds lost, {missed} rounds missed"


def _row(graph: str, one: Chosen, beside: Beside) -> dict[str, Any]:
    spreads = {
        name: None if found is None else found.to_dict() for name, found in beside._asdict().items() if name != "missed"
    }
    tune = {"graph": graph, "seed": one.seed, "rule": one.rule, "config": one.tuned.config.to_dict()}
    return tune | one.spent._asdict() | spreads | {"missed": beside.missed}


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    shown = Table("graph", "seed", "rule", "trials", "lost", "epochs/s", "time", "memory", "points", "missed")
    for row in rows:
        spreads = (
            row[name] and Spread.from_dict(row[name]).describe() for name in ("throughput", "time", "memory", "points")
        )
        lost = f"{row['lost_s'] / row['trials_s']:.0%}" if row["trials_s"] else ""
        counts = str(row["seed"]), row["rule"], str(row["trials"]), lost
        shown.add_row(row["graph"], *counts, *(one or "" for one in spreads), str(row["missed"]))
    return shown


if __name__ == "__main__":
    main()
