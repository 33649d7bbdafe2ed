"""The shuffling error of an order of seeds (BGL, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from a3gnn.runtime.kernels import sum_label_distances


def shuffling_error(
    labels: NDArray[np.int32], batch_size: int, num_classes: int, bounds: Sequence[int] | None = None
) -> float:
    """Returns the mean total variation distance between a mini-batch's labels and those of all seeds, in [0, 1].

    Args:
        labels: Of the seeds in their order, int32 in [0, num_classes), shape (num_seeds,).
        batch_size: Seeds per mini-batch; the last one may hold fewer.
        num_classes: Labels there are.
        bounds: Where parts begin and end, from 0 to num_seeds: no mini-batch passes a bound, and each is compared with
            its own part. None is one part.
    """
    total, batches = 0.0, 0
    for first, last in pairwise(bounds or (0, len(labels))):
        distances, count = sum_label_distances(labels[first:last], batch_size, num_classes)
        total, batches = total + distances, batches + count
    return total / max(batches, 1)
