"""Replays the node ids of mini-batches through a cache policy: hit rate and overhead, without any feature rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import DYNAMIC_POLICIES
from a3gnn.errors import UsageError
from a3gnn.features.caches.fixed_map import FixedMap
from a3gnn.features.caches.slot_map import SlotMap, warm_up


class ReplayStats(NamedTuple):
    """What a policy did with the mini-batches that were counted.

    Attributes:
        hit_rate: Hits per node looked up, in [0, 1].
        overhead_ms: Milliseconds of look-up and update of the maps per mini-batch, the median.
        admitted: Rows admitted per mini-batch, the mean.
    """

    hit_rate: float
    overhead_ms: float
    admitted: float


def replay(
    policy: str,
    batches: Iterable[NDArray[np.int32]],
    num_slots: int,
    num_nodes: int,
    hot: NDArray[np.int32] | None = None,
    *,
    warm_up_batches: int = 0,
) -> ReplayStats:
    """Returns what `policy` does with `batches`, one after the other; a dynamic policy starts with an empty cache.

    Args:
        policy: fifo, lru, lfu or clock; or the name of a static policy, with `hot`.
        batches: Ids of each mini-batch, int32, distinct (`Subgraph.n_id`).
        num_slots: Rows that the cache holds, >= 0.
        num_nodes: Nodes of the graph.
        hot: For a static policy: nodes, hottest first, int32; the first `num_slots` are cached.
        warm_up_batches: The first mini-batches, which fill the cache and are not counted.

    Raises:
        UsageError: A static policy without `hot`, a dynamic one with it, `num_slots` negative, or no batch to count.
    """
    if (hot is None) != (policy in DYNAMIC_POLICIES):
        raise UsageError(f"hot must be given for static policies and for no other, got policy {policy!r}")
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
        raise UsageError(f"replay needs more than {warm_up_batches} mini-batches, those that warm the cache up")
    return ReplayStats(hits / max(total, 1), statistics.median(seconds) * 1e3, admitted / len(seconds))
