"""Hit rates of caches whose rows are replaced while training, by Che's approximation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn_surrogate.columns import Columns

Array = NDArray[np.float64]

#: Proximity-aware seeds let a dynamic cache that holds the rows of some mini-batches hit as often as one so many times
#: larger does under random seeds; one that holds fewer is flushed before a row returns, and gains less.
_PROXIMITY_REACH, _LASTING_BATCHES = 4.0, 4.0
_BISECTIONS = 50
_LONGEST_STAY = 1e9


def replaced_hit_rate(columns: Columns, static: Array, met: Array, nodes: Array, rows: Array) -> Array:
    """Returns the share of input rows that a configuration's cache serves, float64, shape (n_configs,).

    Under independent references a node that a mini-batch needs with probability q stays for T mini-batches: FIFO holds
    it with probability q T / (1 + q T), LRU and CLOCK, which is close to it, with 1 - (1 - q) ** T, where T is such
    that the nodes held together are as many as the cache's rows (Che et al., 2002; Martina et al., 2014). LFU tends to
    the hottest nodes, so to a static cache, and `auto` to the best of these.

    Args:
        columns: Canonical.
        static: Hit rate of a static cache, shape (n_configs,).
        met: Distinct nodes of each class of hotness in a mini-batch, shape (n_configs, n_classes).
        nodes: Nodes of each class, of the same shape.
        rows: Rows that the cache holds, shape (n_configs,).
    """
    lasting = np.minimum(rows / np.maximum(_LASTING_BATCHES * met.sum(axis=1), 1e-9), 1.0)
    reach = np.where(columns["seed_order"] == "proximity", 1 + (_PROXIMITY_REACH - 1) * lasting, 1.0)
    needed = np.clip(met / np.maximum(nodes, 1e-9), 0.0, 1.0 - 1e-9)
    room = np.minimum(rows * reach, nodes.sum(axis=1))
    result = static.copy()
    for recent, policies in ((False, ("fifo",)), (True, ("lru", "clock", "auto"))):
        at = np.flatnonzero(np.isin(columns["cache_policy"], policies) & (rows > 0))
        held = _held(needed[at], nodes[at], room[at], recent=recent)
        rate = (met[at] * held).sum(axis=1) / np.maximum(met[at].sum(axis=1), 1e-9)
        result[at] = np.where(columns["cache_policy"][at] == "auto", np.maximum(static[at], rate), rate)
    return result


def _held(needed: Array, nodes: Array, room: Array, *, recent: bool) -> Array:
    """Returns the probability that each node is held, by bisection of log(1 + T)."""
    low, high = np.zeros(len(room)), np.full(len(room), np.log1p(_LONGEST_STAY))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        too_long = (nodes * _held_after(needed, np.expm1(middle), recent=recent)).sum(axis=1) > room
        low, high = np.where(too_long, low, middle), np.where(too_long, middle, high)
    return _held_after(needed, np.expm1(low), recent=recent)


def _held_after(needed: Array, stay: Array, *, recent: bool) -> Array:
    """Returns the probability that a node is held where nodes stay for `stay` mini-batches."""
    times = stay[:, None]
    if recent:
        return np.asarray(-np.expm1(times * np.log1p(-needed)))
    return np.asarray(needed * times / (1 + needed * times))
