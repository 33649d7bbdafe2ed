"""Which configurations to measure next: where decisions are made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.objectives import Priority, memory_metric, minimised
from a3gnn.pareto import spread
from a3gnn.prediction import Predict, Prediction
from a3gnn.space import SearchSpace

Rows = NDArray[np.int64]


def scores(prediction: Prediction, priority: Priority, has_device: bool) -> NDArray[np.float64]:
    """Returns the priority's score of each predicted configuration, float64, shape (n_configs,)."""
    return priority.score(
        prediction.column("throughput_epochs_per_s"),
        prediction.column(memory_metric(has_device)),
        prediction.column("test_accuracy"),
    )


def choose_probes(
    rows: Rows, prediction: Prediction, priority: Priority, has_device: bool, count: int
) -> list[tuple[str, Rows]]:
    """Returns up to `count` of `rows` to measure, each with the reason.

    The best by the priority, then the most uncertain one (where four or more are asked for), then the predicted
    front spread max-min: of the rules that were compared, the one with the most measured hypervolume.

    Args:
        rows: A predicted front that is not measured yet, int64, shape (n, n_knobs).
        prediction: Its prediction.
        priority: What the best is judged by.
        has_device: Whether memory means the device's.
        count: How many to choose.
    """
    if not len(rows):
        return []
    chosen = {int(scores(prediction, priority, has_device).argmax()): "best"}
    if count >= 4:
        width = np.log(prediction.column("throughput_epochs_per_s", "high"))
        width -= np.log(prediction.column("throughput_epochs_per_s", "low"))
        width[list(chosen)] = -np.inf
        chosen.setdefault(int(width.argmax()), "uncertain")
    rest = np.setdiff1d(np.arange(len(rows)), list(chosen))
    if len(chosen) < count and len(rest):
        costs = minimised(prediction.take(rest), has_device)
        chosen |= dict.fromkeys(rest[spread(costs, count - len(chosen))].tolist(), "front")
    return [(reason, rows[i]) for i, reason in list(chosen.items())[:count]]


def best_neighbours(
    space: SearchSpace, row: Rows, predict: Predict, priority: Priority, has_device: bool, measured: set[bytes]
) -> Rows:
    """Returns the neighbours of `row` that are not measured, best predicted score first, int64, shape (n, n_knobs)."""
    around = unmeasured(space.neighbours(row), measured)
    if not len(around):
        return around
    return around[np.argsort(-scores(predict(around), priority, has_device), kind="stable")]


def unmeasured(rows: Rows, measured: set[bytes]) -> Rows:
    """Returns `rows` without those whose bytes are in `measured`."""
    keep = [row.tobytes() not in measured for row in rows]
    return rows[np.array(keep, dtype=np.bool_)]
