"""Compiled kernels of batch normalization followed by ReLU. All release the GIL.

Each call works on a range of rows, or of blocks of rows, on one thread. Sums over rows are taken block by block. Blocks
do not depend on how `a3gnn.threads.pool` splits them, so the split doesn't change a bit of the results.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit

#: Rows of a block. A float32 sum of 64 positive numbers is off by 2 units in the last place (root mean square), of
#: 1,024 by 8.
BLOCK_ROWS = 64
_ZERO = np.float32(0)
#: float32, shape (width,) each.
Columns: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


@njit(cache=True, nogil=True)
def block_moments(
    x: NDArray[np.float32], sums: NDArray[np.float32], squares: NDArray[np.float32], low: int, high: int
) -> None:
    """Writes each column's sum in blocks `low` to `high` of `x`, and its sum of squares around the block's mean.

    Args:
        x: Shape (n_rows, width).
        sums: Written, shape (n_blocks, width).
        squares: Written, shape (n_blocks, width).
        low: First block.
        high: Past the last block.
    """
    width = x.shape[1]
    mean = np.empty(width, dtype=np.float32)
    for b in range(low, high):
        rows, total, square = x[b * BLOCK_ROWS : (b + 1) * BLOCK_ROWS], sums[b], squares[b]
        total[:] = _ZERO
        square[:] = _ZERO
        for i in range(len(rows)):
            row = rows[i]
            for j in range(width):
                total[j] += row[j]
        for j in range(width):
            mean[j] = total[j] / np.float32(len(rows))
        for i in range(len(rows)):
            row = rows[i]
            for j in range(width):
                off = row[j] - mean[j]
                square[j] += off * off


@njit(cache=True, nogil=True)
def scale_and_rectify(
    x: NDArray[np.float32],
    scale: NDArray[np.float32],
    shift: NDArray[np.float32],
    out: NDArray[np.float32],
    low: int,
    high: int,
) -> None:
    """Writes ReLU of `scale * x + shift`, column by column, to rows `low` to `high` of `out`; NaN stays."""
    width = x.shape[1]
    for i in range(low, high):
        row, written = x[i], out[i]
        for j in range(width):
            value = row[j] * scale[j] + shift[j]
            written[j] = _ZERO if value <= _ZERO else value


@njit(cache=True, nogil=True)
def block_gradients(
    grad: NDArray[np.float32],
    x: NDArray[np.float32],
    columns: Columns,
    sums: NDArray[np.float32],
    products: NDArray[np.float32],
    low: int,
    high: int,
) -> None:
    """Writes each column's sums of `grad` after ReLU's gradient, and of that times `x - mean`, in some blocks.

    Args:
        grad: Gradient by the output of `scale_and_rectify`, shape (n_rows, width).
        x: Its input.
        columns: Each column's mean, scale and shift.
        sums: Written, shape (n_blocks, width).
        products: Written, shape (n_blocks, width).
        low: First block.
        high: Past the last block.
    """
    (mean, scale, shift), width = columns, x.shape[1]
    passed = np.empty(width, dtype=np.float32)
    for b in range(low, high):
        total, product = sums[b], products[b]
        total[:] = _ZERO
        product[:] = _ZERO
        for i in range(b * BLOCK_ROWS, min((b + 1) * BLOCK_ROWS, len(x))):
            given, row = grad[i], x[i]
            # Each loop uses few arrays. With more, LLVM can't show that none overlap, and vectorizes nothing.
            for j in range(width):
                passed[j] = _ZERO if row[j] * scale[j] + shift[j] <= _ZERO else given[j]
            for j in range(width):
                total[j] += passed[j]
            for j in range(width):
                product[j] += passed[j] * (row[j] - mean[j])


@njit(cache=True, nogil=True)
def input_gradient(
    grad: NDArray[np.float32],
    x: NDArray[np.float32],
    columns: Columns,
    offset: NDArray[np.float32],
    slope: NDArray[np.float32],
    out: NDArray[np.float32],
    low: int,
    high: int,
) -> None:
    """Writes `scale * (passed - offset - slope * (x - mean))` to rows `low` to `high` of `out`.

    `passed` is `grad` after ReLU's gradient.
    """
    (mean, scale, shift), width = columns, x.shape[1]
    for i in range(low, high):
        given, row, written = grad[i], x[i], out[i]
        for j in range(width):
            passed = _ZERO if row[j] * scale[j] + shift[j] <= _ZERO else given[j]
            written[j] = scale[j] * (passed - offset[j] - slope[j] * (row[j] - mean[j]))


def warm_up() -> None:
    """Compiles these kernels or loads them from numba's cache."""
    rows = np.zeros((1, 1), dtype=np.float32)
    block_moments(rows, rows.copy(), rows.copy(), 0, 1)
    scale_and_rectify(rows, rows[0], rows[0], rows.copy(), 0, 1)
    columns = (rows[0], rows[0], rows[0])
    block_gradients(rows, rows, columns, rows.copy(), rows.copy(), 0, 1)
    input_gradient(rows, rows, columns, rows[0], rows[0], rows.copy(), 0, 1)
