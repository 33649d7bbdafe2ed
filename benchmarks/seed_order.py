"""The effect of seed orders on caches, labels and accuracy (BGL, section 3.2.2, figure 5 and table 5).

    python -m benchmarks.seed_order [GRAPH ...] [--batch-size 1024] [--fanouts 10,5] [--rounds 3] [--json FILE]
    python -m benchmarks.seed_order [GRAPH ...] --accuracy [--epochs 10] [--runs 5]

GRAPH is a name in the folder of real graphs ($A3GNN_DATA, else shared/data next to the repository) or a spec that
`--dataset` takes. An order is random, proximity as a3gnn chooses the number of sequences, or proximity with a given
number. Sampled mini-batches are replayed through caches of 5 to 40 % of the nodes, after one epoch that fills
them. Each round has a seed of its own and runs all orders.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.features.caches.replay import replay
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.hotness import hottest_first
from a3gnn.runtime import pipeline
from a3gnn.runtime.plan import epoch_plan
from a3gnn.runtime.proximity import ProximityOrder
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer
from benchmarks.engine.graphs import spec_of

GRAPHS = ("fb100_multi_a", "wordnet_en", "synthetic:nodes=200000,degree=20,classes=16,features=16,homophily=0.8")
#: Sequences of an order: 0 is a random order, None leaves the choice to a3gnn, and 5 is BGL's example.
ORDERS: tuple[int | None, ...] = (0, None, 5, 1)
SHARES = (0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class Round:
    """One order with one seed.

    Attributes:
        sequences: Breadth-first sequences; 0 in a random order.
        error: Mean total variation distance between a mini-batch's labels and all.
        times_random: Its ratio to a random order's.
        seconds: Seconds to make the order, once per run; 0 for a random one.
        input_nodes: Distinct nodes per mini-batch.
        hit_rates: By policy, one per share of `SHARES`.
    """

    sequences: int
    error: float
    times_random: float
    seconds: float
    input_nodes: float
    hit_rates: dict[str, list[float]]


def proximity(graph: Graph, batch_size: int, seed: int, sequences: int | None = None) -> ProximityOrder:
    """Returns the order of the graph's train nodes with `sequences`, or as many as it chooses."""
    return ProximityOrder(
        graph.indptr,
        graph.indices,
        graph.labels,
        graph.num_classes,
        graph.train_ids,
        batch_size,
        seed,
        num_sequences=sequences,
    )


def measure(
    graph: Graph, hot: NDArray[np.int32], sequences: int | None, batch_size: int, fanouts: Sequence[int], seed: int
) -> Round:
    """Returns the measurements of one order in its second epoch."""
    begin = perf_counter()
    made = proximity(graph, batch_size, seed, sequences or None)
    seconds = perf_counter() - begin
    sampler = NeighbourSampler(graph.indptr, graph.indices, fanouts, seed=seed)
    batches = [
        sampler.sample(batch.seeds, epoch, batch.index).n_id
        for epoch in range(2)
        for batch in epoch_plan(graph.train_ids, batch_size, seed, epoch, order=None if sequences == 0 else made)
    ]
    first = len(batches) // 2
    rates: dict[str, list[float]] = {"fifo": [], "degree": []}
    for policy, found in rates.items():
        ranked = hot if policy == "degree" else None
        for share in SHARES:
            slots = int(share * graph.num_nodes)
            found.append(replay(policy, batches, slots, graph.num_nodes, ranked, warm_up_batches=first).hit_rate)
    error = made.random_error if sequences == 0 else made.shuffling_error
    return Round(
        sequences=0 if sequences == 0 else made.num_sequences,
        error=error,
        times_random=error / made.random_error,
        seconds=0.0 if sequences == 0 else seconds,
        input_nodes=statistics.mean(map(len, batches[first:])),
        hit_rates=rates,
    )


def hits_of(graph: Graph, options: argparse.Namespace) -> dict[str, list[Round]]:
    """Returns the rounds of each order by its name, rounds interleaved."""
    hot = hottest_first(graph)
    proximity(graph, options.batch_size, 0, 1)  # compiles
    found: dict[str, list[Round]] = {name_of(order): [] for order in options.orders}
    for seed in range(options.rounds):
        for order in options.orders:
            found[name_of(order)].append(measure(graph, hot, order, options.batch_size, options.fanouts, seed))
    return found


def accuracies_of(graph: Graph, options: argparse.Namespace) -> dict[str, list[float]]:
    """Returns each order's test accuracies at the best validation epoch, one per seed, seeds interleaved."""
    found: dict[str, list[float]] = {name_of(order): [] for order in options.orders}
    for seed in range(options.runs):
        for order in options.orders:
            found[name_of(order)].append(accuracy(graph, order, options, seed))
    return found


def accuracy(graph: Graph, sequences: int | None, options: argparse.Namespace, seed: int) -> float:
    """Returns the test accuracy of the epoch with the best validation accuracy."""
    config = TrainConfig(batch_size=options.batch_size, seed_order="random" if sequences == 0 else "proximity")
    task = Task(hidden_channels=64, fanouts=tuple(options.fanouts), learning_rate=options.learning_rate, seed=seed)
    # A run chooses the number of sequences itself; a given number replaces that choice here.
    fixed = partial(ProximityOrder, num_sequences=sequences or None)
    with patch.object(pipeline, "ProximityOrder", fixed), Trainer(graph, config, task) as trainer:
        reached = []
        for epoch in range(options.epochs):
            for _ in trainer.steps(epoch):
                pass
            reached.append((trainer.validate(), trainer.test()))
    return max(reached, key=lambda accuracies: accuracies[0])[1]


def name_of(sequences: int | None) -> str:
    """Returns an order's name in tables."""
    return {0: "random", None: "proximity"}.get(sequences, f"proximity, {sequences} sequences")


def middle(values: Sequence[float], form: str) -> str:
    """Returns the median, and the range if there is one, each formatted by `form`."""
    low, high = form.format(min(values)), form.format(max(values))
    return form.format(statistics.median(values)) + (f" ({low} to {high})" if low != high else "")


def hits_table(title: str, found: dict[str, list[Round]]) -> Table:
    """Returns the orders of one graph as a table; cells of shares are hit rates and the rows missed."""
    shares = [f"{policy}, {share:.0%}" for share in SHARES for policy in ("degree", "fifo")]
    table = Table(
        "order", "sequences", "label error", "x random", "s to order", "nodes per batch", *shares, title=title
    )
    for name, rounds in found.items():
        nodes = statistics.median(one.input_nodes for one in rounds)
        cells = [
            f"{rate:.0%} {nodes * (1 - rate) / 1e3:.1f}k"
            for i in range(len(SHARES))
            for policy in ("degree", "fifo")
            for rate in [statistics.median(one.hit_rates[policy][i] for one in rounds)]
        ]
        table.add_row(
            name,
            middle([one.sequences for one in rounds], "{:.0f}"),
            middle([one.error for one in rounds], "{:.3f}"),
            f"{statistics.median(one.times_random for one in rounds):.2f}",
            middle([one.seconds for one in rounds], "{:.1f}"),
            f"{nodes / 1e3:.1f}k",
            *cells,
        )
    return table


def accuracy_table(title: str, found: dict[str, list[float]]) -> Table:
    """Returns mean and standard deviation of each order's accuracies, and the difference from random seed by seed."""
    table = Table("order", "test accuracy", "less random's, points", title=title)
    for name, values in found.items():
        gains = [100 * (one - other) for one, other in zip(values, found["random"], strict=True)]
        table.add_row(name, f"{spread(values, 100)} %", spread(gains, 1))
    return table


def spread(values: Sequence[float], scale: float) -> str:
    """Returns mean and standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{scale * statistics.mean(values):.2f} ± {scale * deviation:.2f}"


def orders(text: str) -> tuple[int | None, ...]:
    """Returns the orders that an option names, random first: others are compared with it."""
    names: dict[str, int | None] = {"random": 0, "auto": None}
    return (0, *(names[one] if one in names else int(one) for one in text.split(",") if one != "random"))


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("graphs", nargs="*", default=GRAPHS, metavar="GRAPH")
    made.add_argument("--batch-size", type=int, default=1024)
    made.add_argument("--fanouts", type=lambda text: [int(one) for one in text.split(",")], default=[10, 5])
    made.add_argument("--orders", type=orders, default=ORDERS, help="numbers of sequences; default random,auto,5,1")
    made.add_argument("--rounds", type=int, default=3, help="seeds of the hit rates; default 3")
    made.add_argument("--accuracy", action="store_true", help="train instead of replaying")
    made.add_argument("--epochs", type=int, default=10)
    made.add_argument("--runs", type=int, default=5, help="seeds of the accuracies; default 5")
    made.add_argument("--learning-rate", type=float, default=0.003)
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints a table per graph."""
    options, result, console = parser().parse_args(), dict[str, Any](), Console(width=200, highlight=False)
    for spec in options.graphs:
        graph = Graph.load(spec_of(spec))
        bound = math.sqrt(options.batch_size) / len(graph.train_ids)
        title = f"{graph!r}, {len(graph.train_ids):,} seeds, {options.batch_size} a mini-batch; BGL's bound {bound:.1e}"
        if options.accuracy:
            accuracies = accuracies_of(graph, options)
            console.print(accuracy_table(title, accuracies))
            result[spec] = accuracies
        else:
            rounds = hits_of(graph, options)
            console.print(hits_table(title, rounds))
            result[spec] = {name: [asdict(one) for one in found] for name, found in rounds.items()}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
