"""`EventEvaluator`: the quality of a `LinkModel` on links with times, which see earlier edges alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import ConfigError, UsageError
from a3gnn.evaluation.evaluate import MOST_VALIDATED
from a3gnn.evaluation.event_quality import EVENTS, event_quality
from a3gnn.evaluation.link_evaluator import LinkEvaluator, block_bytes
from a3gnn.evaluation.link_quality import LinkScores
from a3gnn.evaluation.ranking import Score
from a3gnn.graphs.graph import Graph
from a3gnn.models.links import LinkModel, PastLinks
from a3gnn.models.own.ages import edge_ages, with_ages
from a3gnn.models.own.inputs import of_view
from a3gnn.models.own.user_model import UserModel, called, seeded
from a3gnn.option_names import flags_are_used, option
from a3gnn.sampling.link_history import LinkHistory
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.typed import by_type
from a3gnn.seeding import derive
from a3gnn.task import Task

#: Neighbors of the Temporal Graph Benchmark's models (Huang et al., 2023).
_LAST = 10
#: Most nodes of a pass, and most pairs whose history is in memory at once: some 20 MB. Guesses.
_MOST_NODES, _MOST_PAIRS = 4096, 1 << 16


@dataclass(frozen=True, eq=False)
class EventScores(LinkScores):
    """A trained model's scores of all pairs at a time."""

    history: LinkHistory  # what links tell of pairs
    past: PastLinks  # what the model adds for it, in evaluation mode
    known: int  # how many of the first links are earlier

    def __call__(self, are_heads: bool) -> Score:
        """Returns the score of queries that are heads, or tails."""
        plain, own = super().__call__(are_heads), self.heads if are_heads else self.tails

        def score(queries: Tensor, candidates: Tensor) -> Tensor:
            found, nodes = plain(queries, candidates), torch.remainder(queries, len(own)).numpy()
            places, others = self.history.met(nodes, self.known, int(not are_heads))
            wanted = (others >= int(candidates[0])) & (others <= int(candidates[-1]))
            places, others = places[wanted], others[wanted]
            for first in range(0, len(places), _MOST_PAIRS):
                some = slice(first, first + _MOST_PAIRS)
                query, other = nodes[places[some]], others[some]
                heads, tails = (query, other) if are_heads else (other, query)
                values = self.history.of_pairs(heads, tails, np.full(len(other), self.known))
                at = torch.from_numpy(places[some]), torch.from_numpy(others[some]) - int(candidates[0])
                added = self.past.scores(torch.from_numpy(values).to(found.device))
                found.index_put_((at[0].to(found.device), at[1].to(found.device)), added, accumulate=True)
            return found

        return score


class EventEvaluator(LinkEvaluator):
    """Evaluates a task's model on the links of one graph whose edges have times, in batches in the order of time.

    A batch sees the edges that are earlier than its first link. Each of its candidates is computed once, from its last
    neighbors. Validation uses all validation links, or 10,000 or so in evenly spaced batches.
    """

    def __init__(self, graph: Graph, task: Task, model: UserModel, **options: Any) -> None:
        super().__init__(graph, task, model, **options)
        assert graph.types is not None
        assert graph.types.times is not None, "links have times"
        self._types, self._times = graph.types, graph.types.times
        seed = derive(task.seed, "evaluation")
        self._history = LinkHistory.read_by(task, self._links)
        self._sampler = Sampler(graph.placed_edges, task.fanouts, seed=seed, disjoint=True, last=True)

    @cached_property
    def _validated(self) -> NDArray[np.int32]:
        return validated_events(self._graph.val_ids)

    @property
    def text(self) -> str:
        """A description of the neighborhoods that rows are computed from."""
        last = ", ".join(map(str, self._task.fanouts))
        return f"the last {last} neighbors per node before each batch of {EVENTS} links"

    @property
    def cost(self) -> float:
        """The cost of `validate` in bytes moved: of the rows, and of the scores of all candidates."""
        assert self._task.own is not None
        batches = -(-len(self._validated) // EVENTS)
        rows = sum(self._types.schema.counts[kind] for kind in {*self._links.ends})
        scores = EVENTS * sum(map(self._links.num_candidates, self._links.directions))
        moved = self._task.own.cost.moved(*(rows * part for part in self._tree))
        return batches * (moved + 8.0 * scores)

    def validate(self) -> float:
        """Returns the quality on validation links, computed in evaluation mode."""
        return self._quality(self._validated, self._graph.train_ids)

    def scores(self, at: float | None = None) -> LinkScores:
        """Returns the model's scores of all links at a time, from earlier edges; None is after the last edge."""
        times = self._times.distinct
        if at is not None:
            return self._scores_at(int(np.searchsorted(times, at)) - 1, at)
        return self._scores_at(len(times) - 1, times[-1] + (times[-1] - times[0]) / max(len(times) - 1, 1))

    def _quality(self, ids: NDArray[np.int32], known: NDArray[np.int32]) -> float:
        """Returns the quality on the links `ids`; `known` links are competitors, because links repeat."""
        metric, seed = self._task.metric, self._task.seed
        return event_quality(metric, self._scores_of, self._links, ids, seed=seed, block=block_bytes(self._budget))

    def _scores_of(self, batch: NDArray[np.int32]) -> LinkScores:
        """Returns the scores of a batch, of its own sources alone if they are of another type than the targets."""
        assert self._links.ranks is not None
        rank = int(self._links.ranks[batch[0]])
        return self._scores_at(rank - 1, self._times.distinct[rank], np.unique(self._links.pairs[0, batch]))

    @torch.no_grad()
    def _scores_at(self, until: int, seen: Any, sources: NDArray[np.int32] | None = None) -> LinkScores:
        """Returns the scores at the time `seen`, from the edges up to the rank `until` of times."""
        module, counts = self._model.module, self._types.schema.counts
        assert isinstance(module, LinkModel)
        was_training = module.training
        module.eval()
        try:
            encoded = {}
            for place, kind in enumerate(dict.fromkeys(self._links.ends)):
                wanted = len({*self._links.ends}) > 1 and not place and sources is not None
                ids = sources if wanted and sources is not None else np.arange(counts[kind], dtype=np.int32)
                encoded[kind] = self._encoded_at(kind, ids, until, seen)
            assert self._links.ranks is not None
            known = int(np.searchsorted(self._links.ranks, until, side="right"))
            ends = enumerate(self._links.ends)
            heads, tails = (self._rows(module, encoded[kind], end, self._past(end, known)) for end, kind in ends)
        finally:
            module.train(was_training)
        if self._history is None or module.past is None:
            return LinkScores(module.decoder, heads, tails)
        return EventScores(module.decoder, heads, tails, self._history, module.past, known)

    def _past(self, are_tails: int, known: int) -> Tensor | None:
        """Returns the values of all nodes of an end by the first `known` links, if the model reads them."""
        if self._history is None:
            return None
        nodes = np.arange(self._links.num_nodes[are_tails])
        values = self._history.of_nodes(nodes, np.full(len(nodes), known), are_tails)
        return torch.from_numpy(values).to(self._device)

    def _encoded_at(self, kind: str, ids: NDArray[np.int32], until: int, seen: Any) -> Tensor:
        """Returns the encoder's rows of the nodes `ids` of a type, in a row per node of the type; others are 0."""
        schema, found = self._types.schema, torch.empty(0)
        assert self._task.own is not None
        size = int(self._budget // max(self._task.own.cost.bytes(*self._tree), 1.0))
        size = max(1, min(size, _MOST_NODES))
        for first in range(0, len(ids), size):
            self._on_chunk()
            some = ids[first : first + size]
            seeds = some + np.int32(schema.first_node(kind))
            subgraph = self._sampler.sample(seeds, 0, 0, np.full(len(seeds), until, dtype=np.int32))
            view = by_type(subgraph, schema)
            ages = edge_ages(view, schema, self._times, np.full(len(seeds), seen))
            module = self._model.module
            assert isinstance(module, LinkModel)
            inputs = of_view(self._graph, self._types, view, torch.device("cpu"), self._model.edge_values)
            inputs = with_ages(inputs.taken_by(module), module, ages).to(self._device)
            with seeded(derive(self._task.seed, "evaluation"), self._device):
                rows = called(module, *inputs)[kind]
            if not first:
                found = rows.new_zeros(schema.counts[kind], rows.shape[1])
            found[torch.from_numpy(some).long().to(self._device)] = rows[: len(some)]
        return found

    @cached_property
    def _tree(self) -> tuple[float, float]:
        """The most nodes and edges of a node's tree."""
        widest, total, nodes = int(np.diff(self._types.rows).max(initial=1)), 1.0, 1.0
        for fanout in self._task.fanouts:
            nodes *= len(self._types.schema.relations) * (min(fanout, widest) if fanout > 0 else widest)
            total += nodes
        return total, total - 1


def validated_events(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns the validation links `ids`, or about `MOST_VALIDATED` of them in evenly spaced batches of `EVENTS`."""
    most = MOST_VALIDATED // EVENTS
    batches = np.split(ids, range(EVENTS, len(ids), EVENTS))
    if len(batches) <= most:
        return ids
    return np.concatenate([batches[place] for place in np.linspace(0, len(batches) - 1, most).astype(int)])


def for_events(graph: Graph, task: Task, notify: Callable[[str], None]) -> Task:
    """Returns the task for links with times.

    Without given fanouts, it has the last `_LAST` neighbors in one layer. `own_links` has no effect, so it is the
    default: each link sees earlier edges alone, of which repeats are history.

    Args:
        graph: Any graph.
        task: Returned as it is if links have no times.
        notify: Called with a line for each change.

    Raises:
        ConfigError: Negatives are shared by links of different times.
    """
    if graph.types is None or graph.types.times is None:
        return task
    if not task.negatives.startswith("binary"):
        raise ConfigError(
            f"negatives must be binary:N for links with times, got {task.negatives}, whose candidates are shared by "
            "links of different times"
        )
    if task.own_links != Task().own_links:
        notify(
            f"links have times, so each sees earlier edges alone; {option('own_links', task.own_links)} has no effect"
        )
        task = dataclasses.replace(task, own_links=Task().own_links)
    if not task.has_default_fanouts:
        return task
    better = f", and {option('decoder', 'mlp')} often ranks better" if task.decoder == "dot" else ""
    usual = ",".join(map(str, task.fanouts))
    notify(
        f"links have times, so the default fanouts {usual} are replaced by {_LAST}, the last neighbors in one layer; "
        f"{option('fanouts', usual if flags_are_used() else task.fanouts)} keeps those{better}"
    )
    return dataclasses.replace(task, fanouts=(_LAST,))


def check_untimed(graph: Graph, call: str) -> None:
    """Checks that links of `graph` have no times, which `call`, such as tune, doesn't take.

    Raises:
        UsageError: They have.
    """
    if graph.links is not None and graph.links.ranks is not None:
        raise UsageError(
            f"links must have no times for {call}, got {graph.name}, whose links see earlier edges alone; a3gnn train "
            "takes them"
        )
