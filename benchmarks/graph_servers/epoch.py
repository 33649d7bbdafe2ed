"""`sample_epoch`: an epoch of mini-batches with a process per part."""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np

from a3gnn.graphs.graph import Graph
from a3gnn.runtime.plan import epoch_plan
from benchmarks.graph_servers.server import GraphServer, Traffic

_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Work:
    """What to sample.

    Attributes:
        folder: The converted graph.
        parts: A file of each node's part, int32, shape (num_nodes,), as numpy saves it.
        num_parts: Parts.
        batch_size: Seeds per mini-batch.
        fanouts: In-neighbours sampled per node, the seeds' hop first.
        seed: Decides the order of the seeds and what is drawn.
    """

    folder: Path
    parts: Path
    num_parts: int
    batch_size: int
    fanouts: Sequence[int]
    seed: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """The cost of an epoch of sampling, over all servers.

    Attributes:
        seconds: Seconds until the last server had sampled its last mini-batch.
        waited: Share of them in which a server had nothing left to sample, the mean over servers.
        remote: Share of the expanded nodes whose in-neighbours were requested from another server.
        bytes_sent: Bytes of requests and answers.
        mini_batches: Mini-batches sampled.
    """

    seconds: float
    waited: float
    remote: float
    bytes_sent: int
    mini_batches: int


def sample_epoch(work: Work) -> Epoch:
    """Returns the cost of an epoch, from the moment when all servers have their rows."""
    with _servers(work) as controls:
        list(_told(controls, "warm up"))
        begin, mini_batches, ends = perf_counter(), 0, []
        for sampled in _told(controls, "sample"):
            mini_batches += sampled
            ends.append(perf_counter() - begin)
        traffic: list[Traffic] = list(_told(controls, "end"))
    return Epoch(
        seconds=max(ends),
        waited=1 - statistics.mean(ends) / max(ends),
        remote=sum(one.remote for one in traffic) / sum(one.expanded for one in traffic),
        bytes_sent=sum(one.bytes_sent for one in traffic),
        mini_batches=mini_batches,
    )


def _told(controls: Sequence[Connection], what: str) -> Iterator[Any]:
    """Sends to all servers, and yields their answers as they arrive."""
    for control in controls:
        control.send(what)
    waiting = list(controls)
    while waiting:
        for control in wait(waiting):
            assert isinstance(control, Connection)
            yield control.recv()
            waiting.remove(control)


@contextmanager
def _servers(work: Work) -> Iterator[list[Connection]]:
    """Starts the servers, and yields a connection to each."""
    context, everyone = multiprocessing.get_context("spawn"), range(work.num_parts)
    with ExitStack() as ends:

        def pair() -> tuple[Connection, Connection]:
            left, right = context.Pipe()
            return ends.enter_context(left), ends.enter_context(right)

        links = {(asker, asked): pair() for asker in everyone for asked in everyone if asker != asked}
        controls = [pair() for _ in everyone]
        processes = []
        for rank in everyone:
            asks = {asked: link[0] for (asker, asked), link in links.items() if asker == rank}
            answers = [link[1] for (_, asked), link in links.items() if asked == rank]
            args = (work, rank, asks, answers, controls[rank][1])
            processes.append(context.Process(target=_serve, args=args, daemon=True))
            processes[-1].start()
        # Connections left open here would keep a server from noticing that another has ended.
        for end in (*(end for link in links.values() for end in link), *(theirs for _, theirs in controls)):
            end.close()
        try:
            yield [ours for ours, _ in controls]
        finally:
            for process in processes:
                process.join(_PATIENCE_S)
                process.kill()


def _serve(work: Work, rank: int, asks: dict[int, Connection], asked: list[Connection], control: Connection) -> None:
    """Warms up, samples its mini-batches and ends, each on request; answers the other servers meanwhile."""
    graph, parts = Graph.load(work.folder), np.load(work.parts)
    server = GraphServer(graph, parts, rank, asks, work.fanouts, work.seed)
    plan = epoch_plan(graph.train_ids[parts[graph.train_ids] == rank], work.batch_size, work.seed, 0)
    answering = [Thread(target=server.serve, args=(link,)) for link in asked]
    for thread in answering:
        thread.start()
    control.recv()
    for batch in plan[:1]:
        server.sample(batch.seeds, batch.index)
    control.send("warm")
    control.recv()
    server.traffic = Traffic()
    for batch in plan:
        server.sample(batch.seeds, batch.index)
    control.send(len(plan))
    control.recv()
    server.hang_up()
    for thread in answering:
        thread.join()
    control.send(server.traffic)
