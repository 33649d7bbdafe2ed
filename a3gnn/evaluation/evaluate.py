"""Evaluates a model on validation and test nodes by its task's metric, from all their in-neighbors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3gnn.errors import A3GNNError, GraphError
from a3gnn.evaluation.inference import CHUNK_BYTES, Inference, Scratch
from a3gnn.evaluation.tally import check_defined, new_tally
from a3gnn.features.row_table import Aggregator
from a3gnn.graphs.edge_values import num_columns
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import is_labeled, label_spread
from a3gnn.metric import ERRORS, Metric
from a3gnn.models.loss import LESS_STEEP
from a3gnn.models.model import Model
from a3gnn.ranks.peers import Ranks
from a3gnn.seeding import generator
from a3gnn.task import Task
from a3gnn.units import count

if TYPE_CHECKING:
    from a3gnn.evaluation.tally import Tally

#: Most validation nodes to evaluate. The standard error of an accuracy p is sqrt(p (1 - p) / n), so it is then at most
#: half a point. For other metrics it depends on the size of the rarest classes; docs/reference/metrics.md has figures.
MOST_VALIDATED = 10_000
# Most test nodes that a trial evaluates all, only for their memory: ten validations.
_MOST_REHEARSED = 10 * MOST_VALIDATED


class Evaluator:
    """Evaluates a task's models on one graph.

    Validation uses all labeled validation nodes, or 10,000 of them, chosen by the task's seed.

    Args:
        graph: The whole graph, even if training uses parts.
        task: The models' task.
        aggregator: The aggregator of their input layer, which can then read a table (`Inference`); None uses no table.
        scratch: Holds the hidden layers' outputs.
        device: The models' device.
        chunk_bytes: Limit of a chunk's temporaries.
        on_chunk: Called before each chunk of nodes; its exceptions propagate.
        ranks: Ranks that share the work; each gets the quality over all nodes. None evaluates alone.

    Raises:
        GraphError: No validation or no test node has a label, or the metric is not defined on the labels.
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
        ranks: Ranks | None = None,
    ) -> None:
        self._test = tested(graph, task)
        self._graph, self._metric = graph, metric_of(task, graph)
        self._inference = partial(
            Inference,
            graph,
            num_layers=task.num_layers,
            aggregator=aggregator,
            scratch=scratch,
            device=device,
            chunk_bytes=chunk_bytes,
            on_chunk=on_chunk,
            ranks=ranks,
            edges=edges_of(graph, task),
        )
        self._of_val = self._inference(validated(graph, task))

    def validate(self, model: Model) -> float:
        """Returns the model's quality on validation nodes, computed in evaluation mode."""
        return self._quality(model, self._of_val)

    def test(self, model: Model) -> float:
        """Returns the model's quality on all test nodes, computed in evaluation mode."""
        return self._quality(model, self._inference(self._test, keeps=False))

    def rehearse_test(self, model: Model) -> bool:
        """Takes the memory of `test`, by a sample of very many test nodes; returns False and does nothing for fewer."""
        if len(self._test) <= _MOST_REHEARSED:
            return False
        every = self._inference(self._test, keeps=False)  # its nodes, of every layer, are in memory meanwhile
        some = self._inference(self._test[:: -(-len(self._test) // MOST_VALIDATED)], keeps=False)
        model.eval()
        for _ in some.logits(model):
            pass
        del every
        return True

    def cost(self, model: Model) -> float:
        """Returns the cost of `validate` in bytes moved (`Inference.cost`); it depends only on the graph and task."""
        return self._of_val.cost(model)

    def _quality(self, model: Model, inference: Inference) -> float:
        return quality(model, inference.logits(model), self._graph, self._metric, inference.ranks)


def quality(
    model: nn.Module,
    outputs: Iterable[tuple[NDArray[np.int32], Tensor]],
    graph: Graph,
    metric: Metric,
    ranks: Ranks | None = None,
) -> float:
    """Returns the quality of a model's outputs by `metric`.

    Args:
        model: Put into evaluation mode meanwhile, and then back into its previous mode.
        outputs: Yields chunks of nodes and their outputs.
        graph: Provides the labels.
        metric: Of the graph's kind of labels.
        ranks: Ranks with outputs of different nodes; the quality is then over all ranks' nodes.

    Raises:
        A3GNNError: An output is NaN, or a predicted value is infinite.
    """
    found = new_tally(metric, graph.target, graph.num_classes)
    was_training = model.training
    model.eval()
    try:
        for ids, some in outputs:
            found.add(checked_outputs(ids, some, LESS_STEEP, finite=graph.target == "values"), graph.labels[ids])
    finally:
        model.train(was_training)
    return found.quality() if ranks is None else joined_quality(found, ranks)


def checked_outputs(ids: NDArray[np.int32], outputs: Tensor, remedy: str, *, finite: bool) -> Tensor:
    """Returns `outputs` unchanged if they are valid.

    Args:
        ids: Nodes, shape (n,).
        outputs: The nodes' outputs, shape (n, columns).
        remedy: Advice for the error message.
        finite: Whether infinite outputs are errors too. They are allowed for classes, because -inf excludes a class.

    Raises:
        A3GNNError: An output is NaN, or infinite although `finite`.
    """
    bad = (~outputs.isfinite() if finite else outputs.isnan()).any(dim=1).cpu().numpy()
    if bad.any():
        raise A3GNNError(
            f"the model's outputs must be {'finite' if finite else 'numbers'}, got "
            f"{'NaN or infinite ones' if finite else 'NaN'} for {int(bad.sum()):,} of {len(ids):,} nodes, such as node "
            f"{ids[bad.argmax()]}; {remedy}"
        )
    return outputs


def joined_quality(found: Tally, ranks: Ranks) -> float:
    """Returns the quality over all ranks' nodes, with the same bits on each rank; rank 0 computes it."""
    found.join(ranks)
    value = torch.zeros(1, dtype=torch.float64)
    if not ranks.rank:
        value[0] = found.quality()
    ranks.broadcast(value, 0)
    return float(value)


def edges_of(graph: Graph, task: Task) -> NDArray[np.float32] | None:
    """Returns the values of the graph's edges that a built-in model reads; None if it reads none.

    Raises:
        GraphError: The graph lacks them, or has another number of columns.
    """
    if not task.edge_dim:
        return None
    name = str(task.edge_value)
    values = graph.edge_values.get(name)
    columns = 0 if values is None else num_columns(values)
    if values is None or columns != task.edge_dim:
        raise GraphError(
            f"{graph.name} must have {name} with {count(task.edge_dim, 'column')}, as in the model's training, got "
            f"{count(columns, 'column')}; give its edges the same values"
        )
    return values


def validated(graph: Graph, task: Task) -> NDArray[np.int32]:
    """Returns the nodes that validation uses, int32, ascending; they depend only on the task and the graph.

    Raises:
        GraphError: No validation node has a label, or the metric is not defined on the labels.
    """
    ids = labeled(graph, graph.val_ids, "validation")
    if len(ids) > MOST_VALIDATED:
        ids = np.sort(generator(task.seed, "validated").choice(ids, MOST_VALIDATED, replace=False))
    check_defined(task.metric, graph.labels[ids], "validation")
    return ids


def tested(graph: Graph, task: Task) -> NDArray[np.int32]:
    """Returns all labeled test nodes, int32, ascending.

    Raises:
        GraphError: No test node has a label, or the metric is not defined on the labels.
    """
    ids = labeled(graph, graph.test_ids, "test")
    check_defined(task.metric, graph.labels[ids], "test")
    return ids


def metric_of(task: Task, graph: Graph) -> Metric:
    """Returns the task's metric, with its scale on this graph.

    Raises:
        GraphError: All values to predict are equal.
    """
    spread = label_spread(graph.labels, graph.train_ids)
    if spread == 0:
        raise GraphError(f"{graph.name} must have train nodes with different values, got one value; give other values")
    return Metric(task.metric, spread if task.metric in ERRORS else None)


def unlearnt(graph: Graph, task: Task) -> float:
    """Returns the quality on validation nodes of a constant prediction.

    It predicts their most frequent class, the labels that more than half of them have, or their median.

    Raises:
        GraphError: As `validated`.
    """
    labels = graph.labels[validated(graph, task)]
    outputs = torch.zeros(1, graph.num_classes)
    match graph.target:
        case "classes":
            outputs[0, np.bincount(labels).argmax()] = 1.0
        case "labels":
            outputs[0] = torch.from_numpy(labels.mean(axis=0) - 0.5)
        case "values":
            outputs[0, 0] = float(np.median(labels))
    found = new_tally(metric_of(task, graph), graph.target, graph.num_classes)
    found.add(outputs.expand(len(labels), -1), labels)
    return found.quality()


def labeled(graph: Graph, ids: NDArray[np.int32], name: str) -> NDArray[np.int32]:
    """Returns the labeled nodes among `ids`; `name` describes the nodes in the error message.

    Raises:
        GraphError: None has a label.
    """
    found = ids[is_labeled(graph.labels[ids])]
    if not len(found):
        raise GraphError(f"{graph.name} must have labeled {name} nodes, got none among {len(ids)}; change its split")
    return found
