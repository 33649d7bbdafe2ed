"""`OwnEvaluator`: evaluates a user's model on validation and test nodes, in bounded memory by an `EvaluationPlan`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.evaluation.evaluate import metric_of, quality, tested, validated
from a3gnn.evaluation.inference import CHUNK_BYTES
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.inputs import Extent, of_graph, of_subgraph
from a3gnn.models.own.user_model import UserModel, seeded
from a3gnn.sampling.sampler import Sampler
from a3gnn.seeding import derive
from a3gnn.task import OwnModel, Sampled, Task
from a3gnn.units import format_size

#: Most total cost of mini-batches of full neighborhoods, as a multiple of the whole graph's cost. Neighborhoods
#: overlap, so they may cost more than the graph. docs/reference/own_models.md has the rule.
_MOST_REPEATED = 8
#: Most nodes of a mini-batch: as many as training has by default.
_MOST_NODES = TrainConfig().batch_size
#: In-neighbors sampled per node in layers where training takes all: the larger fanout of GraphSAGE (Hamilton et al.,
#: "Inductive Representation Learning on Large Graphs", 2017, section 4).
_SAMPLED_OF_ALL = 25


class EvaluationPlans(NamedTuple):
    """The plans for validation and test nodes. They may differ, because there may be many more test nodes.

    Links need the rows of all nodes of both ends, whichever are judged, so both plans are that of the larger end.
    """

    validation: EvaluationPlan
    test: EvaluationPlan

    @classmethod
    def of(cls, graph: Graph, task: Task, budget_bytes: int) -> Self:
        """Returns both plans.

        Args:
            graph: The whole graph.
            task: A task with a described model (`task.own`).
            budget_bytes: Memory limit of a pass.

        Raises:
            GraphError: No validation or no test node has a label, or the metric is not defined on the labels.
        """
        if graph.links is not None:
            found = plans_of_ends(graph, task, budget_bytes).values()
            both = max(found, key=lambda plan: (plan.kind == "sampled", plan.pass_bytes))
            return cls(both, both)
        test = np.sort(tested(graph, task))
        return cls(*(EvaluationPlan.of(graph, task, ids, budget_bytes) for ids in (validated(graph, task), test)))

    @property
    def sampled(self) -> Sampled:
        """The qualities that are computed from a fixed sample of in-neighbors."""
        validation, test = (plan.kind == "sampled" for plan in self)
        if validation:
            return "all" if test else "validation"
        return "test" if test else "none"

    @property
    def pass_bytes(self) -> float:
        """The most bytes of a pass."""
        return max(plan.pass_bytes for plan in self)

    @property
    def text(self) -> str:
        """A description of the neighborhoods that qualities are computed from."""
        same = self.validation.kind == self.test.kind
        return self.validation.text if same else f"{self.validation.text}; for test nodes from {self.test.text}"


class PlannedEvaluator:
    """Computes outputs of a user's model by an `EvaluationPlan`.

    Args:
        graph: The whole graph, even if training uses parts.
        task: A task with a described model (`task.own`).
        model: On `device`.
        device: The model's device.
        budget_bytes: Memory limit of a pass.
        on_chunk: Called before each mini-batch; its exceptions propagate.
    """

    def __init__(
        self,
        graph: Graph,
        task: Task,
        model: UserModel,
        *,
        device: torch.device,
        budget_bytes: int,
        on_chunk: Callable[[], None],
    ) -> None:
        self._graph, self._task, self._model = graph, task, model
        self._device, self._budget, self._on_chunk = device, budget_bytes, on_chunk

    def on_chunk(self) -> None:
        """Calls the argument `on_chunk`."""
        self._on_chunk()

    def plan_of(self, ids: NDArray[np.int32]) -> EvaluationPlan:
        """Returns how the nodes `ids`, ascending, are evaluated."""
        return EvaluationPlan.of(self._graph, self._task, ids, self._budget)

    def outputs(
        self, plan: EvaluationPlan, kind: str | None = None, num_outputs: int = 0
    ) -> Iterator[tuple[NDArray[np.int32], Tensor]]:
        """Yields mini-batches of the plan's nodes, and their outputs, float32, shape (n, columns).

        Args:
            plan: The mini-batches.
            kind: The nodes' type; the target by default.
            num_outputs: Columns; 0 for any.
        """
        model = self._model if kind is None else dataclasses.replace(self._model, target=kind)
        return planned_outputs(
            plan,
            model,
            self._graph,
            self._task,
            num_outputs=num_outputs,
            device=self._device,
            on_chunk=self._on_chunk,
        )


class OwnEvaluator(PlannedEvaluator):
    """Evaluates a user's model by an `EvaluationPlan`, on the same nodes as `Evaluator`.

    See `PlannedEvaluator` for the arguments.

    Attributes:
        plan: The plan for validation.

    Raises:
        GraphError: No validation or no test node has a label, or the metric is not defined on the labels.
    """

    def __init__(self, graph: Graph, task: Task, model: UserModel, **options: Any) -> None:
        super().__init__(graph, task, model, **options)
        self._test = tested(graph, task)
        self.plan = self.plan_of(validated(graph, task))

    def validate(self) -> float:
        """Returns the quality on validation nodes, computed in evaluation mode."""
        return self._quality(self.plan)

    def test(self) -> float:
        """Returns the quality on all test nodes, computed in evaluation mode."""
        return self._quality(self._test_plan)

    @property
    def cost(self) -> float:
        """The cost of `validate` in bytes moved."""
        return self.plan.cost

    @property
    def text(self) -> str:
        """A description of the neighborhoods that both qualities are computed from."""
        return EvaluationPlans(self.plan, self._test_plan).text

    @cached_property
    def _test_plan(self) -> EvaluationPlan:
        return self.plan_of(np.sort(self._test))

    def _quality(self, plan: EvaluationPlan) -> float:
        outputs = self.outputs(plan, num_outputs=self._graph.num_classes)
        return quality(self._model.module, outputs, self._graph, metric_of(self._task, self._graph))


@torch.no_grad()
def planned_outputs(
    plan: EvaluationPlan,
    model: UserModel,
    graph: Graph,
    task: Task,
    *,
    num_outputs: int,
    device: torch.device,
    on_chunk: Callable[[], None],
) -> Iterator[tuple[NDArray[np.int32], Tensor]]:
    """Yields mini-batches of the plan's nodes, in order, and their outputs, float32, shape (n, num_outputs).

    Args:
        plan: The mini-batches and their fanouts.
        model: On `device`, in evaluation mode.
        graph: The whole graph.
        task: A task with a described model (`task.own`).
        num_outputs: Columns of the model's output.
        device: The model's device.
        on_chunk: Called before each mini-batch; its exceptions propagate.
    """
    seed = derive(task.seed, "evaluation")
    if plan.kind == "whole":
        on_chunk()
        inputs = of_graph(graph, model.takes, task.num_layers, device, model.edge_values).taken_by(model.module)
        with seeded(seed, device):
            nodes, first = graph.num_nodes, 0
            if graph.types is not None:
                schema, kind = graph.types.schema, model.target
                nodes, first = schema.counts[kind], schema.first_node(kind)
            found = model.outputs(*inputs, nodes, num_outputs)
        for ids in plan.batches:
            yield ids, found[torch.from_numpy(ids.astype(np.int64) - first).to(device)]
        return
    sampler = Sampler(graph.placed_edges if model.edge_values else graph.edges, plan.fanouts, seed=seed)
    for number, ids in enumerate(plan.batches):
        on_chunk()
        subgraph = sampler.sample(ids, 0, number)
        inputs = of_subgraph(graph, subgraph, model.takes, device, model.edge_values).taken_by(model.module)
        with seeded(derive(seed, number), device):
            found = model.outputs(*inputs, len(ids), num_outputs)
        yield ids, found


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """How some nodes are evaluated: by one pass over the whole graph, or in mini-batches.

    It depends only on the graph, the task, the nodes and the memory limit, so it is the same in every evaluation.

    Attributes:
        kind: whole: one pass over the graph; full: mini-batches with all in-neighbors; sampled: mini-batches with a
            fixed sample of in-neighbors.
        fanouts: In-neighbors per node in mini-batches, the seeds' hop first; -1 takes all.
        batches: The nodes of each mini-batch, int32, ascending.
        cost: Cost of the evaluation, in the unit of `OwnCost.moved`.
        pass_bytes: Most bytes of one pass, by `OwnCost.bytes`.
        text: A description of the neighborhoods for users.
    """

    kind: Literal["whole", "full", "sampled"]
    fanouts: tuple[int, ...]
    batches: tuple[NDArray[np.int32], ...]
    cost: float
    pass_bytes: float
    text: str

    @classmethod
    def of(cls, graph: Graph, task: Task, ids: NDArray[np.int32], budget_bytes: int) -> Self:
        """Returns the first of the three kinds that keeps to the budget and doesn't cost too much.

        Args:
            graph: The whole graph.
            task: A task with a described model (`task.own`).
            ids: Nodes to evaluate, int32, distinct and ascending.
            budget_bytes: Memory limit of a pass.
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
            return cls("full", (-1,) * layers, batches, total, budget_bytes, f"all in-neighbors, in {count}")
        fanouts = tuple(_SAMPLED_OF_ALL if fanout == -1 else fanout for fanout in task.fanouts)
        pieces, most = _sampled_batches(graph, own, fanouts, ids, budget_bytes)
        text = (
            f"a fixed sample of {', '.join(map(str, fanouts))} in-neighbors per node, because the whole graph may "
            f"take {format_size(round(whole))} and evaluation may use {format_size(budget_bytes)}"
        )
        cost = own.cost.moved(*_sampled_extent(graph, own, fanouts, len(ids)))
        return cls("sampled", fanouts, pieces, cost, min(most, whole), text)


def plans_of_ends(graph: Graph, task: Task, budget_bytes: int) -> dict[str, EvaluationPlan]:
    """Returns how the rows of all nodes of each end of links are computed, by type; see `EvaluationPlan.of`."""
    assert graph.types is not None, "links have types"
    assert graph.links is not None, "links are predicted"
    found, schema = {}, graph.types.schema
    for kind in dict.fromkeys(graph.links.ends):
        first = schema.first_node(kind)
        ids = np.arange(first, first + schema.counts[kind], dtype=np.int32)
        found[kind] = EvaluationPlan.of(graph, task, ids, budget_bytes)
    return found


def _full_batches(
    graph: Graph, own: OwnModel, layers: int, ids: NDArray[np.int32], most_bytes: float, most_cost: float
) -> tuple[tuple[NDArray[np.int32], ...], float]:
    """Returns `ids` in pieces whose full neighborhoods take at most `most_bytes` each, and their total cost.

    Returns no pieces if a single node takes more, or if the total cost exceeds `most_cost`.
    """
    around = Neighborhoods(graph, torch.device("cpu"), CHUNK_BYTES, in_place=True, on_chunk=lambda: None)
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


def _full_extent(around: Neighborhoods, own: OwnModel, layers: int, ids: NDArray[np.int32]) -> Extent:
    """Returns the numbers of nodes and edges in a pass over the full neighborhood of `ids`."""
    nodes, edges = 0, 0
    for _ in range(layers):
        of_hop = around.count(ids)
        ids = around.closed(ids)
        last = own.takes == "edge_index"  # each layer uses all nodes and edges; `OwnCost` counts them once
        nodes, edges = (len(ids), of_hop) if last else (nodes + len(ids), edges + of_hop)
    return Extent(nodes, edges)


def _sampled_batches(
    graph: Graph, own: OwnModel, fanouts: tuple[int, ...], ids: NDArray[np.int32], most_bytes: float
) -> tuple[tuple[NDArray[np.int32], ...], float]:
    """Returns `ids` in pieces, and the bytes of a piece: at most `most_bytes`, unless a piece is a single node."""
    size = min(_MOST_NODES, len(ids))
    while (taken := own.cost.bytes(*_sampled_extent(graph, own, fanouts, size))) > most_bytes and size > 1:
        size //= 2
    return tuple(ids[start : start + size] for start in range(0, len(ids), size)), taken


def _sampled_extent(graph: Graph, own: OwnModel, fanouts: tuple[int, ...], count: int) -> tuple[float, float]:
    """Estimates the numbers of nodes and edges in passes over sampled neighborhoods of `count` nodes.

    It assumes distinct nodes, and counts as `Extent` does.
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
