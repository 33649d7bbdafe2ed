"""Synchronous algorithms with real ranks: time, traffic, accuracy, and what the scheduler and direct access gain.

    python -m benchmarks.algorithms [--graphs amazon_computers fb100_multi_a] [--ranks 2] [--rounds 3] [--json FILE]
    python -m benchmarks.algorithms --accuracy [--seeds 5] [--epochs 30] ...

Each run is of fresh processes, one thread each, and the variants alternate. A run trains an epoch to warm up and some
that are timed: an epoch's seconds are those of the slowest rank. Beta and bytes are of an epoch and of all ranks
together. "skewed" variants are DistDGL on parts of which the first has most nodes; rows are read, then aggregated, in
all of them, so that they differ by the scheduler and by direct access ("DC") alone.

With --accuracy each algorithm trains --epochs epochs per seed, and one process with mini-batches of as many seeds as
all ranks' together.

A graph is the name of a file in the folder of real graphs ($A3GNN_DATA), or anything that `Graph.load` takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from a3gnn.units import format_size
from benchmarks.engine.graphs import spec_of
from benchmarks.report import median_and_range

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from a3gnn.algorithms.algorithm import Algorithm
    from a3gnn.graphs.graph import Graph

EPOCHS = 3
#: Seeds of all ranks' mini-batches together.
BATCH = 1024
#: Train nodes of the first skewed part over those of each other one.
SKEW = 2.5
ALGORITHMS = ("distdgl", "pagraph", "p3")
#: Variants of DistDGL on skewed parts: whether mini-batches are balanced, and whether rows come directly.
SKEWED = {"skewed": (False, False), "skewed, scheduler": (True, False), "skewed, scheduler, DC": (True, True)}


def skewed(graph: Graph, ranks: int, seed: int) -> NDArray[np.int64]:
    """Returns parts that are runs of nodes in the order of METIS's finer parts, the first `SKEW` times the others."""
    import numpy as np

    from a3gnn.graphs.partition import partition

    order = np.argsort(partition(graph, 16 * ranks, seed), kind="stable")
    ends = np.cumsum([SKEW] + [1] * (ranks - 1)) / (SKEW + ranks - 1)
    found = np.empty(graph.num_nodes, dtype=np.int64)
    found[order] = np.searchsorted(ends, (np.arange(graph.num_nodes) + 0.5) / graph.num_nodes)
    return found


def algorithm_of(variant: str) -> Algorithm:
    """Returns the algorithm of a variant."""
    from a3gnn.algorithms.built_in import DISTDGL, named

    if variant not in SKEWED:
        return named(variant)
    balanced, direct = SKEWED[variant]
    return dataclasses.replace(DISTDGL, partition=skewed, balanced=balanced, direct=direct)


def time_ranks(spec: str, variant: str) -> dict[str, Any]:
    """Returns what this rank of a variant measures."""
    from a3gnn.config import TrainConfig
    from a3gnn.features.stores.dense import DenseHostStore
    from a3gnn.graphs.graph import Graph
    from a3gnn.task import Task
    from a3gnn.training.ranks.processes import processes
    from a3gnn.training.request import TrainRequest
    from a3gnn.training.traffic import Traffic

    if variant in SKEWED:
        DenseHostStore.can_aggregate = False
    with processes(algorithm_of(variant)) as us:
        with us.first_alone():
            graph = Graph.load(spec).on_disk()
        config = TrainConfig(batch_size=BATCH // us.count)
        request = us.adapted(TrainRequest(graph, config, Task(), None), lambda line: None)
        with us.first_alone():
            trainer = us.trainer(request)
        with trainer:
            list(trainer.steps(0))
            seconds = []
            for epoch in range(1, EPOCHS + 1):
                begin = perf_counter()
                steps = list(trainer.steps(epoch))
                seconds.append(perf_counter() - begin)
        traffic = Traffic.sum([one for step in steps for one in step.traffic])
        us.total(0)  # nobody ends before the others are done
    return {"epoch_s": statistics.median(seconds), "iterations": len(steps), "traffic": traffic.to_dict()}


def train_ranks(spec: str, variant: str, seed: int, epochs: int, out: Path) -> dict[str, Any]:
    """Returns the accuracy that this rank's training reaches; of one process for the variant "one process"."""
    from a3gnn.config import TrainConfig
    from a3gnn.task import Task
    from a3gnn.training.train import train

    alone = variant == "one process"
    config = TrainConfig(batch_size=BATCH if alone else BATCH // int(os.environ["WORLD_SIZE"]))
    result = train(
        config,
        spec,
        task=Task(seed=seed),
        algorithm=None if alone else algorithm_of(variant),
        epochs=epochs,
        patience=None,
        out=out / "run",
        notify=lambda line: None,
    )
    return {"test_accuracy": result.test_accuracy}


def measure(ranks: int, *words: str) -> list[dict[str, Any]]:
    """Returns what each of `ranks` fresh processes returns that works as `words` say."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable]
        if ranks > 1:
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        command += ["-m", "benchmarks.algorithms", *words, "--work", folder]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        return [json.loads((Path(folder) / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]


def times(found: dict[str, list[list[dict[str, Any]]]]) -> list[str]:
    """Returns a Markdown table of the rounds of each variant, each of which has every rank's figures."""
    out = ["| variant | seconds per epoch | iterations | beta | host bytes | gradients | activations |"]
    out.append("|---|---:|---:|---:|---:|---:|---:|")
    for name, runs in found.items():
        epochs, one = [max(rank["epoch_s"] for rank in run) for run in runs], runs[0][0]
        sizes = [format_size(one["traffic"][f"{kind}_bytes"]) for kind in ("host", "gradient", "activation")]
        out.append(
            f"| {name} | {median_and_range(epochs)} | {one['iterations']} | {one['traffic']['beta']:.2f} | "
            f"{' | '.join(sizes)} |"
        )
    return out


def gains(found: dict[str, list[list[dict[str, Any]]]]) -> list[str]:
    """Returns what the scheduler gains, and direct access beside it, within each round: one over the other, less 1."""
    names = list(SKEWED)
    epochs = [[max(rank["epoch_s"] for rank in run) for run in found[name]] for name in names]
    pairs = zip(names[1:], epochs[:-1], epochs[1:], strict=True)
    return [
        f"{name.rsplit(', ', 1)[1]}: "
        f"{median_and_range([100 * (slow / fast - 1) for slow, fast in zip(before, after, strict=True)], 1)} % faster"
        for name, before, after in pairs
    ]


def accuracies(found: dict[str, list[float]]) -> list[str]:
    """Returns a Markdown table of each variant's test accuracies by seed, beside those of one process."""
    out = ["| variant | test accuracy, %: mean ± deviation | less one process, points |", "|---|---:|---:|"]
    base = statistics.mean(found["one process"])
    for name, values in found.items():
        mean, deviation = statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0
        out.append(f"| {name} | {100 * mean:.2f} ± {100 * deviation:.2f} | {100 * (mean - base):+.2f} |")
    return out


def compare(spec: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures all variants on a graph, and prints the tables."""
    if options.accuracy:
        scores: dict[str, list[float]] = {name: [] for name in ("one process", *ALGORITHMS)}
        for seed in range(options.seeds):
            for name, values in scores.items():
                ranks = 1 if name == "one process" else options.ranks
                words = ["--spec", spec, "--variant", name, "--accuracy", "--seed", str(seed)]
                values.append(measure(ranks, *words, "--epochs", str(options.epochs))[0]["test_accuracy"])
        print("\n".join(accuracies(scores)), flush=True)
        return {"accuracy": scores}
    found: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in (*ALGORITHMS, *SKEWED)}
    for _ in range(options.rounds):
        for name, runs in found.items():
            runs.append(measure(options.ranks, "--spec", spec, "--variant", name))
    print("\n".join([*times(found), "", *gains(found)]), flush=True)
    return {"times": found}


def main() -> None:
    """Compares the variants, or works as one process of one with --work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=["amazon_computers", "fb100_multi_a"], metavar="GRAPH")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--accuracy", action="store_true", help="Train to the end, in place of timing epochs.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE", help="Writes all that was measured.")
    for hidden, kind in (("--work", Path), ("--spec", str), ("--variant", str), ("--seed", int)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        given = options.spec, options.variant
        own = (
            train_ranks(*given, options.seed, options.epochs, options.work) if options.accuracy else time_ranks(*given)
        )
        (options.work / f"{os.environ.get('RANK', 0)}.json").write_text(json.dumps(own), encoding="utf-8")
        os._exit(0)  # a group that something still holds may abort a process that is done (docs/distributed.md)
    found = {}
    for name in options.graphs:
        print(f"\n{name}, {options.ranks} ranks of one thread each\n")
        found[name] = compare(spec_of(name), options)
        if options.json is not None:  # a graph at a time: an interrupted benchmark leaves what it has
            options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
