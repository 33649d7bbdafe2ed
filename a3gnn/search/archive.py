"""The archive: the front of what has been evaluated, and which of its members' neighbours have been."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.pareto import non_dominated


class Archive:
    """Non-dominated feasible rows; until there are any, those of the least violation, from which the way leads there.

    Attributes:
        rows: int64, shape (n, n_knobs).
        costs: float64, shape (n, n_objectives).
        violation: The same for all, and 0 once anything is feasible, float64, shape (n,).
        expanded: Which rows' neighbours have all been asked for, bool, shape (n,).
    """

    def __init__(self, num_knobs: int, num_objectives: int = 3) -> None:
        self.rows = np.empty((0, num_knobs), dtype=np.int64)
        self.costs = np.empty((0, num_objectives))
        self.violation = np.empty(0)
        self.expanded = np.empty(0, dtype=np.bool_)

    def take(self, rows: NDArray[np.int64], costs: NDArray[np.float64], violation: NDArray[np.float64]) -> int:
        """Adds those of `rows` that belong here, drops what they replace, and returns how many were added."""
        old = len(self.rows)
        rows, costs = np.concatenate([self.rows, rows]), np.concatenate([self.costs, costs])
        violation = np.concatenate([self.violation, violation])
        expanded = np.concatenate([self.expanded, np.zeros(len(rows) - old, dtype=np.bool_)])
        least = np.flatnonzero(violation == violation.min(initial=np.inf))
        keep = least[non_dominated(costs[least])]
        self.rows, self.costs, self.violation, self.expanded = rows[keep], costs[keep], violation[keep], expanded[keep]
        return int((keep >= old).sum())
