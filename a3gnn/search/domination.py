"""Constrained domination, ranks and crowding (Deb et al., 2002). Costs: smaller is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def non_dominated_ranks(costs: NDArray[np.float64], violation: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the front that each row belongs to, 0 for the best, int64, shape (n,).

    A feasible row dominates an infeasible one, a lesser violation a greater one; equal violations, those of feasible
    rows among them, compare by costs. Takes n x n comparisons: meant for populations of hundreds.

    Args:
        costs: float64, shape (n, n_objectives).
        violation: 0 where a row is feasible, float64, shape (n,).
    """
    no_worse = (costs[:, None] <= costs[None]).all(axis=2)
    better = (costs[:, None] < costs[None]).any(axis=2)
    by_costs = no_worse & better & (violation[:, None] == violation[None])
    dominates = by_costs | (violation[:, None] < violation[None])
    found = np.full(len(costs), -1, dtype=np.int64)
    rank = 0
    while (found < 0).any():
        left = found < 0
        found[left & ~dominates[left].any(axis=0)] = rank
        rank += 1
    return found


def crowding(costs: NDArray[np.float64], rank: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns how far apart each row's neighbours in its front are, infinite at its ends, float64, shape (n,)."""
    distance = np.zeros(len(costs))
    for front in np.unique(rank):
        members = np.flatnonzero(rank == front)
        for column in costs[members].T:
            order = members[np.argsort(column, kind="stable")]
            values = np.sort(column)
            span = max(values[-1] - values[0], 1e-12)
            distance[order[[0, -1]]] = np.inf
            distance[order[1:-1]] += (values[2:] - values[:-2]) / span
    return distance
