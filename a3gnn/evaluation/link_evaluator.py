"""`LinkEvaluator` and `EdgeEvaluator`: the quality of a `LinkModel` on validation and test links or edges."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import A3GNNError, ConfigError, GraphError
from a3gnn.evaluation.evaluate import MOST_VALIDATED, metric_of, quality, tested, validated
from a3gnn.evaluation.inference import CHUNK_BYTES
from a3gnn.evaluation.link_quality import LinkScores, link_quality
from a3gnn.evaluation.own_evaluator import EvaluationPlan, PlannedEvaluator, plans_of_ends
from a3gnn.evaluation.tally import RANKING
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.links import Links
from a3gnn.metric import RANK_METRICS, MetricName
from a3gnn.models.links import LinkModel
from a3gnn.models.loss import LESS_STEEP
from a3gnn.option_names import option
from a3gnn.seeding import derive
from a3gnn.task import Task

#: Links that are judged.
Part = Literal["validation", "test"]
PARTS: tuple[Part, ...] = get_args(Part)
#: The metrics of links.
LINK_METRICS: tuple[str, ...] = (*RANK_METRICS, *RANKING)


class LinkEvaluator(PlannedEvaluator):
    """Evaluates a task's model, a `LinkModel`, on the links of one graph.

    Validation uses all validation links, or all links of some queries: 10,000 or so, chosen by the task's seed. Train
    links are no competitors, nor validation links when test links are ranked. See `PlannedEvaluator` for the arguments.
    """

    @cached_property
    def _validated(self) -> NDArray[np.int32]:
        return validated_links(self._graph, self._task)

    @property
    def _links(self) -> Links:
        assert self._graph.links is not None, "links are predicted"
        return self._graph.links

    @cached_property
    def plans(self) -> dict[str, EvaluationPlan]:
        """How the rows of each end's nodes are computed, by type."""
        return plans_of_ends(self._graph, self._task, self._budget)

    @property
    def text(self) -> str:
        """A description of the neighborhoods that rows are computed from."""
        return next(iter(self.plans.values())).text

    @property
    def cost(self) -> float:
        """The cost of `validate` in bytes moved: of the rows, and of the scores of all candidates."""
        scores = sum(
            len(np.unique(self._links.queries(self._validated, are_heads)[0])) * self._links.num_candidates(are_heads)
            for are_heads in self._links.directions
        )
        return sum(plan.cost for plan in self.plans.values()) + 8.0 * scores

    def validate(self) -> float:
        """Returns the quality on validation links, computed in evaluation mode."""
        return self._quality(*judged_links("validation", self._graph, self._task))

    def test(self) -> float:
        """Returns the quality on all test links, computed in evaluation mode."""
        return self._quality(*judged_links("test", self._graph, self._task))

    def scores(self) -> LinkScores:
        """Returns the model's scores of all links, with a row of each node in memory."""
        module = self._model.module
        assert isinstance(module, LinkModel)
        was_training = module.training
        module.eval()
        try:
            encoded = {kind: self._encoded(kind, plan) for kind, plan in self.plans.items()}
            ends = self._links.ends[: 2 if module.bias is not None else len(encoded)]  # ends of a type have equal rows
            rows = [self._rows(module, encoded[kind], are_tails) for are_tails, kind in enumerate(ends)]
        finally:
            module.train(was_training)
        return LinkScores(module.decoder, rows[0], rows[-1])

    def _quality(self, ids: NDArray[np.int32], known: NDArray[np.int32]) -> float:
        metric, scores, seed = self._task.metric, self.scores(), self._task.seed
        self._on_chunk()
        return link_quality(metric, scores, self._links, ids, known, seed=seed, block=block_bytes(self._budget))

    def _encoded(self, kind: str, plan: EvaluationPlan) -> Tensor:
        """Returns the encoder's rows of all nodes of a type."""
        found, done = torch.empty(0), 0
        for ids, outputs in self.outputs(plan, kind):
            if not done:
                found = outputs.new_empty(sum(map(len, plan.batches)), outputs.shape[1])
            found[done : done + len(ids)] = outputs
            done += len(ids)
        return found

    @torch.no_grad()
    def _rows(self, module: LinkModel, encoded: Tensor, are_tails: int, past: Tensor | None = None) -> Tensor:
        """Returns the decoder's rows of all nodes of an end; `past` is an argument of `LinkModel.rows`.

        Raises:
            A3GNNError: One is not finite.
        """
        ids = torch.arange(len(encoded), device=encoded.device)
        rows = module.rows(encoded, ids, are_tails=bool(are_tails), past=past)
        if not bool(rows.isfinite().all()):
            raise A3GNNError(f"the model's rows of nodes must be finite, got NaN or infinite ones; {LESS_STEEP}")
        return rows


def block_bytes(budget_bytes: int) -> int:
    """Returns the memory of a block of scores in a pass that may take `budget_bytes`, most of which rows take."""
    return max(1 << 20, min(CHUNK_BYTES, budget_bytes // 8))


def judged_links(part: Part, graph: Graph, task: Task) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the numbers of the links that validation or a test ranks, and of those that are no competitors."""
    if part == "test":
        return graph.test_ids, np.concatenate([graph.train_ids, graph.val_ids])
    judged = validated_links(graph, task)
    return judged, np.concatenate([graph.train_ids, np.setdiff1d(graph.val_ids, judged)])


class EdgeEvaluator(LinkEvaluator):
    """Evaluates a task's model, a `LinkModel` that predicts values of edges, on the edges of one graph.

    Validation uses all validation edges with a value, or 10,000 of them. See `PlannedEvaluator` for the arguments.
    """

    @cached_property
    def _validated(self) -> NDArray[np.int32]:
        return validated(self._graph, self._task)

    @property
    def cost(self) -> float:
        """The cost of `validate` in bytes moved: of the rows, and of the pairs."""
        return sum(plan.cost for plan in self.plans.values()) + 8.0 * self._task.hidden_channels * len(self._validated)

    def validate(self) -> float:
        """Returns the quality on validation edges, computed in evaluation mode."""
        return self._quality_on(self._validated)

    def test(self) -> float:
        """Returns the quality on all test edges, computed in evaluation mode."""
        return self._quality_on(tested(self._graph, self._task))

    @torch.no_grad()
    def values(self, pairs: NDArray[np.integer]) -> Iterator[tuple[slice, Tensor]]:
        """Yields the places of some pairs, in order, and the outputs for them, float32, shape (n, outputs).

        Args:
            pairs: Sources and targets as ids within their types, shape (2, num_pairs).
        """
        module, scores = self._model.module, self.scores()
        assert isinstance(module, LinkModel)
        step = max(1, block_bytes(self._budget) // (16 * self._task.hidden_channels))
        for some in (slice(first, first + step) for first in range(0, pairs.shape[1], step)):
            self._on_chunk()
            heads, tails = torch.from_numpy(pairs[:, some].astype(np.int64)).to(self._device)
            yield some, module.outputs(scores.heads[heads], scores.tails[tails])

    def _quality_on(self, ids: NDArray[np.int32]) -> float:
        found = ((ids[some], outputs) for some, outputs in self.values(self._links.pairs[:, ids]))
        return quality(self._model.module, found, self._graph, metric_of(self._task, self._graph))


def validated_links(graph: Graph, task: Task) -> NDArray[np.int32]:
    """Returns the numbers of the links that validation uses, int32; they depend only on the task and the graph."""
    assert graph.links is not None, "links are predicted"
    return graph.links.of_whole_queries(graph.val_ids, MOST_VALIDATED, derive(task.seed, "validated"))


def usual_metric(links: Links) -> tuple[MetricName, str]:
    """Returns the metric that suits links, and a line with the reason."""
    if links.ends[0] == links.ends[1]:
        return "mrr", "metric: MRR, filtered, over all candidates of both directions"
    return "recall@20", "metric: recall@20 over all candidates, because sources and targets are of different types"


def check_link_metric(metric: str) -> None:
    """Checks that `metric` judges links.

    Raises:
        ConfigError: It does not.
    """
    if metric not in LINK_METRICS:
        raise ConfigError(
            f"{option('metric')} must be one of {', '.join(LINK_METRICS)} if links are predicted, got {metric}; auto "
            "chooses one"
        )


def check_links(graph: Graph) -> None:
    """Checks that each part of the split of `graph` has a link.

    Raises:
        GraphError: One has none.
    """
    for name in ("train", "val", "test"):
        if not len(getattr(graph, f"{name}_ids")):
            raise GraphError(f"{graph.name} must have {name} links, got none; change its split")
