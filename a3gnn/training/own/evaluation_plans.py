"""`EvaluationPlans`: how validation and test nodes are evaluated, and what is said of it."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from a3gnn.graphs.graph import Graph
from a3gnn.task import Sampled, Task
from a3gnn.training.evaluate import tested, validated
from a3gnn.training.own.evaluation_plan import EvaluationPlan


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
