"""`Negatives`: random pairs of nodes, each a pure function of seed, epoch, mini-batch and its number there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.random import below, fold, hop_key, uniform
from a3gnn.storage.compiled import njit, readonly

# Draws of a pair before free nodes are counted, which takes a pass over all nodes. Guess.
_TRIES = 20


@dataclass(frozen=True, eq=False)
class Negatives:
    """Draws pairs independently, with repetition.

    Attributes:
        seed: Keys the random numbers, with the epoch, the mini-batch, the side and the pair's number.
        counts: Nodes that can be a source, and a target; below 2**32.
        totals: Cumulative weights of the sources, and of the targets, float64; empty if all weigh the same.
        known: Pairs that are never drawn, as `source + target * counts[0]`, int64, ascending and distinct.
    """

    seed: int
    counts: tuple[int, int]
    totals: tuple[NDArray[np.float64], NDArray[np.float64]]
    known: NDArray[np.int64]

    def pairs(self, count: int, epoch: int, batch: int) -> NDArray[np.int32]:
        """Returns `count` sources and targets, int32, shape (2, count); -1 if all pairs are known."""
        return self._drawn(np.empty((2, count), dtype=np.int32), epoch, batch, sides=(0, 1))

    def targets(self, sources: NDArray[np.int32], amount: int, epoch: int, batch: int) -> NDArray[np.int32]:
        """Returns targets for each of `sources`, int32, shape (num_sources, amount); -1 if all are known."""
        ends = np.stack([np.repeat(sources, amount)] * 2)
        targets: NDArray[np.int32] = self._drawn(ends, epoch, batch, sides=(1,))[1].reshape(-1, amount)
        return targets

    def _drawn(self, ends: NDArray[np.int32], epoch: int, batch: int, sides: tuple[int, ...]) -> NDArray[np.int32]:
        """Returns `ends`, sources and targets, with those of `sides` drawn."""
        words = np.uint64(self.seed), np.uint64(epoch), np.uint64(batch)
        keys = [np.uint64(hop_key(*words, np.uint64((1 << 31) + side))) for side in range(2)]  # no hop has these
        left = np.arange(ends.shape[1])
        for attempt in range(_TRIES):
            for side in sides:
                ends[side, left] = draw_nodes(keys[side], left, attempt, self.counts[side], self.totals[side])
            left = left[self._are_known(*ends[:, left])]
            if not len(left):
                return ends
        for j in left.tolist():
            if 0 in sides:
                ends[1, j] = _draw_one(keys[1], j, self._free)
            nodes = np.arange(self.counts[sides[0]], dtype=np.int32)
            pairs = [nodes, nodes]
            pairs[1 - sides[0]] = np.full_like(nodes, ends[1 - sides[0], j])
            weights = np.where(self._are_known(*pairs), 0.0, self._weights(sides[0]))
            ends[sides[0], j] = _draw_one(keys[sides[0]], j, np.cumsum(weights))
        return ends

    def _are_known(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> NDArray[np.bool_]:
        if not len(self.known):
            return np.zeros(len(sources), dtype=np.bool_)
        pairs = sources + targets.astype(np.int64) * self.counts[0]
        return np.equal(self.known[np.searchsorted(self.known[:-1], pairs)], pairs)

    def _weights(self, side: int) -> NDArray[np.float64]:
        totals = self.totals[side]
        return np.diff(totals, prepend=0.0) if len(totals) else np.ones(self.counts[side])

    @cached_property
    def _free(self) -> NDArray[np.float64]:
        """The cumulative weight of each target's free pairs."""
        weights, (targets, sources) = self._weights(0), np.divmod(self.known, self.counts[0])
        total, known = weights.sum(), np.bincount(targets, weights[sources], self.counts[1])
        free = np.count_nonzero(weights) - np.bincount(targets, weights[sources] > 0, self.counts[1])
        # Rounding may leave a weight where no source is free, or none where one is.
        left = np.where(free > 0, np.maximum(total - known, np.finfo(np.float64).eps * total), 0.0)
        return np.cumsum(left * self._weights(1))


def _draw_one(key: np.uint64, pair: int, totals: NDArray[np.float64]) -> int:
    """Returns a node by the cumulative weights `totals`, for a pair whose attempts have failed; -1 if all are 0."""
    return int(draw_nodes(key, np.array([pair]), _TRIES, len(totals), readonly(totals))[0]) if totals[-1] > 0 else -1


@njit(cache=True, nogil=True)
def draw_nodes(
    key: np.uint64, pairs: NDArray[np.int64], attempt: int, count: int, totals: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Returns a node in [0, count) for each of `pairs`, int32: uniform, or by the cumulative weights `totals`.

    Pair j has draw j of `key`, and its further attempts have the draws of a stream of their own.
    """
    nodes = np.empty(len(pairs), dtype=np.int32)
    for i in range(len(pairs)):
        stream, counter = (key, pairs[i]) if attempt == 0 else (fold(key, np.uint64(pairs[i])), attempt)
        if len(totals) == 0:
            nodes[i] = below(stream, counter, count)
        else:
            nodes[i] = np.searchsorted(totals, uniform(stream, counter) * totals[-1], side="right")
    return nodes
