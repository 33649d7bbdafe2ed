"""Chooses a cache policy by a short measured presample."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.config import DYNAMIC_POLICIES, STATIC_POLICIES, CachePolicy
from a3gnn.features.host import HostFeatures
from a3gnn.features.policies.presample import presampled
from a3gnn.features.policies.replay import Replay, replay
from a3gnn.features.policies.slot_map import slots_that_fit
from a3gnn.features.rows import DenseRows, FeatureRows
from a3gnn.graphs.graph import Graph
from a3gnn.seeding import derive

# Mini-batches that policies are tried on, and of those, the ones whose reading is timed.
_LEAST_BATCHES, _TIMED = 24, 6
# Rows that they need together, a row of the cache: with fewer, lfu looks better than it is once its counts are stale.
_ROWS_A_SLOT = 32
# And at most: so many keep seven replays to seconds.
_MOST_ROWS = 20_000_000
# Of the time that a mini-batch's rows take without a cache: less is not worth leaving the simplest policy for.
_WORTHWHILE = 0.02


class Choice(NamedTuple):
    """A policy, and why where it was chosen by measurement."""

    policy: CachePolicy
    reason: str = ""


class RowSeconds(NamedTuple):
    """Seconds a row to read from where uncached ones lie, and from the cache's memory."""

    base: float
    cache: float


class Trial(NamedTuple):
    """A policy on trial: what it did, and the milliseconds a mini-batch that it would save by estimate."""

    replayed: Replay
    saved_ms: float


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a cache is to be.

    Attributes:
        base: The rows where uncached ones will be read.
        num_nodes: Nodes of the graph.
        num_features: Columns.
        cache_bytes: What the cache may take altogether.
        rank: Returns the nodes that a static policy caches there.
        device: Where the cache's rows will lie: cpu or cuda.
        resident: Whether rows are brought into RAM part by part, so that the base is read only for that.
    """

    base: FeatureRows
    num_nodes: int
    num_features: int
    cache_bytes: int
    rank: Callable[[CachePolicy], NDArray[np.int32]]
    device: str
    resident: bool = False

    def slots(self, policy: CachePolicy) -> int:
        """Returns how many rows a cache of `policy`, a dynamic one, holds here: none of sparse ones."""
        if not isinstance(self.base, DenseRows):
            return 0
        return slots_that_fit(policy, self.cache_bytes, self.num_nodes, self.base.array[:1].nbytes)


def trial_batches(
    graph: Graph,
    fanouts: Sequence[int],
    batch_size: int,
    seed: int,
    *,
    slots: int,
    seeds: Sequence[NDArray[np.int32]] | None = None,
) -> list[NDArray[np.int32]]:
    """Returns the nodes of the mini-batches that policies are tried on, epoch after epoch as training goes.

    At least 24, and more until they need 32 rows together for each of the cache's `slots`, or 20 million: the first
    half is to fill it, and the second to show what it is worth in the long run. The other arguments are those of
    `presampled`, whose own mini-batches are others: no ranking is tried on what it counted. Without train nodes there
    are none.
    """
    batches: list[NDArray[np.int32]] = []
    needed = 0
    for epoch in itertools.count():
        before = needed
        for ids in presampled(graph, fanouts, batch_size, derive(seed, "auto", epoch), seeds=seeds):
            batches.append(ids)
            needed += len(ids)
            if len(batches) >= _LEAST_BATCHES and needed >= min(_ROWS_A_SLOT * slots, _MOST_ROWS):
                return batches
        if needed == before:
            break
    return []


def choose_policy(batches: Sequence[NDArray[np.int32]], place: Place) -> Choice:
    """Returns the policy that saves most time a mini-batch, by estimate, and says why.

    `batches` (`trial_batches`) are replayed through each policy; their first half fills the caches. What a policy saves
    is its hits times what a row takes longer from the base than from the cache, both measured on `batches`, less its
    overhead: look-up, update and the copies of admitted rows. degree is left only for a gain of 2 % of what reading
    takes without a cache. As time is measured, the choice may differ from run to run; no answer of a store depends on
    it.
    """
    if not batches or not place.cache_bytes:
        return Choice("degree", "auto took degree: there are no mini-batches, or no cache, to try policies on")
    row, rows = row_seconds(batches[:_TIMED], place), statistics.fmean(map(len, batches))
    trials: dict[CachePolicy, Trial] = {}
    for policy in (*STATIC_POLICIES, *(DYNAMIC_POLICIES if isinstance(place.base, DenseRows) else ())):
        done = _replayed(policy, batches, place)
        seconds = done.hit_rate * rows * (row.base - row.cache) - done.admitted * row.cache
        trials[policy] = Trial(done, 1e3 * seconds - done.overhead_ms)
    best = max(trials, key=lambda policy: trials[policy].saved_ms)
    if trials[best].saved_ms - trials["degree"].saved_ms <= _WORTHWHILE * 1e3 * rows * row.base:
        best = "degree"
    return Choice(best, _reason(best, trials, row))


def row_seconds(batches: Sequence[NDArray[np.int32]], place: Place) -> RowSeconds:
    """Returns what a row of `batches` takes from the base and from the cache's memory: the median mini-batch's.

    Each mini-batch is read from the base once, as in training: rows that come from the disk are paid for. Where parts
    are resident, rows are brought into RAM before.
    """
    plain = HostFeatures(place.base, place.num_nodes, place.num_features)
    slow, fast = [], []
    for ids in batches:
        if place.resident:
            plain.read(ids)
        begin = perf_counter()
        x = _waited(plain.read(ids).x.to(place.device))
        slow.append((perf_counter() - begin) / len(ids))
        order = np.random.default_rng(0).permutation(len(ids)).astype(np.int32)
        if x.is_cuda:
            index = _waited(torch.from_numpy(order).to(place.device, torch.int64))
            begin = perf_counter()
            _waited(x.index_select(0, index))
        else:
            compact = HostFeatures(place.base.take(ids), len(ids), place.num_features)
            begin = perf_counter()
            compact.read(order)
        fast.append((perf_counter() - begin) / len(ids))
    return RowSeconds(statistics.median(slow), statistics.median(fast))


def _waited(x: torch.Tensor) -> torch.Tensor:
    """Returns `x` once its device has computed it."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return x


def _replayed(policy: CachePolicy, batches: Sequence[NDArray[np.int32]], place: Place) -> Replay:
    warm_up = len(batches) // 2
    if policy in DYNAMIC_POLICIES:
        return replay(policy, batches, place.slots(policy), place.num_nodes, warm_up_batches=warm_up)
    hot = place.rank(policy)
    return replay(policy, batches, len(hot), place.num_nodes, hot, warm_up_batches=warm_up)


def _reason(best: CachePolicy, trials: dict[CachePolicy, Trial], row: RowSeconds) -> str:
    tried = ", ".join(
        f"{policy} {trial.saved_ms:+.2f} ms ({trial.replayed.hit_rate:.0%} hits)" for policy, trial in trials.items()
    )
    return (
        f"auto took {best}: a row takes {1e9 * row.base:.0f} ns from where uncached ones lie and {1e9 * row.cache:.0f} "
        f"ns from the cache, so that a mini-batch would gain {tried}"
    )
