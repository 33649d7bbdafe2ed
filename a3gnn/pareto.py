"""Dominance, fronts and hypervolume. Every objective is a cost here: smaller is better."""

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


def hypervolume(costs: Costs, reference: NDArray[np.float64]) -> float:
    """Returns the volume that `costs` dominate up to `reference`, in the product of the objectives' units.

    Rows that do not lie below `reference` in every objective add nothing. Exact for any number of objectives, by
    slicing along the last one (While et al., 2006); meant for fronts of up to a few hundred rows.

    Args:
        costs: float64, shape (n, n_objectives).
        reference: float64, shape (n_objectives,).
    """
    inside = costs[(costs < reference).all(axis=1)]
    return _volume(inside[non_dominated(inside)], reference) if len(inside) else 0.0


def _volume(front: Costs, reference: NDArray[np.float64]) -> float:
    if front.shape[1] == 1:
        return float(reference[0] - front.min())
    if front.shape[1] == 2:
        front = front[np.argsort(front[:, 0])]
        lower = np.minimum.accumulate(front[:, 1])
        widths = np.append(front[1:, 0], reference[0]) - front[:, 0]
        return float((widths * (reference[1] - lower)).sum())
    front = front[np.argsort(front[:, -1])]
    heights = np.append(front[1:, -1], reference[-1]) - front[:, -1]
    slices = [_volume(front[: i + 1, :-1], reference[:-1]) * height for i, height in enumerate(heights) if height > 0]
    return float(sum(slices))


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
