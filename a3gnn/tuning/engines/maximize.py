"""`maximize`: local search for the configurations of the largest value, whatever the value is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from a3gnn.space import Rows, SearchSpace

Floats = NDArray[np.float64]

#: Starts that climb. As many as in Optuna's GPSampler (`n_local_search`).
CLIMBERS = 10


def maximize(space: SearchSpace, value: Callable[[Rows], Floats], starts: Rows) -> tuple[Rows, Floats]:
    """Returns all rows that a local search evaluated, and their values, largest first.

    The best `CLIMBERS` of `starts` climb in steps of one knob, each to its best neighbor, until none is better.

    Args:
        space: The configurations.
        value: Returns the values of canonical rows, float64, shape (n,).
        starts: Rows to start from, int64, shape (n, n_knobs), n > 0.
    """
    rows = np.unique(space.canonical(starts), axis=0)
    values = {row.tobytes(): own for row, own in zip(rows, value(rows).tolist(), strict=True)}
    found = [rows]
    order = np.argsort([-values[row.tobytes()] for row in rows], kind="stable")
    climbers = [rows[i] for i in order[:CLIMBERS]]
    while climbers:
        around = [space.neighbors(row) for row in climbers]
        fresh = {row.tobytes(): row for rows in around for row in rows if row.tobytes() not in values}
        if fresh:
            found.append(np.stack(list(fresh.values())))
            values |= zip(fresh, value(found[-1]).tolist(), strict=True)
        moved: dict[bytes, Rows] = {}
        for row, near in zip(climbers, around, strict=True):
            top = max(near, key=lambda one: values[one.tobytes()])
            if values[top.tobytes()] > values[row.tobytes()]:
                moved[top.tobytes()] = top
        climbers = list(moved.values())
    every = np.concatenate(found)
    own = np.array([values[row.tobytes()] for row in every])
    best = np.argsort(-own, kind="stable")
    return every[best], own[best]
