"""`EvaluationPlan`: how the outputs of a model of the user's are computed for some nodes, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.evaluation.inference import CHUNK_BYTES
from a3gnn.evaluation.neighbourhoods import Neighbourhoods
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.inputs import Extent
from a3gnn.task import OwnModel, Task
from a3gnn.units import format_size

#: Times the whole graph's cost that mini-batches of full neighbourhoods may cost together: those of neighbouring nodes
#: overlap. Guess.
_MOST_REPEATED = 8
#: Nodes of a mini-batch, at most. Guess.
_MOST_NODES = 1024
#: Sampled in-neighbours per node where training takes all. Guess.
_SAMPLED_OF_ALL = 25


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """How some nodes are evaluated: by one pass over the whole graph, or in mini-batches.

    Decided by the graph, the task, the nodes and the memory that a pass may take: the same in every evaluation.

    Attributes:
        kind: whole; full, mini-batches of all in-neighbours; or sampled, mini-batches of a fixed sample of them.
        fanouts: In-neighbours that mini-batches take per node, the seeds' hop first; -1 takes all.
        batches: The nodes, int32, ascending, by mini-batch.
        cost: Of evaluating them, as `OwnCost.moved` counts it.
        pass_bytes: What one pass takes, at most, as `OwnCost.bytes` counts it.
        text: What is evaluated, for people.
    """

    kind: Literal["whole", "full", "sampled"]
    fanouts: tuple[int, ...]
    batches: tuple[NDArray[np.int32], ...]
    cost: float
    pass_bytes: float
    text: str

    @classmethod
    def of(cls, graph: Graph, task: Task, ids: NDArray[np.int32], budget_bytes: int) -> Self:
        """Returns the first of the three kinds that keeps the budget and is not too much work.

        Args:
            graph: The whole graph.
            task: Of a model that is described.
            ids: Nodes to evaluate, int32, distinct and ascending.
            budget_bytes: What a pass may take.
        """
        assert task.own is not None
        layers, own = task.num_layers, task.own
        times = 1 if own.takes == "edge_index" else layers
        extent = Extent(times * graph.num_nodes, times * graph.num_edges)
        whole, cost = own.cost.bytes(*extent), own.cost.moved(*extent)
        if whole <= budget_bytes:
            return cls("whole", (), (ids,), cost, whole, "the whole graph at once")
        batches, total = _full_batches(graph, own, layers, ids, budget_bytes, _MOST_REPEATED * cost)
        if batches:
            count = "one mini-batch" if len(batches) == 1 else f"{len(batches):,} mini-batches"
            return cls("full", (-1,) * layers, batches, total, budget_bytes, f"all in-neighbours, in {count}")
        fanouts = tuple(_SAMPLED_OF_ALL if fanout == -1 else fanout for fanout in task.fanouts)
        pieces, most = _sampled_batches(graph, own, fanouts, ids, budget_bytes)
        text = (
            f"a fixed sample of {', '.join(map(str, fanouts))} in-neighbours per node, not of all: the whole graph may "
            f"take {format_size(round(whole))}, and {format_size(budget_bytes)} are for evaluation"
        )
        cost = own.cost.moved(*_sampled_extent(graph, own, fanouts, len(ids)))
        return cls("sampled", fanouts, pieces, cost, min(most, whole), text)


def _full_batches(
    graph: Graph, own: OwnModel, layers: int, ids: NDArray[np.int32], most_bytes: float, most_cost: float
) -> tuple[tuple[NDArray[np.int32], ...], float]:
    """Returns `ids` in pieces whose full neighbourhoods take `most_bytes` each, and their cost together.

    No pieces, where a single node takes more, or all together cost more than `most_cost`.
    """
    around = Neighbourhoods(graph, torch.device("cpu"), CHUNK_BYTES, in_place=True, on_chunk=lambda: None)
    due = [ids[start : start + _MOST_NODES] for start in range(0, len(ids), _MOST_NODES)][::-1]
    found: list[NDArray[np.int32]] = []
    total = 0.0
    while due:
        some = due.pop()
        extent = _full_extent(around, own, layers, some)
        if own.cost.bytes(*extent) > most_bytes:
            if len(some) == 1:
                return (), 0.0
            due += [some[len(some) // 2 :], some[: len(some) // 2]]
            continue
        total += own.cost.moved(*extent)
        if total > most_cost:
            return (), 0.0
        found.append(some)
    return tuple(found), total


def _full_extent(around: Neighbourhoods, own: OwnModel, layers: int, ids: NDArray[np.int32]) -> Extent:
    """Returns the nodes and edges that a pass over the full neighbourhood of `ids` is computed on."""
    nodes, edges = 0, 0
    for _ in range(layers):
        of_hop = around.count(ids)
        ids = around.closed(ids)
        last = own.takes == "edge_index"  # whose every layer is computed on all nodes and edges, which counts once
        nodes, edges = (len(ids), of_hop) if last else (nodes + len(ids), edges + of_hop)
    return Extent(nodes, edges)


def _sampled_batches(
    graph: Graph, own: OwnModel, fanouts: tuple[int, ...], ids: NDArray[np.int32], most_bytes: float
) -> tuple[tuple[NDArray[np.int32], ...], float]:
    """Returns `ids` in pieces whose sampled neighbourhoods take `most_bytes` each, or are a single node's; and that."""
    size = min(_MOST_NODES, len(ids))
    while (taken := own.cost.bytes(*_sampled_extent(graph, own, fanouts, size))) > most_bytes and size > 1:
        size //= 2
    return tuple(ids[start : start + size] for start in range(0, len(ids), size)), taken


def _sampled_extent(graph: Graph, own: OwnModel, fanouts: tuple[int, ...], count: int) -> tuple[float, float]:
    """Returns about what passes over sampled neighbourhoods of `count` nodes are computed on, were all nodes distinct.

    They are nodes and edges, as `Extent`.
    """
    nodes = edges = 0.0
    frontier = reached = float(count)
    sampled = 0.0
    for fanout in fanouts:
        frontier *= min(fanout, graph.num_edges / max(graph.num_nodes, 1))
        reached, sampled = reached + frontier, sampled + frontier
        if own.takes == "edge_index":
            nodes, edges = reached, sampled
        else:
            nodes, edges = nodes + reached, edges + sampled
    return nodes, edges
