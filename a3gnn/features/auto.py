"""Chooses a cache policy by replaying presampled mini-batches and timing how fast rows are read."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.config import DYNAMIC_POLICIES, STATIC_POLICIES, CachePolicy
from a3gnn.errors import UsageError
from a3gnn.features.cache_ranking import presampled
from a3gnn.features.host_store import DenseHostStore, SparseHostStore
from a3gnn.features.slot_map import FixedMap, SlotMap, slots_that_fit, warm_up
from a3gnn.features.store import FeatureStore
from a3gnn.features.stored_rows import DenseRows, StoredRows
from a3gnn.graphs.graph import Graph
from a3gnn.seeding import derive

# Fewest mini-batches in a replay, and the number of them that are read and timed. Guesses.
_MIN_BATCHES, _TIMED = 24, 6
# Fewest rows of these mini-batches together, per row of the cache: with fewer, LFU's counts do not go stale as in
# training, and it looks better than it is (docs/design/caching.md). The number is a guess.
_ROWS_PER_SLOT = 32
# Most rows of these mini-batches together, so seven replays take seconds. Guess.
_MAX_ROWS = 20_000_000
# Gain over degree up to which degree is kept, as a share of the time of reading without a cache. Guess.
_WORTHWHILE = 0.02


class PolicyChoice(NamedTuple):
    """A policy, and the reason if `auto` chose it."""

    policy: CachePolicy
    reason: str = ""


class RowSeconds(NamedTuple):
    """Seconds to read a row from the base, and from the cache's memory."""

    base: float
    cache: float


class ReplayStats(NamedTuple):
    """Statistics of a policy over the counted mini-batches.

    Attributes:
        hit_rate: Hits per node looked up, in [0, 1].
        overhead_ms: Median milliseconds of look-up and update of the maps per mini-batch.
        admitted: Mean rows admitted per mini-batch.
    """

    hit_rate: float
    overhead_ms: float
    admitted: float


class PolicyEstimate(NamedTuple):
    """A policy's statistics in the replay, and the milliseconds per mini-batch that it is estimated to save."""

    replayed: ReplayStats
    saved_ms: float


@dataclass(frozen=True, slots=True, eq=False)
class CachePlacement:
    """The rows that a cache may hold, its size and its place.

    Attributes:
        base: All rows; misses are read from here.
        num_nodes: Nodes of the graph.
        num_features: Columns.
        cache_bytes: Most bytes of the cache, maps included.
        rank: Returns the nodes that a static policy caches.
        device: Device of the cached rows: cpu or cuda.
        resident: Whether rows are copied to RAM part by part, and the base is read for nothing else.
    """

    base: StoredRows
    num_nodes: int
    num_features: int
    cache_bytes: int
    rank: Callable[[CachePolicy], NDArray[np.int32]]
    device: str
    resident: bool = False

    def slots(self, policy: CachePolicy) -> int:
        """Returns the rows that a cache of the dynamic `policy` holds; 0 if rows are sparse."""
        if not isinstance(self.base, DenseRows):
            return 0
        return slots_that_fit(policy, self.cache_bytes, self.num_nodes, self.base.row_bytes)


def replay_batches(
    graph: Graph,
    fanouts: Sequence[int],
    batch_size: int,
    seed: int,
    *,
    slots: int,
    seeds: Sequence[NDArray[np.int32]] | None = None,
) -> list[NDArray[np.int32]]:
    """Returns the nodes of the mini-batches to replay, epoch after epoch as in training.

    There are at least 24, and more until they need 32 rows together per slot of the cache, or 20 million. The first
    half fills the cache, and the second shows its hit rate in the long run. The other arguments are those of
    `presampled`. The mini-batches differ from those that the presample policy counts, so it is not judged on its own
    training data. Without train nodes the list is empty.
    """
    batches: list[NDArray[np.int32]] = []
    needed = 0
    for epoch in itertools.count():
        before = needed
        for ids in presampled(graph, fanouts, batch_size, derive(seed, "auto", epoch), seeds=seeds):
            batches.append(ids)
            needed += len(ids)
            if len(batches) >= _MIN_BATCHES and needed >= min(_ROWS_PER_SLOT * slots, _MAX_ROWS):
                return batches
        if needed == before:
            break
    return []


def choose_policy(batches: Sequence[NDArray[np.int32]], placement: CachePlacement) -> PolicyChoice:
    """Returns the policy that is estimated to save most time per mini-batch, and the reason.

    `batches` (`replay_batches`) are replayed through each policy; their first half fills the caches. A policy saves its
    hits times the difference between reading a row from the base and from the cache, both timed on `batches`. Its
    overhead is subtracted: look-up, update and the copies of admitted rows. degree is kept unless another policy gains
    over it 2 % of the time of reading without a cache. The choice may differ from run to run, because times are
    measured; the values that a store returns do not depend on it.
    """
    if not batches or not placement.cache_bytes:
        return PolicyChoice(
            "degree", "auto took degree, because there are no mini-batches or no cache to try policies on"
        )
    row, rows = row_seconds(batches[:_TIMED], placement), statistics.fmean(map(len, batches))
    estimates: dict[CachePolicy, PolicyEstimate] = {}
    for policy in (*STATIC_POLICIES, *(DYNAMIC_POLICIES if isinstance(placement.base, DenseRows) else ())):
        replayed = _replayed(policy, batches, placement)
        seconds = replayed.hit_rate * rows * (row.base - row.cache) - replayed.admitted * row.cache
        estimates[policy] = PolicyEstimate(replayed, 1e3 * seconds - replayed.overhead_ms)
    best = max(estimates, key=lambda policy: estimates[policy].saved_ms)
    if estimates[best].saved_ms - estimates["degree"].saved_ms <= _WORTHWHILE * 1e3 * rows * row.base:
        best = "degree"
    return PolicyChoice(best, _reason(best, estimates, row))


def row_seconds(batches: Sequence[NDArray[np.int32]], placement: CachePlacement) -> RowSeconds:
    """Returns the median seconds per row to read `batches` from the base, and from the cache's memory.

    Each mini-batch is read from the base once, as in training, so reads from the disk count. If parts are resident, it
    is read into RAM before the timing.
    """
    plain = _uncached(placement.base, placement.num_nodes, placement.num_features)
    slow, fast = [], []
    for ids in batches:
        if placement.resident:
            plain.read(ids)
        begin = perf_counter()
        x = _waited(plain.read(ids).x.to(placement.device))
        slow.append((perf_counter() - begin) / len(ids))
        order = np.random.default_rng(0).permutation(len(ids)).astype(np.int32)
        if x.is_cuda:
            index = _waited(torch.from_numpy(order).to(placement.device, torch.int64))
            begin = perf_counter()
            _waited(x.index_select(0, index))
        else:
            compact = _uncached(placement.base.take(ids), len(ids), placement.num_features)
            begin = perf_counter()
            compact.read(order)
        fast.append((perf_counter() - begin) / len(ids))
    return RowSeconds(statistics.median(slow), statistics.median(fast))


def replay(
    policy: str,
    batches: Iterable[NDArray[np.int32]],
    num_slots: int,
    num_nodes: int,
    hot: NDArray[np.int32] | None = None,
    *,
    warm_up_batches: int = 0,
) -> ReplayStats:
    """Replays `batches` in order through a cache of `policy` and returns its statistics; a dynamic cache starts empty.

    Args:
        policy: fifo, lru, lfu or clock; or the name of a static policy, with `hot`.
        batches: Ids of each mini-batch, int32, distinct (`Subgraph.n_id`).
        num_slots: Rows that the cache holds, >= 0.
        num_nodes: Nodes of the graph.
        hot: For a static policy: nodes, hottest first, int32; the first `num_slots` are cached.
        warm_up_batches: Number of mini-batches at the start that fill the cache and are not counted.

    Raises:
        UsageError: A static policy without `hot`, a dynamic one with it, `num_slots` negative, or no batch to count.
    """
    if (hot is None) != (policy in DYNAMIC_POLICIES):
        raise UsageError(f"hot must be given for a static policy and left out for a dynamic one, got policy {policy!r}")
    if num_slots < 0:
        raise UsageError(f"num_slots must be >= 0, got {num_slots}; 0 caches nothing")
    warm_up()
    slots = SlotMap(policy, num_slots, num_nodes) if hot is None else FixedMap(hot[:num_slots], num_nodes)
    hits, total, admitted, seconds = 0, 0, 0, []
    for index, batch in enumerate(batches):
        ids = np.ascontiguousarray(batch, dtype=np.int32)
        begin = perf_counter()
        found, batch_hits = slots.look_up(ids)
        missed, _ = slots.admit(ids, found)
        elapsed = perf_counter() - begin
        if index >= warm_up_batches:
            seconds.append(elapsed)
            hits, total, admitted = hits + batch_hits, total + len(ids), admitted + len(missed)
    if not seconds:
        raise UsageError(
            f"replay needs more than {warm_up_batches} mini-batches, because the first {warm_up_batches} warm up the "
            "cache"
        )
    return ReplayStats(hits / max(total, 1), statistics.median(seconds) * 1e3, admitted / len(seconds))


def _uncached(rows: StoredRows, num_nodes: int, num_features: int) -> FeatureStore:
    if isinstance(rows, DenseRows):
        return DenseHostStore(rows, num_nodes, num_features)
    return SparseHostStore(rows, num_nodes, num_features)


def _waited(x: torch.Tensor) -> torch.Tensor:
    """Returns `x` once its device has computed it."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return x


def _replayed(policy: CachePolicy, batches: Sequence[NDArray[np.int32]], placement: CachePlacement) -> ReplayStats:
    warm_up = len(batches) // 2
    if policy in DYNAMIC_POLICIES:
        return replay(policy, batches, placement.slots(policy), placement.num_nodes, warm_up_batches=warm_up)
    hot = placement.rank(policy)
    return replay(policy, batches, len(hot), placement.num_nodes, hot, warm_up_batches=warm_up)


def _reason(best: CachePolicy, estimates: dict[CachePolicy, PolicyEstimate], row: RowSeconds) -> str:
    tried = ", ".join(
        f"{policy} {estimate.saved_ms:+.2f} ms ({estimate.replayed.hit_rate:.0%} hits)"
        for policy, estimate in estimates.items()
    )
    return (
        f"auto took {best}: reading a row takes {1e9 * row.base:.0f} ns without the cache and {1e9 * row.cache:.0f} "
        f"ns from the cache; estimated gain per mini-batch: {tried}"
    )
