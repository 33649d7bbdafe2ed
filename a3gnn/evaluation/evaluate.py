"""The quality of a model on validation and test nodes, by its task's metric, from all their neighbours."""

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
from a3gnn.features.rows.table import Aggregator
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import is_labelled, label_spread
from a3gnn.metric import ERRORS, Metric
from a3gnn.models.loss import LESS_STEEP
from a3gnn.models.model import Model
from a3gnn.ranks.peers import Ranks
from a3gnn.seeding import generator
from a3gnn.task import Task

if TYPE_CHECKING:
    from a3gnn.evaluation.tally import Tally


def joined_quality(found: Tally, ranks: Ranks) -> float:
    """Returns the quality of all ranks' nodes, the same bits on each; rank 0 computes it."""
    found.join(ranks)
    value = torch.zeros(1, dtype=torch.float64)
    if not ranks.rank:
        value[0] = found.quality()
    ranks.broadcast(value, 0)
    return float(value)


#: Validation nodes that are evaluated, at most: the standard error of an accuracy is then half a point or less, for
#: that of a share p is sqrt(p (1 - p) / n). Of other metrics it depends on how many nodes the rarest classes have;
#: docs/metrics.md has figures.
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
        ranks: Among whom it is shared out; each gets the quality of all nodes. None evaluates alone.

    Raises:
        GraphError: No validation or no test node has a label, or the metric is not defined on those that have.
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
        )
        self._of_val = self._inference(validated(graph, task))

    def validate(self, model: Model) -> float:
        """Returns the model's quality on validation nodes; it is in evaluation mode meanwhile."""
        return self._quality(model, self._of_val)

    def test(self, model: Model) -> float:
        """Returns the model's quality on all test nodes, likewise."""
        return self._quality(model, self._inference(self._test))

    def cost(self, model: Model) -> float:
        """Returns the cost of `validate` in bytes moved (`Inference.cost`): by the graph and the task alone."""
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
    """Returns the quality by `metric` of a model's `outputs`, some nodes and theirs at a time.

    The model is in evaluation mode meanwhile, and then again as it was. With `ranks`, each of which has outputs of
    other nodes, it is that of all of them.

    Raises:
        A3GNNError: An output is NaN, or the value of a node infinite.
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
    """Returns `outputs`, shape (n, columns), those of the nodes `ids`.

    Args:
        ids: Nodes, shape (n,).
        outputs: Theirs.
        remedy: What the error advises.
        finite: Whether infinite ones are refused too; where classes are told apart, -inf excludes one.

    Raises:
        A3GNNError: One is NaN, or infinite where that is refused.
    """
    bad = (~outputs.isfinite() if finite else outputs.isnan()).any(dim=1).cpu().numpy()
    if bad.any():
        raise A3GNNError(
            f"the model's outputs must be {'finite' if finite else 'numbers'}, got "
            f"{'NaN or infinite ones' if finite else 'NaN'} for {int(bad.sum()):,} of {len(ids):,} nodes, such as node "
            f"{ids[bad.argmax()]}; {remedy}"
        )
    return outputs


def validated(graph: Graph, task: Task) -> NDArray[np.int32]:
    """Returns the nodes that validation takes, int32, ascending: the same wherever the task trains on the graph.

    Raises:
        GraphError: No validation node has a label, or the metric is not defined on those that have.
    """
    ids = labelled(graph, graph.val_ids, "validation")
    if len(ids) > MOST_VALIDATED:
        ids = np.sort(generator(task.seed, "validated").choice(ids, MOST_VALIDATED, replace=False))
    check_defined(task.metric, graph.labels[ids], "validation")
    return ids


def tested(graph: Graph, task: Task) -> NDArray[np.int32]:
    """Returns the nodes that a test takes, all that have a label, int32, ascending.

    Raises:
        GraphError: None has a label, or the metric is not defined on those that have.
    """
    ids = labelled(graph, graph.test_ids, "test")
    check_defined(task.metric, graph.labels[ids], "test")
    return ids


def metric_of(task: Task, graph: Graph) -> Metric:
    """Returns by what models of the task are judged on the graph.

    Raises:
        GraphError: The values that are to be predicted don't differ.
    """
    spread = label_spread(graph.labels, graph.train_ids)
    if spread == 0:
        raise GraphError(f"{graph.name} must have train nodes whose values differ, got one value; give others")
    return Metric(task.metric, spread if task.metric in ERRORS else None)


def unlearnt(graph: Graph, task: Task) -> float:
    """Returns the quality on validation nodes of a model that says one and the same of every node.

    That is their most frequent class, of each label whether more have it, or their median.

    Raises:
        GraphError: As of `validated`.
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


def labelled(graph: Graph, ids: NDArray[np.int32], name: str) -> NDArray[np.int32]:
    """Returns those of `ids` that have a label.

    Raises:
        GraphError: None has; the message calls them `name` nodes.
    """
    found = ids[is_labelled(graph.labels[ids])]
    if not len(found):
        raise GraphError(f"{graph.name} must have labelled {name} nodes, got none among {len(ids)}; change its split")
    return found
