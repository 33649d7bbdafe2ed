"""Adam's update, compiled; it releases the GIL. Entries are independent, so threads don't change results."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit

_ZERO = np.float32(0)


# numpy's error model, because a check for a divisor of 0 would prevent vectorization.
@njit(cache=True, nogil=True, error_model="numpy")
def update(
    weight: NDArray[np.float32],
    grad: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    unmoved: NDArray[np.bool_],
    decay: np.float32,
    mean_share: np.float32,
    square_share: np.float32,
    step_size: np.float32,
    inverse_root: np.float32,
    eps: np.float32,
    low: int,
    high: int,
) -> None:
    """Takes one step of Adam on rows `low` to `high`.

    Args:
        weight: Updated, shape (n_rows, width).
        grad: Its gradient.
        mean: First moment, updated.
        square: Second moment, updated.
        unmoved: Whether all moments of a row are 0, updated, shape (n_rows,). Such rows are skipped if their gradient
            is 0.
        decay: L2 penalty; if it is not 0, no row is skipped.
        mean_share: 1 - beta1.
        square_share: 1 - beta2.
        step_size: Learning rate divided by the first moment's bias correction.
        inverse_root: 1 / the square root of the second moment's bias correction.
        eps: Added to the denominator.
        low: First row.
        high: Past the last row.
    """
    width = weight.shape[1]
    for i in range(low, high):
        w, g, m, v = weight[i], grad[i], mean[i], square[i]
        if unmoved[i] and decay == _ZERO:
            # Comparing bits, not values, lets the loop vectorize. -0.0 counts as a gradient, which is also correct.
            bits, given = g.view(np.int32), np.int32(0)
            for j in range(width):
                given |= bits[j]
            if given == 0:
                continue
        unmoved[i] = False
        for j in range(width):
            slope = g[j] + decay * w[j]
            m[j] += (slope - m[j]) * mean_share
            v[j] += (slope * slope - v[j]) * square_share
            w[j] -= step_size * m[j] / (np.sqrt(v[j]) * inverse_root + eps)


def warm_up() -> None:
    """Compiles the kernel or loads it from numba's cache."""
    one, rows = np.float32(1), np.zeros((1, 1), dtype=np.float32)
    update(rows, rows, rows.copy(), rows.copy(), np.ones(1, dtype=np.bool_), one, one, one, one, one, one, 0, 1)
