"""`OwnEvaluator`: evaluates a user's model on validation and test nodes by `EvaluationPlans`."""

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
    """The plans for validation and test nodes. They may differ, because there may be many more test nodes."""

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
        return self.validation.text if same else f"{self.validation.text}; that of test nodes from {self.test.text}"


class OwnEvaluator:
    """Evaluates a user's model by an `EvaluationPlan`, on the same nodes as `Evaluator`.

    Args:
        graph: The whole graph, even if training uses parts.
        task: A task with a described model (`task.own`).
        model: On `device`.
        device: The model's device.
        budget_bytes: Memory limit of a pass.
        on_chunk: Called before each mini-batch; its exceptions propagate.

    Attributes:
        plan: The plan for validation.

    Raises:
        GraphError: No validation or no test node has a label, or the metric is not defined on the labels.
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
        """Returns the quality on validation nodes, computed in evaluation mode."""
        return self._quality(self.plan)

    def test(self) -> float:
        """Returns the quality on all test nodes, computed in evaluation mode."""
        return self._quality(self._test_plan)

    @property
    def text(self) -> str:
        """A description of the neighborhoods that both qualities are computed from."""
        return EvaluationPlans(self.plan, self._test_plan).text

    @cached_property
    def _test_plan(self) -> EvaluationPlan:
        return EvaluationPlan.of(self._graph, self._task, np.sort(self._test), self._budget)

    def outputs(self, plan: EvaluationPlan) -> Iterator[tuple[NDArray[np.int32], Tensor]]:
        """Yields mini-batches of the plan's nodes, and their outputs, float32, shape (n, out_channels)."""
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
