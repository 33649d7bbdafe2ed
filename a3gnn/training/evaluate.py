"""Accuracy on validation and test nodes, from all their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.graph import Graph
from a3gnn.training.inference import CHUNK_BYTES, Inference
from a3gnn.training.model import Model
from a3gnn.training.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Shares of right answers, in [0, 1].

    Attributes:
        val: On the validation nodes.
        test: On the test nodes.
    """

    val: float
    test: float


class Evaluator:
    """Evaluates models of one depth on one graph.

    Args:
        graph: The whole graph, whatever parts training sees.
        num_layers: Layers of the models to come.
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
        num_layers: int,
        *,
        scratch: Scratch,
        device: torch.device | str = "cpu",
        chunk_bytes: int = CHUNK_BYTES,
        on_chunk: Callable[[], None] = lambda: None,
    ) -> None:
        self._graph = graph
        self._val = _labelled(graph, graph.val_ids, "validation")
        self._test = _labelled(graph, graph.test_ids, "test")
        ids = np.union1d(self._val, self._test)
        self._inference = Inference(
            graph, ids, num_layers, scratch=scratch, device=device, chunk_bytes=chunk_bytes, on_chunk=on_chunk
        )

    def evaluate(self, model: Model) -> Accuracies:
        """Returns the model's accuracies; it is in evaluation mode meanwhile."""
        right = np.zeros(self._graph.num_nodes, dtype=bool)
        was_training = model.training
        model.eval()
        try:
            for ids, logits in self._inference.logits(model):
                right[ids] = logits.argmax(dim=1).cpu().numpy() == self._graph.labels[ids]
        finally:
            model.train(was_training)
        return Accuracies(float(right[self._val].mean()), float(right[self._test].mean()))


def _labelled(graph: Graph, ids: NDArray[np.int32], name: str) -> NDArray[np.int32]:
    labelled = ids[graph.labels[ids] >= 0]
    if not len(labelled):
        raise GraphError(f"{graph.name} must have labelled {name} nodes, got none among {len(ids)}; change its split")
    return labelled
