"""`Negatives`: random pairs of nodes, each a pure function of seed, epoch, mini-batch and its number there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.random import below, fold, hop_key, uniform
from a3gnn.storage.compiled import njit, readonly

# Draws of a pair before free nodes are counted, which takes a pass over all nodes. Guess.
_TRIES = 20


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

    def until(self, times: NDArray[Any]) -> NDArray[np.int64]:
        """Returns how many of them, in order, exist at each of `times`."""
        return np.searchsorted(self.times, times, side="right") if len(self.nodes) else np.full(len(times), self.size)

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

    def pairs(self, times: NDArray[Any], epoch: int, batch: int) -> NDArray[np.int32]:
        """Returns a source and a target that exist at each of `times`, int32, shape (2, num_times); -1 for none."""
        return self._drawn(np.empty((2, len(times)), dtype=np.int32), times, epoch, batch, sides=(0, 1))

    def targets(self, sources: NDArray[np.int32], times: NDArray[Any], epoch: int, batch: int) -> NDArray[np.int32]:
        """Returns a target for each of `sources`, which exists at its time, int32; -1 if there is none."""
        drawn: NDArray[np.int32] = self._drawn(np.stack([sources, sources]), times, epoch, batch, sides=(1,))[1]
        return drawn

    def _drawn(
        self, pairs: NDArray[np.int32], times: NDArray[Any], epoch: int, batch: int, sides: tuple[int, ...]
    ) -> NDArray[np.int32]:
        """Returns `pairs`, sources and targets, with those of `sides` drawn."""
        words = np.uint64(self.seed), np.uint64(epoch), np.uint64(batch)
        keys = [np.uint64(hop_key(*words, np.uint64((1 << 31) + side))) for side in range(2)]  # no hop has these
        limits, left = [end.until(times) for end in self.ends], np.arange(pairs.shape[1])
        for attempt in range(_TRIES):
            for side in sides:
                end = self.ends[side]
                pairs[side, left] = draw_nodes(keys[side], left, attempt, limits[side][left], end.totals, end.nodes)
            left = left[(pairs[:, left] >= 0).all(axis=0) & self._are_known(*pairs[:, left])]
            if not len(left):
                return pairs
        for j in left.tolist():
            side, limit = sides[0], [int(one[j]) for one in limits]
            if side == 0:
                pairs[1, j] = _draw_one(keys[1], j, self._free(*limit), self.ends[1].nodes)
            nodes, weights = self.ends[side].first(limit[side])
            both = [nodes, nodes]
            both[1 - side] = np.full_like(nodes, pairs[1 - side, j])
            totals = np.cumsum(np.where(self._are_known(*both), 0.0, weights))
            pairs[side, j] = _draw_one(keys[side], j, totals, self.ends[side].nodes)
        return pairs

    def _are_known(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> NDArray[np.bool_]:
        if not len(self.known):
            return np.zeros(len(sources), dtype=np.bool_)
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
    return int(draw_nodes(key, np.array([pair]), _TRIES, np.array([len(totals)]), readonly(totals), nodes)[0])


@njit(cache=True, nogil=True)
def draw_nodes(
    key: np.uint64,
    pairs: NDArray[np.int64],
    attempt: int,
    limits: NDArray[np.int64],
    totals: NDArray[np.float64],
    nodes: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Returns one of the first candidates for each of `pairs`, int32; -1 if there is none or all of them weigh 0.

    Pair j has draw j of `key`, and its further attempts have the draws of a stream of their own.

    Args:
        key: Keys the draws.
        pairs: Numbers of the pairs.
        attempt: From 0.
        limits: How many of the candidates each pair can have.
        totals: Of `Candidates`.
        nodes: Of `Candidates`.
    """
    drawn = np.full(len(pairs), -1, dtype=np.int32)
    for i in range(len(pairs)):
        stream, counter = (key, pairs[i]) if attempt == 0 else (fold(key, np.uint64(pairs[i])), attempt)
        if limits[i] == 0 or (len(totals) > 0 and totals[limits[i] - 1] == 0.0):
            continue
        if len(totals) == 0:
            place = below(stream, counter, limits[i])
        else:
            total = totals[limits[i] - 1]
            place = np.searchsorted(totals[: limits[i]], uniform(stream, counter) * total, side="right")
        drawn[i] = nodes[place] if len(nodes) > 0 else place
    return drawn
