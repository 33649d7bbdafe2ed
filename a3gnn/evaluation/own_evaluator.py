"""`EvaluationPlans`: how validation and test nodes are evaluated, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.evaluation.evaluate import metric_of, quality, tested, validated
from a3gnn.evaluation.evaluation_plan import EvaluationPlan
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.inputs import of_graph, of_subgraph
from a3gnn.models.own.user_model import UserModel, seeded
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.seeding import derive
from a3gnn.task import Sampled, Task


class EvaluationPlans(NamedTuple):
    """The plans of a graph's two sets of nodes, which may differ: test nodes may be many more."""

    validation: EvaluationPlan
    test: EvaluationPlan

    @classmethod
    def of(cls, graph: Graph, task: Task, budget_bytes: int) -> Self:
        """Returns both.

        Args:
            graph: The whole graph.
            task: Of a model that is described.
            budget_bytes: What a pass may take.

        Raises:
            GraphError: No validation or no test node has a label, or the metric is not defined on those that have.
        """
        test = np.sort(tested(graph, task))
        return cls(*(EvaluationPlan.of(graph, task, ids, budget_bytes) for ids in (validated(graph, task), test)))

    @property
    def sampled(self) -> Sampled:
        """Which qualities are computed from a fixed sample."""
        validation, test = (plan.kind == "sampled" for plan in self)
        if validation:
            return "all" if test else "validation"
        return "test" if test else "none"

    @property
    def pass_bytes(self) -> float:
        """The bytes of a pass, at most."""
        return max(plan.pass_bytes for plan in self)

    @property
    def text(self) -> str:
        """From what qualities are computed, for people."""
        same = self.validation.kind == self.test.kind
        return self.validation.text if same else f"{self.validation.text}; that of test nodes from {self.test.text}"


class OwnEvaluator:
    """Evaluates a model as `EvaluationPlan` says; nodes are those that `Evaluator` takes.

    Args:
        graph: The whole graph, whatever parts training sees.
        task: Of a model that is described.
        model: On the device.
        device: Where it is.
        budget_bytes: What a pass may take.
        on_chunk: Called before each mini-batch; what it raises ends the evaluation there.

    Attributes:
        plan: Of validation.

    Raises:
        GraphError: No validation or no test node has a label, or the metric is not defined on those that have.
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
        self._test = tested(graph, task)
        self.plan = EvaluationPlan.of(graph, task, validated(graph, task), budget_bytes)

    def validate(self) -> float:
        """Returns the quality on validation nodes; the model is in evaluation mode meanwhile."""
        return self._quality(self.plan)

    def test(self) -> float:
        """Returns the quality on all test nodes, likewise."""
        return self._quality(self._test_plan)

    @property
    def text(self) -> str:
        """From what both are computed, for people."""
        return EvaluationPlans(self.plan, self._test_plan).text

    @cached_property
    def _test_plan(self) -> EvaluationPlan:
        return EvaluationPlan.of(self._graph, self._task, np.sort(self._test), self._budget)

    def outputs(self, plan: EvaluationPlan) -> Iterator[tuple[NDArray[np.int32], Tensor]]:
        """Yields the nodes of `plan` by mini-batch, and their outputs, float32, shape (n, out_channels)."""
        return planned_outputs(
            plan,
            self._model,
            self._graph,
            self._task,
            num_outputs=self._graph.num_classes,
            device=self._device,
            on_chunk=self._on_chunk,
        )

    def _quality(self, plan: EvaluationPlan) -> float:
        return quality(self._model.module, self.outputs(plan), self._graph, metric_of(self._task, self._graph))


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
    """Yields the nodes of `plan` in order, by mini-batch, and their outputs, float32, shape (n, num_outputs).

    Args:
        plan: How.
        model: On the device, in evaluation mode.
        graph: The whole graph.
        task: Of a model that is described.
        num_outputs: Columns of what the model puts out.
        device: Where it is.
        on_chunk: Called before each mini-batch; what it raises ends this there.
    """
    seed = derive(task.seed, "evaluation")
    if plan.kind == "whole":
        on_chunk()
        inputs = of_graph(graph, model.takes, task.num_layers, device)
        with seeded(seed, device):
            found = model.outputs(*inputs, graph.num_nodes, num_outputs)
        for ids in plan.batches:
            yield ids, found[torch.from_numpy(ids.astype(np.int64)).to(device)]
        return
    sampler = NeighbourSampler(graph.indptr, graph.indices, plan.fanouts, seed=seed)
    for number, ids in enumerate(plan.batches):
        on_chunk()
        subgraph = sampler.sample(ids, 0, number)
        inputs = of_subgraph(graph, subgraph, model.takes, device)
        with seeded(derive(seed, number), device):
            found = model.outputs(*inputs, len(ids), num_outputs)
        yield ids, found
