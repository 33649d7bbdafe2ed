"""Accuracy on validation and test nodes, from all their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.features.rows.aggregate import Aggregator
from a3gnn.graphs.graph import Graph
from a3gnn.seeding import generator
from a3gnn.task import Task
from a3gnn.training.inference import CHUNK_BYTES, Inference
from a3gnn.training.model import Model
from a3gnn.training.scratch import Scratch

#: Validation nodes that are evaluated, at most: the standard error of an accuracy is then half a point or less.
MOST_VALIDATED = 10_000


class Evaluator:
    """Evaluates a task's models on one graph.

    Validation takes all labelled validation nodes or, of more than 10,000, as many that the task's seed chooses.

    Args:
        graph: The whole graph, whatever parts training sees.
        task: What the models to come are trained for.
        aggregator: Of their input layer, which then reads a table (`Inference`); None takes none.
        scratch: Where hidden layers' outputs go.
        device: Where the models are.
        chunk_bytes: What a chunk's temporaries may take.
        on_chunk: Called before each chunk of nodes; what it raises ends the evaluation there.

    Raises:
        GraphError: No validation or no test node has a label.
    """

    def __init__(
        self,
        graph: Graph,
        task: Task,
        *,
        aggregator: Aggregator | None = None,
        scratch: Scratch,
        device: torch.device | str = "cpu",
        chunk_bytes: int = CHUNK_BYTES,
        on_chunk: Callable[[], None] = lambda: None,
    ) -> None:
        self._graph = graph
        self._test = labelled(graph, graph.test_ids, "test")
        self._inference = partial(
            Inference,
            graph,
            num_layers=task.num_layers,
            aggregator=aggregator,
            scratch=scratch,
            device=device,
            chunk_bytes=chunk_bytes,
            on_chunk=on_chunk,
        )
        self._of_val = self._inference(validated(graph, task))

    def validate(self, model: Model) -> float:
        """Returns the model's accuracy on validation nodes, in [0, 1]; it is in evaluation mode meanwhile."""
        return self._accuracy(model, self._of_val)

    def test(self, model: Model) -> float:
        """Returns the model's accuracy on all test nodes, likewise."""
        return self._accuracy(model, self._inference(self._test))

    def cost(self, model: Model) -> float:
        """Returns the cost of `validate` in bytes moved (`Inference.cost`): by the graph and the task alone."""
        return self._of_val.cost(model)

    def _accuracy(self, model: Model, inference: Inference) -> float:
        right, count = 0, 0
        was_training = model.training
        model.eval()
        try:
            for ids, logits in inference.logits(model):
                right += int((logits.argmax(dim=1).cpu().numpy() == self._graph.labels[ids]).sum())
                count += len(ids)
        finally:
            model.train(was_training)
        return right / count


def validated(graph: Graph, task: Task) -> NDArray[np.int32]:
    """Returns the nodes that validation takes, int32, ascending: the same wherever the task trains on the graph.

    Raises:
        GraphError: No validation node has a label.
    """
    ids = labelled(graph, graph.val_ids, "validation")
    if len(ids) <= MOST_VALIDATED:
        return ids
    chosen: NDArray[np.int32] = generator(task.seed, "validated").choice(ids, MOST_VALIDATED, replace=False)
    return np.sort(chosen)


def labelled(graph: Graph, ids: NDArray[np.int32], name: str) -> NDArray[np.int32]:
    """Returns those of `ids` that have a label.

    Raises:
        GraphError: None has; the message calls them `name` nodes.
    """
    found = ids[graph.labels[ids] >= 0]
    if not len(found):
        raise GraphError(f"{graph.name} must have labelled {name} nodes, got none among {len(ids)}; change its split")
    return found
