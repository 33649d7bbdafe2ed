"""`cost_of`: what some mini-batches of training cost, here and at the graph servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.graph import Graph
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.traffic import Traffic
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.training.trainer import Trainer
from benchmarks.graph_servers.servers import Server


@dataclass(frozen=True, slots=True)
class Cost:
    """Per mini-batch of training.

    Attributes:
        seconds: By the clock.
        processor_s: Seconds of processor time of the trainer.
        server_s: Of all graph servers together.
        requests: To graph servers.
        received: Bytes that they answered.
        sent: Bytes that they were asked with.
        waited_s: Seconds for which threads waited for answers.
        hits: Share of rows that the cache had.
    """

    seconds: float
    processor_s: float
    server_s: float
    requests: float
    received: float
    sent: float
    waited_s: float
    hits: float


def cost_of(trainer: Trainer, epoch: int, batches: int, servers: Sequence[Server]) -> Cost:
    """Returns the cost of the first `batches` mini-batches of `epoch`, after one that is not counted."""
    graph = trainer.graph
    with_steps = trainer.steps(epoch)
    next(with_steps)
    before, begin, own, theirs = _traffic(graph), perf_counter(), _own_s(), _server_s(servers)
    steps = list(islice(with_steps, batches))
    seconds, spent = perf_counter() - begin, _traffic(graph).since(before)
    with_steps.close()
    count = len(steps)
    return Cost(
        seconds=seconds / count,
        processor_s=(_own_s() - own) / count,
        server_s=(_server_s(servers) - theirs) / count,
        requests=spent.requests / count,
        received=spent.bytes_received / count,
        sent=spent.bytes_sent / count,
        waited_s=spent.waited_s / count,
        hits=sum(step.hits for step in steps) / max(1, sum(step.input_nodes for step in steps)),
    )


def remote_share(
    graph: Graph, owners: NDArray[np.integer], fanouts: Sequence[int], batch_size: int, batches: int
) -> float:
    """Returns the share of expanded nodes that are of another part than their mini-batch's seeds.

    It is what would go over the network if each part had a trainer of its own beside it (BGL, section 3.3): the first
    `batches` mini-batches of each part's train nodes are sampled, over the whole graph.
    """
    sampler = NeighbourSampler(graph.indptr, graph.indices, fanouts, seed=0)
    expanded = remote = 0
    for part in np.unique(owners):
        seeds = graph.train_ids[owners[graph.train_ids] == part]
        seeds = np.random.default_rng(0).permutation(seeds)
        for number, start in enumerate(range(0, len(seeds), batch_size)[:batches]):
            sampled = sampler.sample(seeds[start : start + batch_size], int(part), number)
            rows = sampled.n_id[: sampled.hop_sizes[-2]]
            expanded += len(rows)
            remote += int(np.count_nonzero(owners[rows] != part))
    return remote / expanded


def _traffic(graph: Graph) -> Traffic:
    return graph.client.traffic if isinstance(graph, PartedGraph) else Traffic()


def _own_s() -> float:
    times = os.times()
    return times.user + times.system


def _server_s(servers: Sequence[Server]) -> float:
    return sum(server.processor_s for server in servers)
