"""The archive: the feasible front of what has been evaluated, and which of its members' neighbours have been."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.pareto import non_dominated


class Archive:
    """Non-dominated feasible rows.

    Attributes:
        rows: int64, shape (n, n_knobs).
        costs: float64, shape (n, n_objectives).
        expanded: Which rows' neighbours have all been asked for, bool, shape (n,).
    """

    def __init__(self, num_knobs: int) -> None:
        self.rows = np.empty((0, num_knobs), dtype=np.int64)
        self.costs = np.empty((0, 0))
        self.expanded = np.empty(0, dtype=np.bool_)

    def take(self, rows: NDArray[np.int64], costs: NDArray[np.float64], violation: NDArray[np.float64]) -> int:
        """Adds those of `rows` that belong here, drops what they dominate, and returns how many were added."""
        feasible = violation == 0
        old = len(self.rows)
        rows = np.concatenate([self.rows, rows[feasible]])
        costs = np.concatenate([self.costs, costs[feasible]]) if old else costs[feasible]
        expanded = np.concatenate([self.expanded, np.zeros(int(feasible.sum()), dtype=np.bool_)])
        keep = non_dominated(costs)
        self.rows, self.costs, self.expanded = rows[keep], costs[keep], expanded[keep]
        return int(keep[old:].sum())
