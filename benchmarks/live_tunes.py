"""Compares engines by whole tunes on real graphs that nothing was fitted to.

    python -m benchmarks.live_tunes [GRAPH ...] [--budget 2min] [--seeds 2] [--priority time] [--rounds 5]
        [--engines NAME ...] [--first-trial] [--out runs/live] [--json FILE]

Every tune is whole: baseline, trials and verification, with the same surrogate, limits, budget in seconds and racing,
whichever engine chooses its trials. Each has a cache folder of its own: otherwise the first tune of a graph would make
curves, partitions and tables for all. Seed by seed the engines take turns. The limit on memory is the baseline's peak.
Then the choices and the baseline train again in turns, each in its own process, for as long as the baseline's budget
was, or longer if an epoch's speed needs it. The target is that of the graph's first tune. A finished tune in --out is
not repeated, and an interrupted one goes on. An engine "alone" is Optuna without our beliefs. "rate x2 alone" is the
baseline with twice the task's learning rate, without a tune: the share of a gain that needs no other knob. With
--first-trial, the configuration of each tune's first trial trains again, too.

Columns: trials, and the share of their seconds in those that failed or broke a limit; then medians and ranges of the
rounds: the choice's epochs per second over the baseline's, the baseline's seconds to accuracy and peak memory over the
choice's, points of validation and of test quality less the baseline's, and rounds in which only the baseline reached
the target.
The last lines are geometric means over graphs and seeds. Graphs are names of files in the folder of real graphs
($A3GNN_DATA), or arguments of `--dataset`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
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
from a3gnn.tuning.engines.engine import Engine, make_engine
from a3gnn.tuning.engines.samplers import GpEngine, TpeEngine
from a3gnn.tuning.run.blocks import SEEDS
from a3gnn.tuning.run.session import open_study
from a3gnn.tuning.study.folder import Journal, holds_tune
from a3gnn.tuning.study.study import DEFAULT_PEAK, TuneRequest
from a3gnn.tuning.tune import tune_study
from a3gnn.units import parse_budget
from benchmarks.engine.graphs import spec_of
from benchmarks.report import write_report
from benchmarks.tuned_gain import RATES, Spent, rate_alone, trained

#: Real graphs of which the shipped profiles have no row.
GRAPHS = ("facebook_pages", "wordnet_en", "amazon_computers", "flickr_small")
_CACHE = "A3GNN_CACHE"
#: Makes the engine of a seed. Those named alone are Optuna without our beliefs.
MAKE: Mapping[str, Callable[[int], Engine]] = {
    **{name: partial(make_engine, name) for name in ("ei", "ppo", "gp", "tpe")},
    "gp alone": partial(GpEngine, with_beliefs=False),
    "tpe alone": partial(TpeEngine, with_beliefs=False),
}


class Chosen(NamedTuple):
    """What came of a tune.

    Attributes:
        engine: What proposed its trials.
        seed: Its seed.
        tuned: Its choice.
        spent: Its trials.
    """

    engine: str
    seed: int
    tuned: TunedConfig
    spent: Spent


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


def chosen(spec: str, engine: str, seed: int, folder: Path, options: argparse.Namespace) -> Chosen:
    """Returns the choice of a tune by `engine` in `folder`; reads a finished tune, and resumes an interrupted one."""
    if not (folder / "tuned.json").exists():
        with own_cache(folder.with_name(f"{folder.name}-cache").absolute()):
            graph = Graph.load(spec)
            task, priority = with_metric(Task(), AUTO, graph, print), Priority.parse(options.priority)
            name = engine.partition(" ")[0]  # the engine "alone" is not one of the product
            request = TuneRequest(spec, task, priority, DEFAULT_PEAK, None, 1.0, options.budget, name, seed=seed)
            opened = open_study(request, graph, folder, resume=holds_tune(folder), started=time.monotonic())
            with opened as (history, runner):
                tune_study(history, runner, MAKE[engine](seed))
    return Chosen(engine, seed, TunedConfig.read(folder), Spent.of(folder))


def first_trial(one: Chosen, folder: Path) -> Chosen:
    """Returns the configuration of the first trial of the tune in `folder`, as if `one` had chosen that."""
    trial = next(trial for trial in Journal(folder).read(mend=False) if trial.counts and trial.metrics is not None)
    tuned = dataclasses.replace(one.tuned, config=trial.measurement.config, measured=trial.metrics)
    return one._replace(engine=f"{one.engine}, first trial", tuned=tuned)


def rates_alone(one: Chosen) -> list[Chosen]:
    """Returns the baseline with each of `RATES`, as if tunes without trials had chosen it."""
    untuned = Spent(0, 0, 0.0, 0.0)
    return [Chosen(f"rate x{rate:g} alone", one.seed, rate_alone(one.tuned, rate), untuned) for rate in RATES]


def trained_again(found: Sequence[Chosen], rounds: int) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Returns what `a3gnn train` prints of each choice and of the default, round by round, in an order that rotates.

    The target is the first tune's, and no limit ends them. Each round has a seed that no tune trained with. A choice
    that is the default has its figures.
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
                seed = one.setting.task.seed + SEEDS + number
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
        test: Its points of test accuracy less the default's.
        missed: Rounds in which it did not reach the target and the default did.
    """

    throughput: Spread | None
    time: Spread | None
    memory: Spread | None
    points: Spread | None
    test: Spread | None
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
            test=Spread.of(100 * (one["test_accuracy"] - other["test_accuracy"]) for one, other in pairs),
            missed=sum(not one[name] and bool(other[name]) for one, other in pairs),
        )


def main() -> None:
    """Prints a line per graph, seed and engine, then one per engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=GRAPHS, help="names of real graphs, or what --dataset takes")
    parser.add_argument("--budget", default="2min", type=parse_budget)
    parser.add_argument("--seeds", type=int, default=2, help="tunes of each graph by each engine")
    parser.add_argument("--priority", default="time")
    parser.add_argument("--rounds", type=int, default=5, help="times that what was chosen trains again")
    parser.add_argument("--engines", nargs="+", default=["ppo", "gp", "tpe"], choices=list(MAKE))
    parser.add_argument("--first-trial", action="store_true", help="train first trials' configurations again, too")
    parser.add_argument("--out", type=Path, default=Path("runs/live"), help="where the tunes' folders are")
    parser.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    options, console = parser.parse_args(), Console(width=160, highlight=False)
    compile_ahead(KernelSet(), print)
    rows: list[dict[str, Any]] = []
    for given in options.graphs:
        spec, found = spec_of(given), []
        name = Graph.load(spec).name
        for seed in range(options.seeds):
            for turn in range(len(options.engines)):
                engine = options.engines[(turn + seed) % len(options.engines)]
                folder = options.out / f"{name}-{engine.replace(' ', '-')}-{seed}"
                found.append(chosen(spec, engine, seed, folder, options))
                if options.first_trial and found[-1].spent.trials > found[-1].spent.lost:
                    found.append(first_trial(found[-1], folder))
        found = [*rates_alone(found[0]), *found]
        memory = memory_metric(found[0].tuned.setting.hardware.has_device)
        again, default = trained_again(found, options.rounds)
        for one, results in zip(found, again, strict=True):
            rows.append(_row(name, one, Beside.of(results, default, memory)))
        console.print(_table([row for row in rows if row["graph"] == name]))
    for engine in dict.fromkeys(row["engine"] for row in rows):
        console.print(summary(engine, [row for row in rows if row["engine"] == engine]))
    if options.json:
        write_report(options.json, rows=rows)


def summary(engine: str, rows: Sequence[dict[str, Any]]) -> str:
    """Returns the line of one engine: geometric means over its tunes."""
    parts = []
    for name, label in (("time", "time"), ("throughput", "epochs/s"), ("memory", "memory")):
        values = [row[name]["median"] for row in rows if row[name]]
        parts.append(f"{label} {statistics.geometric_mean(values):.2f} x" if values else f"{label} unknown")
    points, test = (statistics.fmean(row[name]["median"] for row in rows) for name in ("points", "test"))
    lost = sum(row["lost_s"] for row in rows) / max(sum(row["trials_s"] for row in rows), 1e-9)
    missed = sum(row["missed"] for row in rows)
    gains = f"{', '.join(parts)}, {points:+.2f} points, test {test:+.2f}"
    return f"{engine}: {gains}; {lost:.0%} of seconds lost, {missed} rounds missed"


def _row(graph: str, one: Chosen, beside: Beside) -> dict[str, Any]:
    spreads = {
        name: None if found is None else found.to_dict() for name, found in beside._asdict().items() if name != "missed"
    }
    tune = {"graph": graph, "seed": one.seed, "engine": one.engine, "config": one.tuned.config.to_dict()}
    return tune | one.spent._asdict() | spreads | {"missed": beside.missed}


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    shown = Table("graph", "seed", "engine", "trials", "lost", "epochs/s", "time", "memory", "points", "test", "missed")
    for row in rows:
        spreads = (
            row[name] and Spread.from_dict(row[name]).describe()
            for name in ("throughput", "time", "memory", "points", "test")
        )
        lost = f"{row['lost_s'] / row['trials_s']:.0%}" if row["trials_s"] else ""
        counts = str(row["seed"]), row["engine"], str(row["trials"]), lost
        shown.add_row(row["graph"], *counts, *(one or "" for one in spreads), str(row["missed"]))
    return shown


if __name__ == "__main__":
    main()
