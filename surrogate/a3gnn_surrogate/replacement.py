"""Hit rates of caches whose rows are replaced while training, by Che's approximation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import DYNAMIC_POLICIES
from a3gnn_surrogate.columns import Columns

Array = NDArray[np.float64]

#: Sequences that a mini-batch of so many seeds takes under proximity, and how they grow with it: their number depends
#: on labels; this is the middle of eleven graphs (`python -m benchmarks.laws caches`).
_SEQUENCES, _SEEDS, _SEQUENCES_EXPONENT = 9.0, 128.0, 0.73
#: How much larger a dynamic cache seems, within the components at hand, where seeds lie close together.
_PROXIMITY_REACH = 1.15
#: Mini-batches' worth of rows from which a cache by age of use begins to know one use from another, and over which.
_RECENT_FROM = 0.75
_BISECTIONS = 50
_LONGEST_STAY = 1e9


def replaced_hit_rate(
    columns: Columns, graph: GraphCharacteristics, static: Array, met: Array, nodes: Array, rows: Array
) -> Array:
    """Returns the share of input rows that a configuration's cache serves, float64, shape (n_configs,).

    Under independent references a node that a mini-batch needs with probability q stays for T mini-batches: FIFO holds
    it with probability q T / (1 + q T), LRU and CLOCK, which is close to it, with 1 - (1 - q) ** T, where T is such
    that the nodes held together are as many as the cache's rows (Che et al., 2002; Martina et al., 2014). A mini-batch
    asks for each node once, so a cache that it overruns knows no use from another: LRU is FIFO there. LFU comes halfway
    from LRU to a static cache before its counts have settled, and `auto` takes the best of all.

    Seeds by proximity stay within the components that their sequences are in, which seem a smaller graph.

    Args:
        columns: Canonical.
        graph: The graph's characteristics.
        static: Hit rate of a static cache, shape (n_configs,).
        met: Distinct nodes of each class of hotness in a mini-batch, shape (n_configs, n_classes).
        nodes: Nodes of each class, of the same shape.
        rows: Rows that the cache holds, shape (n_configs,).
    """
    result = static.copy()
    at = np.flatnonzero(np.isin(columns["cache_policy"], (*DYNAMIC_POLICIES, "auto")) & (rows > 0))
    if not len(at):
        return result
    policy, static, met, nodes, rows = columns["cache_policy"][at], static[at], met[at], nodes[at], rows[at]
    # LFU holds on to what other components needed before.
    near = (columns["seed_order"][at] == "proximity") & (policy != "lfu")
    room = np.minimum(rows * np.where(near, _reach(columns["batch_size"][at], graph), 1.0), nodes.sum(axis=1))
    by_arrival = _hit_rate(met, nodes, room, recent=False)
    by_use, used = by_arrival.copy(), policy != "fifo"
    known = np.clip(rows / np.maximum(met.sum(axis=1), 1e-9) - _RECENT_FROM, 0.0, 1.0)[used]
    by_use[used] += known * (_hit_rate(met[used], nodes[used], room[used], recent=True) - by_use[used])
    result[at] = np.select(
        [policy == "fifo", policy == "lfu", policy == "auto"],
        [by_arrival, (static + by_use) / 2, np.maximum(static, by_use)],
        by_use,
    )
    return result


def _reach(batch_size: Array, graph: GraphCharacteristics) -> Array:
    """Returns how many times larger a cache seems under proximity: one over the share of the graph in reach."""
    sequences = _SEQUENCES * (batch_size / _SEEDS) ** _SEQUENCES_EXPONENT
    in_reach = 1 - (1 - min(graph.largest_component, 1 - 1e-9)) ** np.maximum(sequences, 1.0)
    return np.asarray(_PROXIMITY_REACH / np.maximum(in_reach, 1e-9))


def _hit_rate(met: Array, nodes: Array, room: Array, *, recent: bool) -> Array:
    """Returns Che's hit rate of LRU (`recent`) or FIFO, shape (n_configs,): T is found by bisection of log(1 + T)."""
    needed = np.clip(met / np.maximum(nodes, 1e-9), 0.0, 1.0 - 1e-9)
    low, high = np.zeros(len(room)), np.full(len(room), np.log1p(_LONGEST_STAY))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        too_long = (nodes * _held_after(needed, np.expm1(middle), recent=recent)).sum(axis=1) > room
        low, high = np.where(too_long, low, middle), np.where(too_long, middle, high)
    held = _held_after(needed, np.expm1(low), recent=recent)
    return np.asarray((met * held).sum(axis=1) / np.maximum(met.sum(axis=1), 1e-9))


def _held_after(needed: Array, stay: Array, *, recent: bool) -> Array:
    """Returns the probability that a node is held where nodes stay for `stay` mini-batches."""
    times = stay[:, None]
    if recent:
        return np.asarray(-np.expm1(times * np.log1p(-needed)))
    return np.asarray(needed * times / (1 + needed * times))
