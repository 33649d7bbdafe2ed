"""Dominance and fronts. Every objective is a cost here: smaller is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]


def non_dominated(costs: Costs) -> NDArray[np.bool_]:
    """Returns which rows no other row dominates, bool, shape (n,); of equal rows the first stays.

    Args:
        costs: float64, shape (n, n_objectives).
    """
    keep = np.zeros(len(costs), dtype=np.bool_)
    front = np.empty((0, costs.shape[1]))
    for i in np.lexsort(costs.T[::-1]):  # lexicographic order: a later row never dominates an earlier one
        if not (front <= costs[i]).all(axis=1).any():
            keep[i] = True
            front = np.vstack([front, costs[i]])
    return keep


def spread(costs: Costs, count: int) -> NDArray[np.int64]:
    """Returns up to `count` rows chosen max-min: each next one is farthest from those chosen, int64, sorted.

    Objectives are scaled to their range first. The first chosen has the smallest sum of costs.
    """
    if len(costs) <= count:
        return np.arange(len(costs), dtype=np.int64)
    scaled = (costs - costs.min(axis=0)) / np.maximum(np.ptp(costs, axis=0), 1e-12)
    chosen = [int(scaled.sum(axis=1).argmin())]
    distance = np.full(len(costs), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, np.linalg.norm(scaled - scaled[chosen[-1]], axis=1))
        chosen.append(int(distance.argmax()))
    return np.sort(np.array(chosen, dtype=np.int64))
