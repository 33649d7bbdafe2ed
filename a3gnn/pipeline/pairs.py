"""`PairSeeds`: turns pairs of nodes into the seeds of a mini-batch, with the candidates that they compete with."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import UsageError
from a3gnn.graphs.links import Links
from a3gnn.graphs.schema import MOST_IDS, Schema
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.link_history import LinkHistory
from a3gnn.sampling.negatives import Negatives
from a3gnn.sampling.relabeling import forget, relabel
from a3gnn.sampling.sampler import PositionMaps
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.seeding import derive
from a3gnn.storage.compiled import njit, readonly
from a3gnn.task import NegativeDraws


class Rivals(NamedTuple):
    """Candidates that the true pairs of a mini-batch compete with in one direction.

    Attributes:
        are_heads: Whether queries are heads, so these are tails.
        nodes: Their places among the mini-batch's nodes of their type, int64: shape (num_pairs, amount), or (amount,)
            if all pairs share them.
        known: Which of shared rivals are true candidates of each pair's query, bool, shape (num_pairs, amount); None
            for rivals of single pairs, which never are.
        history: The values of the pairs that they make (`LinkHistory`), float32, shape (num_pairs * amount, columns);
            None without.
    """

    are_heads: bool
    nodes: Tensor
    known: Tensor | None
    history: Tensor | None = None

    def to(self, device: torch.device) -> Rivals:
        """Returns the rivals with their tensors on `device`."""
        known, history = (None if one is None else one.to(device) for one in (self.known, self.history))
        return Rivals(self.are_heads, self.nodes.to(device), known, history)


class LinkExamples(NamedTuple):
    """The pairs of a mini-batch.

    Attributes:
        ids: Their numbers in `Links`, int32, shape (num_pairs,).
        heads: The places of their sources among the mini-batch's nodes of the source type, int64, shape (num_pairs,).
        tails: The same for their targets.
        relations: Their relations, int64, shape (num_pairs,).
        rivals: What they compete with, for each direction.
        ranks: With times, the rank of the time of each of the mini-batch's seeds, int32, shape (num_seeds,); else None.
        history: The values of the pairs (`LinkHistory`), float32, shape (num_pairs, columns); None without.
        nodes: The values of the mini-batch's nodes of the source and of the target type, float32; empty without.
    """

    ids: NDArray[np.int32]
    heads: Tensor
    tails: Tensor
    relations: Tensor
    rivals: tuple[Rivals, ...]
    ranks: NDArray[np.int32] | None = None
    history: Tensor | None = None
    nodes: tuple[Tensor, ...] = ()

    def to(self, device: torch.device) -> LinkExamples:
        """Returns the pairs with their tensors on `device`."""
        if device.type == "cpu":
            return self
        rivals = tuple(one.to(device) for one in self.rivals)
        heads, tails, relations = (one.to(device) for one in (self.heads, self.tails, self.relations))
        history = None if self.history is None else self.history.to(device)
        nodes = tuple(one.to(device) for one in self.nodes)
        return LinkExamples(self.ids, heads, tails, relations, rivals, self.ranks, history, nodes)


class _Direction(NamedTuple):
    """How rivals of a direction are drawn.

    Attributes:
        are_heads: Whether queries are heads.
        draws: Draws a free candidate for a query, or any node in a pair's second place.
        known: True pairs of training as `query * num_candidates + candidate`, int64, ascending and distinct.
        num_candidates: Candidates of each query.
    """

    are_heads: bool
    draws: Negatives
    known: NDArray[np.int64]
    num_candidates: int


class PairSeeds:
    """Draws rivals and finds the seeds of a mini-batch of pairs: a function of seed, epoch and mini-batch. Thread-safe.

    Args:
        links: The pairs.
        schema: The types of the graph.
        train_ids: The pairs of training. No rival of a single pair is one of them, with times one of its own time.
        draws: Rivals of each pair; None if values of pairs are predicted, which have none.
        seed: Keys the random numbers.
        hides: Whether `without` takes pairs out of message passing.
        history: What the links before each pair tell of it; None if the decoder does not read it.
    """

    def __init__(
        self,
        links: Links,
        schema: Schema,
        train_ids: NDArray[np.int32],
        draws: NegativeDraws | None,
        seed: int,
        *,
        hides: bool = False,
        history: LinkHistory | None = None,
    ) -> None:
        self._links, self._history = links, history
        self._schema, self._first = schema, links.first_nodes(schema)
        self._hidden_in = _shown_in(links, schema) if hides else None
        self._positions = PositionMaps(int(schema.layout[0, -1]))
        self._directions = []
        if draws is not None:
            self._draws = draws
            self._directions = [self._direction(train_ids, one, seed) for one in links.directions]

    def planned(self, batch: PlannedBatch, epoch: int) -> tuple[PlannedBatch, LinkExamples]:
        """Returns the mini-batch of the pairs that `batch` has as seeds, with their nodes as seeds, and the pairs.

        Raises:
            UsageError: A query has no free candidate.
        """
        ids, ends = batch.seeds, self._links.pairs[:, batch.seeds].astype(np.int64)
        drawn = [self._rivals(one, ids, epoch, batch.index) for one in self._directions]
        sides = [[heads_or_tails] for heads_or_tails in ends]
        for one, nodes in zip(self._directions, drawn, strict=True):
            sides[one.are_heads].append(nodes.ravel())
        sources, targets = (np.concatenate(side) for side in sides)
        if self._links.ranks is None:
            (seeds, places), ranks = self._seeds(sources, targets), None
        else:
            each = self._links.ranks[ids]
            moments = [
                np.concatenate([each, *(np.repeat(each, one.size // len(ids)) for one in side[1:])]) for side in sides
            ]
            seeds, ranks, places = self._timed_seeds(sources, targets, *moments)
        count, relations = len(ids), torch.from_numpy(self._links.kinds[ids].astype(np.int64))
        rivals = [
            Rivals(one.are_heads, places[one.are_heads][count:].view(nodes.shape), self._known(one, ids, nodes))
            for one, nodes in zip(self._directions, drawn, strict=True)
        ]
        heads, tails = (one[:count] for one in places)
        until = None if ranks is None else ranks - np.int32(1)
        examples = LinkExamples(ids, heads, tails, relations, tuple(rivals), ranks)
        if self._history is not None and ranks is not None:
            examples = self._with_history(examples, self._history, drawn, seeds, ranks)
        return dataclasses.replace(batch, seeds=seeds, until=until), examples

    def _with_history(
        self,
        examples: LinkExamples,
        history: LinkHistory,
        drawn: list[NDArray[np.int64]],
        seeds: NDArray[np.int32],
        ranks: NDArray[np.int32],
    ) -> LinkExamples:
        """Returns the pairs with the values of `history`; `drawn` are the rivals, and `ranks` are of the `seeds`."""
        of_links, ends = self._links.ranks, self._links.pairs[:, examples.ids].astype(np.int64)
        assert of_links is not None
        known, rivals, nodes = np.searchsorted(of_links, of_links[examples.ids]), [], []
        for one, others in zip(examples.rivals, drawn, strict=True):
            amount = others.shape[1]
            own, other = np.repeat(ends[1 - one.are_heads], amount), others.ravel()
            heads, tails = (own, other) if one.are_heads else (other, own)
            values = history.of_pairs(heads, tails, np.repeat(known, amount))
            rivals.append(one._replace(history=torch.from_numpy(values)))
        for end, (first, size) in enumerate(zip(self._first, self._links.num_nodes, strict=True)):
            there = (seeds >= first) & (seeds < first + size)
            values = history.of_nodes(seeds[there] - np.int64(first), np.searchsorted(of_links, ranks[there]), end)
            nodes.append(torch.from_numpy(values))
        of_pairs = torch.from_numpy(history.of_pairs(ends[0], ends[1], known))
        return examples._replace(history=of_pairs, rivals=tuple(rivals), nodes=tuple(nodes))

    def without(self, subgraph: Subgraph, examples: LinkExamples) -> Subgraph:
        """Returns `subgraph` without its own pairs and their reverses, if pairs are hidden; its nodes stay.

        Args:
            subgraph: Sampled for the seeds of `planned`.
            examples: Its pairs.
        """
        if self._hidden_in is None:
            return subgraph
        ends = self._links.pairs[:, examples.ids].astype(np.int64) + np.array(self._first)[:, None]
        size = int(self._schema.layout[0, -1])
        keys, rows = ends[0] * size + ends[1], subgraph.rows
        order = np.argsort(keys, kind="stable")
        if rows is None:
            rows = self._schema.row_table(subgraph.n_id[: subgraph.hop_sizes[-2]])
        pairs = keys[order], self._links.kinds[examples.ids][order], size, self._hidden_in
        kept = not_own(subgraph.n_id[: subgraph.num_seeds], subgraph.indptr, subgraph.indices, rows, *pairs)
        if kept.all():
            return subgraph
        before = np.concatenate([[0], kept.cumsum()])
        ids = None if subgraph.e_id is None else subgraph.e_id[kept]
        indptr = before[subgraph.indptr].astype(np.int32)
        return dataclasses.replace(subgraph, indptr=indptr, indices=subgraph.indices[kept], e_id=ids)

    def _rivals(self, of: _Direction, ids: NDArray[np.int32], epoch: int, index: int) -> NDArray[np.int64]:
        """Returns rivals of the pairs `ids` as ids within their type, int64, shape (n, amount) or (amount,)."""
        queries, candidates = self._links.queries(ids, of.are_heads)
        if not self._draws.amount:
            return np.unique(candidates)
        if self._draws.loss == "softmax":
            shared: NDArray[np.int64] = of.draws.pairs(self._draws.amount, None, epoch, index)[1].astype(np.int64)
            return shared
        draws = of.draws
        if self._links.ranks is not None:  # what is true at other times is no true pair
            distinct, pairs = self._links.at_once(ids, of.are_heads)
            queries = pairs[0, : len(ids)]
            draws = Negatives.avoiding(draws.seed, pairs, len(distinct), of.num_candidates)
        repeated = np.repeat(queries, self._draws.amount).astype(np.int32)
        drawn = draws.targets(repeated, None, epoch, index)
        if drawn.min() < 0:
            heads, tails = self._links.pairs[:, ids[int(drawn.argmin()) // self._draws.amount]]
            times = self._links.ranks is not None
            what, other = ("pair at its time", "") if times else ("train pair", ", or choose softmax")
            raise UsageError(
                f"a negative must be a pair that is no {what}, but all candidates of an end of ({heads}, {tails}) are; "
                f"leave such pairs out{other}"
            )
        return drawn.reshape(len(ids), -1).astype(np.int64)

    def _known(self, of: _Direction, ids: NDArray[np.int32], rivals: NDArray[np.int64]) -> Tensor | None:
        if rivals.ndim == 2:
            return None
        queries = self._links.queries(ids, of.are_heads)[0]
        return torch.from_numpy(known_among(queries, rivals, of.known, of.num_candidates))

    def _seeds(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> tuple[NDArray[np.int32], list[Tensor]]:
        """Returns the distinct nodes, ids through all types, and the places of both in the nodes of their type."""
        local = np.concatenate([sources + self._first[0], targets + self._first[1]]).astype(np.int32)
        position, nodes = self._positions.take(), np.empty(len(local) + 1, dtype=np.int32)
        seeds = nodes[: relabel(local, position, nodes, 0)]
        forget(seeds, position)
        self._positions.give_back(position)
        places = local.astype(np.int64)
        if len(self._links.directions) == 1:  # sources come first, and are of another type
            places[len(sources) :] -= places[: len(sources)].max() + 1
        return seeds, [torch.from_numpy(one) for one in np.split(places, [len(sources)])]

    def _timed_seeds(
        self,
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        of_sources: NDArray[np.int32],
        of_targets: NDArray[np.int32],
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], list[Tensor]]:
        """Returns the distinct nodes with ranks of times, and the places of both in the nodes of their type."""
        ranks = np.concatenate([of_sources, of_targets]).astype(np.int64)
        nodes = np.concatenate([sources + self._first[0], targets + self._first[1]])
        size = int(ranks.max()) + 1
        keys, places = np.unique(nodes * size + ranks, return_inverse=True)
        found = np.split(places.astype(np.int64), [len(sources)])
        if len(self._links.directions) == 1:  # types lie one after the other
            found = [one - one.min() for one in found]
        seeds, moments = (part.astype(np.int32) for part in np.divmod(keys, size))
        return seeds, moments, [torch.from_numpy(one) for one in found]

    def _direction(self, train_ids: NDArray[np.int32], are_heads: bool, seed: int) -> _Direction:
        links = self._links
        queries, candidates = links.queries(train_ids, are_heads)
        sizes = links.num_queries(are_heads), links.num_candidates(are_heads)
        if sizes[0] > MOST_IDS:
            raise UsageError(
                f"a link task must have at most {MOST_IDS} nodes times relations, got {sizes[0]}; predict fewer "
                "relations"
            )
        avoided = np.stack([queries, candidates])
        avoided = avoided if self._draws.loss == "binary" else avoided[:, :0]
        draws = Negatives.avoiding(derive(seed, "negatives", int(are_heads)), avoided, *sizes)
        known = readonly(np.unique(queries * sizes[1] + candidates))
        return _Direction(are_heads, draws, known, sizes[1])


def _shown_in(links: Links, schema: Schema) -> NDArray[np.bool_]:
    """Returns which relations show pairs, bool, shape (num_relations, num_predicted, 2): as they are, and reversed."""
    found = np.zeros((len(schema.relations), len(links.relations), 2), dtype=np.bool_)
    own = [(schema.relations.index(one), kind) for kind, one in enumerate(links.relations)]
    for place, kind in (*own, *links.mirrors):
        ends = schema.relations[place].source, schema.relations[place].target
        found[place, kind] |= ends == links.ends, ends == links.ends[::-1]
    return found


@njit(cache=True, nogil=True)
def not_own(
    seeds: NDArray[np.int32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    rows: NDArray[np.int32],
    keys: NDArray[np.int64],
    kinds: NDArray[np.int32],
    size: int,
    hidden_in: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Returns which edges of a sampled neighborhood are none of a mini-batch's pairs, bool, shape (num_edges,).

    Args:
        seeds: The first nodes of the neighborhood, among which are both ends of each pair.
        indptr: As in `Subgraph`.
        indices: As in `Subgraph`.
        rows: As in `Subgraph`.
        keys: The pairs as `head * size + tail`, ids through all types, ascending.
        kinds: Their relations.
        size: Above all ids.
        hidden_in: Which relations show pairs (`_shown_in`).
    """
    kept = np.ones(len(indices), dtype=np.bool_)
    for row in range(rows.shape[1]):
        target, relation = rows[0, row], rows[1, row]
        if target >= len(seeds):
            break  # rows are in the order of their nodes
        if not hidden_in[relation].any():
            continue
        for e in range(indptr[row], indptr[row + 1]):
            if indices[e] >= len(seeds):
                continue
            ends = np.int64(seeds[indices[e]]), np.int64(seeds[target])
            for flip in range(2):
                key = ends[flip] * size + ends[1 - flip]
                at = np.searchsorted(keys, key)
                while at < len(keys) and keys[at] == key:
                    kept[e] &= not hidden_in[relation, kinds[at], flip]
                    at += 1
    return kept


@njit(cache=True, nogil=True)
def known_among(
    queries: NDArray[np.int64], candidates: NDArray[np.int64], known: NDArray[np.int64], num_candidates: int
) -> NDArray[np.bool_]:
    """Returns which of the same `candidates` are known for each query, bool, shape (num_queries, num_shared).

    Args:
        queries: Numbers of queries, shape (num_queries,).
        candidates: Shape (num_shared,).
        known: Pairs as `query * num_candidates + candidate`, ascending and distinct.
        num_candidates: Candidates of each query.
    """
    found = np.zeros((len(queries), len(candidates)), dtype=np.bool_)
    for i in range(len(queries)):
        base = queries[i] * num_candidates
        begin = np.searchsorted(known, base)
        end = begin + np.searchsorted(known[begin:], base + num_candidates)
        own = known[begin:end]
        for j in range(len(candidates)):
            place = np.searchsorted(own, base + candidates[j])
            found[i, j] = place < len(own) and own[place] == base + candidates[j]
    return found
