"""Training over graph servers beside training on the graph itself: seconds, bytes, requests, and whose processor.

    python -m benchmarks.graph_servers [--graphs fb100_multi_a ...] [--servers 3] [--batches 30] [--rounds 3]
    python -m benchmarks.graph_servers.transports

Servers are `a3gnn parts serve`, on this machine: requests cost copies and wake-ups but no network, and servers share
the trainer's cores. Each round trains the first mini-batches of another epoch in each way, one way after the other, so
that the machine's drift is in all of them; an epoch's seconds are those of a mini-batch times its mini-batches. Weights
are the same in all ways with the same knobs (tests/parts); here only costs are looked at.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import PARTITIONERS, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.make import make_parts
from a3gnn.parts.opening import open_parts
from a3gnn.parts.spec import PartsSpec
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer
from a3gnn.units import format_size
from benchmarks.engine.graphs import spec_of
from benchmarks.graph_servers.cost import Cost, cost_of, remote_share
from benchmarks.graph_servers.servers import Server, servers
from benchmarks.report import median_and_range, write_report

GRAPHS = ("fb100_multi_a", "synthetic:nodes=400000,degree=15,classes=64,homophily=0.9,mixing=0.1")
_WORKERS = 2
#: Share of the rows that a cache holds where there is one.
_CACHED = 0.2


def ways(graph: Graph, parted: PartedGraph, batch_size: int) -> dict[str, tuple[Graph, TrainConfig]]:
    """Returns the graph and the configuration of each way to train."""
    plain = TrainConfig(batch_size=batch_size)
    ahead = plain.replace(parallel_mode="mode1", num_workers=_WORKERS)
    cache_bytes = round(_CACHED * graph.features.nbytes) + CACHE_INDEX_BYTES * graph.num_nodes
    found: dict[str, tuple[Graph, TrainConfig]] = {
        "here": (graph, plain),
        "here, mode1": (graph, ahead),
        "servers": (parted, plain),
        "servers, mode1": (parted, ahead),
        "servers, mode1, a fifth cached": (parted, ahead.replace(cache_bytes=cache_bytes)),
    }
    if graph.features.row_bytes == 4 * graph.num_features:
        found["servers, mode1, float16"] = parted, ahead.replace(feature_dtype="float16")
    return found


def costs_of(
    graph: Graph, parted: PartedGraph, started: Sequence[Server], options: argparse.Namespace
) -> tuple[dict[str, list[Cost]], int]:
    """Returns each way's costs by round, and the mini-batches of an epoch."""
    task = Task(fanouts=tuple(options.fanouts), hidden_channels=options.hidden)
    with ExitStack() as open_trainers:
        trainers = {
            way: open_trainers.enter_context(Trainer(one, config, task))
            for way, (one, config) in ways(graph, parted, options.batch_size).items()
            if way in options.ways or not options.ways
        }
        found: dict[str, list[Cost]] = {way: [] for way in trainers}
        for epoch in range(-1, options.rounds):
            for way, trainer in trainers.items():
                cost = cost_of(trainer, epoch + 1, options.batches if epoch >= 0 else options.warm_up, started)
                if epoch >= 0:  # the first compiles, and finds out whether workers overlap with training
                    found[way].append(cost)
        return found, next(iter(trainers.values())).batches_per_epoch


def table(title: str, found: dict[str, list[Cost]], batches: int) -> Table:
    """Returns the costs as a table: medians, seconds with their range."""
    columns = (
        "seconds per epoch",
        "of here",
        "requests",
        "received",
        "waited, ms",
        "trainer CPU, ms",
        "servers CPU, ms",
    )
    shown = Table("", *columns, "hits", title=title)
    for way, costs in found.items():
        seconds = [batches * cost.seconds for cost in costs]
        ratios = [cost.seconds / other.seconds for cost, other in zip(costs, found.get("here", costs), strict=True)]
        of_all = {name: statistics.median(getattr(cost, name) for cost in costs) for name in asdict(costs[0])}
        shown.add_row(
            way,
            median_and_range(seconds, 1),
            median_and_range(ratios),
            f"{of_all['requests']:.0f}",
            format_size(of_all["received"]),
            *(f"{1e3 * of_all[name]:.0f}" for name in ("waited_s", "processor_s", "server_s")),
            f"{of_all['hits']:.0%}",
        )
    return shown


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--graphs", nargs="+", default=GRAPHS)
    made.add_argument("--servers", type=int, default=3)
    made.add_argument("--partitioners", nargs="+", choices=PARTITIONERS, default=["blocks"])
    made.add_argument("--ways", nargs="+", default=(), help="some of the ways to train; all by default")
    made.add_argument("--batch-size", type=int, default=1024)
    made.add_argument("--fanouts", nargs="+", type=int, default=[25, 10])
    made.add_argument("--hidden", type=int, default=128)
    made.add_argument("--batches", type=int, default=30, help="mini-batches per round")
    made.add_argument("--warm-up", type=int, default=40, help="mini-batches that are not counted")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints a table per graph and partitioner."""
    options, rows, console = parser().parse_args(), [], Console(width=160, highlight=False)
    for name in options.graphs:
        graph = Graph.load(spec_of(name)).on_disk()
        for partitioner in options.partitioners:
            with tempfile.TemporaryDirectory() as scratch:
                rows.append(_measured(graph, name, partitioner, Path(scratch) / "parts", options, console))
    if options.json:
        write_report(options.json, rows=rows)


def _measured(
    graph: Graph, name: str, partitioner: Any, folder: Path, options: argparse.Namespace, console: Console
) -> dict[str, Any]:
    made = make_parts(graph, folder, options.servers, partitioner=partitioner)
    cut = sum(part.cut_edges for part in made) / graph.num_edges
    with servers(folder) as started:
        parted = open_parts(PartsSpec(tuple(server.address for server in started)))
        found, batches = costs_of(graph, parted, started, options)
        remote = remote_share(graph, parted.client.owners, options.fanouts, options.batch_size, 10)
        held, server_bytes = parted.held_bytes, max(server.anonymous_bytes for server in started)
        parted.client.close()
    told = (
        f"{graph!r}; {options.servers} servers, {partitioner} ({cut:.1%} of edges cut, {remote:.1%} remote), per "
        f"mini-batch; {format_size(held)} of the graph held by the trainer, {format_size(server_bytes)} by a server"
    )
    console.print(table(told, found, batches))
    kept = {way: list(map(asdict, costs)) for way, costs in found.items()}
    about = {"graph": name, "servers": options.servers, "partitioner": partitioner, "cut": cut, "remote": remote}
    return {**about, "held_bytes": held, "server_bytes": server_bytes, "batches": batches, "costs": kept}


if __name__ == "__main__":
    main()
