"""The compiled loop that measures what an order of seeds does to their labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(nogil=True, cache=True)
def sum_label_distances(labels: NDArray[np.int32], batch_size: int, num_classes: int) -> tuple[float, int]:
    """Returns the sum over mini-batches of the total variation distance to all `labels`, and their number.

    Args:
        labels: Of the seeds in order, int32 in [0, num_classes), shape (n,).
        batch_size: Seeds per mini-batch; the last may hold fewer.
        num_classes: Labels there are.
    """
    share = np.zeros(num_classes, dtype=np.float64)
    for label in labels:
        share[label] += 1.0 / len(labels)
    counts = np.zeros(num_classes, dtype=np.int64)
    total = 0.0
    batches = 0
    for start in range(0, len(labels), batch_size):
        batch = labels[start : start + batch_size]
        counts[:] = 0
        for label in batch:
            counts[label] += 1
        distance = 0.0
        for c in range(num_classes):
            distance += abs(counts[c] / len(batch) - share[c])
        total += distance / 2
        batches += 1
    return total, batches
