"""`Negatives`: random pairs of nodes, each a pure function of seed, epoch, mini-batch and its number there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.random import below, fold, hop_key, uniform
from a3gnn.storage.compiled import njit, readonly

# Draws of a pair before free nodes are counted, which takes a pass over all nodes: with half of them free, one pair of
# a million (2^20) needs it.
_TRIES = 20
_NO_TOTALS, _NO_NODES = readonly(np.empty(0)), readonly(np.empty(0, dtype=np.int32))


class Candidates(NamedTuple):
    """The nodes that can be one end of a negative.

    Attributes:
        size: Their number, below 2**32; ids are in [0, size).
        totals: Cumulative weights, float64, shape (size,), in the order of `nodes`; empty if all weigh the same.
        nodes: Ids in the order of time, int32, shape (size,); empty without times.
        times: The times of `nodes`, ascending.
    """

    size: int
    totals: NDArray[np.float64]
    nodes: NDArray[np.int32]
    times: NDArray[Any]

    def until(self, times: NDArray[Any] | None) -> NDArray[np.int64]:
        """Returns how many of them, in order, exist at each of `times`: all, shape (1,), for nodes without times."""
        if times is None or not len(self.nodes):
            return np.array([self.size])
        return np.searchsorted(self.times, times, side="right")

    def first(self, limit: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Returns the ids and weights of the first `limit`."""
        nodes = self.nodes[:limit] if len(self.nodes) else np.arange(limit, dtype=np.int32)
        return nodes, np.diff(self.totals[:limit], prepend=0.0) if len(self.totals) else np.ones(limit)


@dataclass(frozen=True, eq=False)
class Negatives:
    """Draws pairs independently, with repetition.

    Attributes:
        seed: Keys the random numbers, with the epoch, the mini-batch, the side and the pair's number.
        ends: Candidates for sources and for targets.
        known: Pairs that are never drawn, as `source + target * ends[0].size`, int64, ascending and distinct.
    """

    seed: int
    ends: tuple[Candidates, Candidates]
    known: NDArray[np.int64]

    @classmethod
    def avoiding(cls, seed: int, pairs: NDArray[np.int64], num_queries: int, num_candidates: int) -> Self:
        """Returns the draw of candidates, all alike, that are none of `pairs`: queries and candidates, shape (2, n)."""
        ends = [Candidates(size, _NO_TOTALS, _NO_NODES, _NO_TOTALS) for size in (num_queries, num_candidates)]
        return cls(seed, (ends[0], ends[1]), readonly(np.unique(pairs[0] + pairs[1] * num_queries)))

    def pairs(self, count: int, times: NDArray[Any] | None, epoch: int, batch: int) -> NDArray[np.int32]:
        """Returns sources and targets that exist at each of `times`, int32, shape (2, count); -1 for none."""
        return self._drawn(np.empty((2, count), dtype=np.int32), times, epoch, batch, first=0)

    def targets(
        self, sources: NDArray[np.int32], times: NDArray[Any] | None, epoch: int, batch: int
    ) -> NDArray[np.int32]:
        """Returns a target for each of `sources`, which exists at its time, int32; -1 if there is none."""
        drawn: NDArray[np.int32] = self._drawn(np.stack([sources, sources]), times, epoch, batch, first=1)[1]
        return drawn

    def _drawn(
        self, pairs: NDArray[np.int32], times: NDArray[Any] | None, epoch: int, batch: int, first: int
    ) -> NDArray[np.int32]:
        """Returns `pairs`, sources and targets, with the sides from `first` on drawn."""
        keys = pair_keys(np.uint64(self.seed), np.uint64(epoch), np.uint64(batch))
        limits = self.ends[0].until(times), self.ends[1].until(times)
        sides = [(limit, end.totals, end.nodes) for limit, end in zip(limits, self.ends, strict=True)]
        for j in draw_pairs(keys, pairs, first, self.known, self.ends[0].size, *sides).tolist():
            limit = [int(one[j % len(one)]) for one in limits]
            if first == 0:
                pairs[1, j] = _draw_one(keys[1], j, self._free(*limit), self.ends[1].nodes)
            nodes, weights = self.ends[first].first(limit[first])
            both = [nodes, nodes]
            both[1 - first] = np.full_like(nodes, pairs[1 - first, j])
            totals = np.cumsum(np.where(self._are_known(*both), 0.0, weights))
            pairs[first, j] = _draw_one(keys[first], j, totals, self.ends[first].nodes)
        return pairs

    def _are_known(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> NDArray[np.bool_]:
        pairs = sources + targets.astype(np.int64) * self.ends[0].size
        known: NDArray[np.bool_] = self.known[np.searchsorted(self.known[:-1], pairs)] == pairs
        return known

    def _free(self, sources: int, targets: int) -> NDArray[np.float64]:
        """Returns the cumulative weight of the free pairs of the first `targets` targets with the first sources."""
        weights, (nodes, of_nodes) = np.zeros(self.ends[0].size), self.ends[0].first(sources)
        weights[nodes] = of_nodes
        known_targets, known_sources = np.divmod(self.known, len(weights))
        total, known = weights.sum(), weights[known_sources]
        weight = total - np.bincount(known_targets, known, self.ends[1].size)
        free = np.count_nonzero(weights) - np.bincount(known_targets, known > 0, self.ends[1].size)
        # Rounding may leave a weight where no source is free, or none where one is.
        weight = np.where(free > 0, np.maximum(weight, np.finfo(np.float64).eps * total), 0.0)
        nodes, of_nodes = self.ends[1].first(targets)
        return np.cumsum(weight[nodes] * of_nodes)


def _draw_one(key: np.uint64, pair: int, totals: NDArray[np.float64], nodes: NDArray[np.int32]) -> int:
    """Returns one of `nodes` by their cumulative weights `totals`, for a pair whose attempts have failed, or -1."""
    return int(draw_node(key, pair, _TRIES, np.array([len(totals)]), readonly(totals), nodes))


@njit(cache=True, nogil=True)
def pair_keys(seed: np.uint64, epoch: np.uint64, batch: np.uint64) -> NDArray[np.uint64]:
    """Returns the keys of the draws of sources and of targets, uint64, shape (2,)."""
    keys = np.empty(2, dtype=np.uint64)
    for side in range(2):
        keys[side] = hop_key(seed, epoch, batch, np.uint64((1 << 31) + side))  # no hop has these
    return keys


@njit(cache=True, nogil=True)
def draw_pairs(
    keys: NDArray[np.uint64],
    pairs: NDArray[np.int32],
    first: int,
    known: NDArray[np.int64],
    size: int,
    sources: tuple[NDArray[Any], ...],
    targets: tuple[NDArray[Any], ...],
) -> NDArray[np.int64]:
    """Draws `pairs` in place until none is known, and returns the numbers of those that always were.

    Args:
        keys: Of `pair_keys`.
        pairs: Sources and targets, int32, shape (2, num_pairs).
        first: 0 draws both sides, 1 draws targets alone.
        known: Of `Negatives`.
        size: Number of sources.
        sources: How many of the candidates each pair can have, int64, shape (num_pairs,) or (1,); their `totals`, and
            `nodes`.
        targets: As for sources.
    """
    left, count = np.empty(pairs.shape[1], dtype=np.int64), 0
    for j in range(pairs.shape[1]):
        is_known, attempt = True, 0
        while is_known and attempt < _TRIES:
            if first == 0:
                pairs[0, j] = draw_node(keys[0], j, attempt, *sources)
            pairs[1, j] = draw_node(keys[1], j, attempt, *targets)
            pair = pairs[0, j] + np.int64(pairs[1, j]) * size
            place = np.searchsorted(known, pair)
            is_known = min(pairs[0, j], pairs[1, j]) >= 0 and place < len(known) and known[place] == pair
            attempt += 1
        left[count] = j
        count += is_known
    return left[:count]


@njit(cache=True, nogil=True)
def draw_node(
    key: np.uint64,
    pair: int,
    attempt: int,
    limits: NDArray[np.int64],
    totals: NDArray[np.float64],
    nodes: NDArray[np.int32],
) -> int:
    """Returns one of the first candidates for a pair; -1 if there is none or all of them weigh 0.

    Pair j has draw j of `key`, and its further attempts have the draws of a stream of their own.

    Args:
        key: Keys the draws.
        pair: Number of the pair.
        attempt: From 0.
        limits: How many of the candidates each pair can have, or all of them can.
        totals: Of `Candidates`.
        nodes: Of `Candidates`.
    """
    stream, counter = (key, pair) if attempt == 0 else (fold(key, np.uint64(pair)), attempt)
    limit = limits[pair % len(limits)]
    if limit == 0 or (len(totals) > 0 and totals[limit - 1] == 0.0):
        return -1
    if len(totals) == 0:
        place = below(stream, counter, limit)
    else:
        place = np.searchsorted(totals[:limit], uniform(stream, counter) * totals[limit - 1], side="right")
    return int(nodes[place]) if len(nodes) > 0 else int(place)
