"""Hit rates of caches that replace rows while training, by Che's approximation.

Under the independent reference model, a node that a mini-batch needs with probability q is cached with probability
q T / (1 + q T) by FIFO and 1 - (1 - q) ** T by LRU and, approximately, CLOCK. T is the characteristic time in
mini-batches: such that the expected number of cached nodes equals the cache's rows (Che et al., 2002; Martina et al.,
2014). A mini-batch reads each node once, so where it needs more rows than the cache holds, LRU has no recency to go by
and is FIFO.
"""

from __future__ import annotations

import numpy as np

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import DYNAMIC_POLICIES
from a3gnn_surrogate.columns import Array, Columns

# Fitted by hand: each is near the least error that `python -m benchmarks.analytic_model caches` at commit 10d4978
# prints for 11 graphs.
#: Breadth-first sequences under proximity, _SEQUENCES (batch size / _SEEDS) ** _SEQUENCES_EXPONENT. Their number
#: depends on labels; the graphs' medians (`ProximityOrder.num_sequences`) are 8 at 128 seeds and 40 at 1,024.
_SEQUENCES, _SEEDS, _SEQUENCES_EXPONENT = 9.0, 128.0, 0.73
#: Effective over real size of a dynamic cache under proximity, within the components that its sequences visit.
_PROXIMITY_GROWTH = 1.15
#: Mini-batches whose rows fit into the cache, from which LRU begins to differ from FIFO; one more and it is fully LRU.
_LRU_FROM_BATCHES = 0.75
#: LFU's place between LRU (0) and a static cache (1) before its counts have settled.
_LFU_SETTLED = 0.5

# Numerics of the search for the characteristic time, in mini-batches.
_BISECTIONS = 50
_MAX_CHARACTERISTIC_TIME = 1e9


def dynamic_hit_rate(
    columns: Columns, graph: GraphCharacteristics, static: Array, batch_nodes: Array, nodes: Array, rows: Array
) -> Array:
    """Returns the share of input rows that a configuration's cache serves, float64, shape (n_configs,).

    LFU is halfway from LRU to a static cache before its counts have settled, and `auto` takes the best of all. Seeds by
    proximity stay within the components that their sequences are in, as if the graph were smaller.

    Args:
        columns: Canonical.
        graph: The graph's characteristics.
        static: Hit rate of a static cache, shape (n_configs,).
        batch_nodes: Distinct nodes of each class of hotness in a mini-batch, shape (n_configs, n_classes).
        nodes: Nodes of each class, of the same shape.
        rows: Rows that the cache holds, shape (n_configs,).
    """
    result = static.copy()
    at = np.flatnonzero(np.isin(columns["cache_policy"], (*DYNAMIC_POLICIES, "auto")) & (rows > 0))
    if not len(at):
        return result
    policy, static, batch_nodes, nodes = columns["cache_policy"][at], static[at], batch_nodes[at], nodes[at]
    rows = rows[at]
    # LFU keeps what other components needed earlier, so it does not profit.
    near = (columns["seed_order"][at] == "proximity") & (policy != "lfu")
    growth = np.where(near, _apparent_growth(columns["batch_size"][at], graph), 1.0)
    capacity = np.minimum(rows * growth, nodes.sum(axis=1))
    fifo = _che_hit_rate(batch_nodes, nodes, capacity, lru=False)
    lru = fifo.copy()
    for_lru = policy != "fifo"
    batches_held = (rows / np.maximum(batch_nodes.sum(axis=1), 1e-9))[for_lru]
    lru[for_lru] = _lru_hit_rate(fifo[for_lru], batches_held, batch_nodes[for_lru], nodes[for_lru], capacity[for_lru])
    result[at] = np.select(
        [policy == "fifo", policy == "lfu", policy == "auto"],
        [fifo, _LFU_SETTLED * static + (1 - _LFU_SETTLED) * lru, np.maximum(static, lru)],
        lru,
    )
    return result


def _lru_hit_rate(fifo: Array, batches_held: Array, batch_nodes: Array, nodes: Array, capacity: Array) -> Array:
    """Returns LRU's hit rate: FIFO's in a cache that holds few mini-batches, Che's in one that holds more."""
    recency = np.clip(batches_held - _LRU_FROM_BATCHES, 0.0, 1.0)
    return fifo + recency * (_che_hit_rate(batch_nodes, nodes, capacity, lru=True) - fifo)


def _apparent_growth(batch_size: Array, graph: GraphCharacteristics) -> Array:
    """Returns effective over real cache size under proximity: about 1 / the share of the graph that sequences visit."""
    sequences = _SEQUENCES * (batch_size / _SEEDS) ** _SEQUENCES_EXPONENT
    visited = 1 - (1 - min(graph.largest_component, 1 - 1e-9)) ** np.maximum(sequences, 1.0)
    return np.asarray(_PROXIMITY_GROWTH / np.maximum(visited, 1e-9))


def _che_hit_rate(batch_nodes: Array, nodes: Array, capacity: Array, *, lru: bool) -> Array:
    """Returns Che's hit rate of LRU or else FIFO, shape (n_configs,), by bisection of log(1 + T)."""
    needed = np.clip(batch_nodes / np.maximum(nodes, 1e-9), 0.0, 1.0 - 1e-9)
    low, high = np.zeros(len(capacity)), np.full(len(capacity), np.log1p(_MAX_CHARACTERISTIC_TIME))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        too_long = (nodes * _cached_probability(needed, np.expm1(middle), lru=lru)).sum(axis=1) > capacity
        low, high = np.where(too_long, low, middle), np.where(too_long, middle, high)
    cached = _cached_probability(needed, np.expm1(low), lru=lru)
    return np.asarray((batch_nodes * cached).sum(axis=1) / np.maximum(batch_nodes.sum(axis=1), 1e-9))


def _cached_probability(needed: Array, characteristic_time: Array, *, lru: bool) -> Array:
    """Returns the probability that a node is cached; `needed` is (n, n_classes), the time (n,) in mini-batches."""
    times = characteristic_time[:, None]
    if lru:
        return np.asarray(-np.expm1(times * np.log1p(-needed)))
    return np.asarray(needed * times / (1 + needed * times))
