"""Compiled kernels of attention: scores of edges, their softmax, and weighted sums by head. All release the GIL.

They work as those of `a3gnn.kernels.sums`, in float32 or float64. In `csr`, edge e of a target has slot e. Scores and
attention have the shape (num_slots, heads); rows of sources, targets and slots (number, heads, width). `added` has rows
of slots that are added to those of the sources; None adds nothing. `slope` is LeakyReLU's below 0, where it is at least
0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from a3gnn.features.row_kernels import prefetch_row
from a3gnn.kernels.dropout import Dropping, random_bits
from a3gnn.kernels.sums import AHEAD, Csr, dot
from a3gnn.storage.compiled import njit

Reals: TypeAlias = NDArray[Any]
#: GATv2's weight, shape (heads, width), and LeakyReLU's slope.
Scorer: TypeAlias = tuple[Reals, Any]

#: Targets per partial sum of a gradient by weights: these sums take a 512th of the memory of the targets' rows.
BLOCK = 512

_ZERO = np.float32(0)
_ONE = np.float32(1)
# Below it a float32 exponential is 0 in effect.
_LOWEST = np.float32(-87)


@njit(cache=True, nogil=True, inline="always")
def _exponential(x: np.float32) -> Any:
    """Returns e**x for x <= 0 to 2 units in the last place (Cephes' expf); NaN stays.

    It replaces numba's own call, which does not vectorize.
    """
    held = x if x > _LOWEST else _LOWEST
    power = np.floor(held * np.float32(1.44269504) + np.float32(0.5))
    r = held - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)
    tail = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    tail = (tail * r + np.float32(8.3334519073e-3)) * r + np.float32(4.1665795894e-2)
    tail = (tail * r + np.float32(1.6666665459e-1)) * r + np.float32(5.0000001201e-1)
    whole = np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)
    value = (tail * r * r + r + _ONE) * whole
    return value if x > _LOWEST else (_ZERO if x <= _LOWEST else x)


def softmax(scores: Any) -> None:
    """Overwrites each column of `scores`, shape (slots, heads), by its softmax; NaN stays. For compiled code only."""
    raise NotImplementedError


# numpy's error model, because Python's would raise. Overflowed scores sum to NaN, which the loss reports.
@njit(cache=True, nogil=True, error_model="numpy")
def _single_softmax(scores: NDArray[np.float32]) -> None:
    slots, heads = scores.shape
    for h in range(heads):
        top = scores[0, h]
        for k in range(1, slots):
            top = max(top, scores[k, h])
        for k in range(slots):
            scores[k, h] -= top
    flat = scores.reshape(-1)
    for k in range(len(flat)):
        flat[k] = _exponential(flat[k])
    for h in range(heads):
        total = _ZERO
        for k in range(slots):
            total += scores[k, h]
        share = _ONE / total
        for k in range(slots):
            scores[k, h] *= share


@njit(cache=True, nogil=True)
def _double_softmax(scores: NDArray[np.float64]) -> None:
    slots, heads = scores.shape
    for h in range(heads):
        top = scores[0, h]
        for k in range(1, slots):
            top = max(top, scores[k, h])
        total = 0.0
        for k in range(slots):
            scores[k, h] = np.exp(scores[k, h] - top)
            total += scores[k, h]
        for k in range(slots):
            scores[k, h] /= total


@overload(softmax, inline="always")
def _softmax(scores: Any) -> Callable[..., None]:
    def single(scores: Any) -> None:
        _single_softmax(scores)

    def double(scores: Any) -> None:
        _double_softmax(scores)

    return single if scores.dtype == types.float32 else double


@njit(cache=True, nogil=True, inline="always")
def normalize(own: Reals, dropping: Dropping, first: int) -> None:
    """Overwrites the scores of one target by their softmax. Dropped slots get a negative sign.

    Args:
        own: Shape (slots of the target, heads).
        dropping: `Dropout.arguments`.
        first: The place of the target's first slot in the mini-batch, int64.
    """
    threshold, _, low_key, high_key = dropping
    softmax(own)
    if threshold > 0:
        flat, place = own.reshape(-1), np.uint32(first * own.shape[1])
        for k in range(len(flat)):
            dropped = random_bits(low_key, high_key, np.uint32(k) + place) < threshold
            flat[k] = -flat[k] if dropped else flat[k]


@njit(cache=True, nogil=True)
def normalize_scores(
    csr: Csr, dropping: Dropping, first_slots: NDArray[np.int64], attention: Reals, low: int, high: int
) -> None:
    """Overwrites the scores of targets `low` to `high` as `normalize` does.

    `first_slots` has each target's first slot in the whole mini-batch; it is empty if these are all targets.
    """
    indptr = csr[0]
    for i in range(low, high):
        begin, end = indptr[i], indptr[i + 1]
        if begin < end:
            normalize(attention[begin:end], dropping, first_slots[i] if len(first_slots) else np.int64(begin))


@njit(cache=True, nogil=True)
def score_gradient(csr: Csr, attention: Reals, scale: Any, grad: Reals, out: Reals, low: int, high: int) -> None:
    """Writes the gradient by the scores of targets `low` to `high`.

    Args:
        csr: The edges by target.
        attention: The output of `normalize_scores`.
        scale: Factor of the kept slots.
        grad: Gradient by the kept and scaled attention.
        out: Written.
        low: First row.
        high: Past the last row.
    """
    indptr, zero = csr[0], scale - scale
    for i in range(low, high):
        for h in range(attention.shape[1]):
            mean = zero
            for e in range(indptr[i], indptr[i + 1]):
                weight = attention[e, h]
                if weight > zero:
                    mean += weight * grad[e, h] * scale
            for e in range(indptr[i], indptr[i + 1]):
                weight = attention[e, h]
                change = grad[e, h] * scale if weight > zero else zero
                out[e, h] = abs(weight) * (change - mean)


@njit(cache=True, nogil=True)
def sum_heads(csr: Csr, attention: Reals, rows: Reals, added: Any, out: Reals, low: int, high: int) -> None:
    """Writes each head's sum of rows, weighted by `attention`; of more heads than `out` has, the last ones are summed.

    `csr` has the edges by target or by source.
    """
    (indptr, indices, slots), (_, heads, width) = csr, out.shape
    last, skipped = indptr[high], np.uintp(rows.shape[1] - heads)
    base, row_bytes = rows.ctypes.data, rows.shape[1] * width * rows.itemsize
    for i in range(low, high):
        total = out[i]
        for h in range(heads):
            for j in range(width):
                total[h, j] = 0
        for e in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(e + AHEAD, last - 1)]
            prefetch_row(base + ahead * row_bytes, row_bytes)
            row, slot = rows[indices[e]], slots[e] if len(slots) else e
            for h in range(heads):
                weight, head, sums = attention[slot, h], row[skipped + np.uintp(h)], total[h]
                for j in range(width):
                    value = head[j]
                    if added is not None:
                        value += added[slot, h, j]
                    sums[j] += weight * value


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot_sum(a: Reals, b: Reals, c: Reals) -> Any:
    """Returns the inner product of `a` and `b + c`."""
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * (b[j] + c[j])
    return total


@njit(cache=True, nogil=True)
def dot_heads(csr: Csr, left: Reals, rows: Reals, added: Any, scale: Any, out: Reals, low: int, high: int) -> None:
    """Writes each slot's inner product per head, times `scale`: of the target's row in `left` and the source's.

    The first heads of `rows` are read if they are more.
    """
    (indptr, indices, _), (_, heads, width) = csr, left.shape
    last = indptr[high]
    base, row_bytes = rows.ctypes.data, rows.shape[1] * width * rows.itemsize
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(e + AHEAD, last - 1)]
            prefetch_row(base + ahead * row_bytes, row_bytes)
            row = rows[indices[e]]
            for h in range(heads):
                if added is not None:
                    out[e, h] = scale * _dot_sum(left[i, h], row[h], added[e, h])
                else:
                    out[e, h] = scale * dot(left[i, h], row[h])


@njit(cache=True, nogil=True)
def spread_heads(csr: Csr, attention: Reals, grad: Reals, out: Reals, low: int, high: int) -> None:
    """Writes the gradient by `added` of `sum_heads`: each slot's weight times its target's gradient."""
    indptr = csr[0]
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            for h in range(out.shape[1]):
                weight = attention[e, h]
                for j in range(out.shape[2]):
                    out[e, h, j] = weight * grad[i, h, j]


@njit(cache=True, nogil=True)
def add_scores(csr: Csr, source: Reals, target: Reals, edge: Any, slope: Any, out: Reals, low: int, high: int) -> None:
    """Writes the LeakyReLU of the sum of each slot's source, target and edge scores.

    Args:
        csr: The edges by target.
        source: Shape (num_src, heads).
        target: Shape (num_dst, heads).
        edge: Shape (num_slots, heads), or None.
        slope: LeakyReLU's.
        out: Written.
        low: First target.
        high: Past the last target.
    """
    (indptr, indices, _), zero = csr, source.dtype.type(0)
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            for h in range(out.shape[1]):
                score = source[indices[e], h] + target[i, h]
                if edge is not None:
                    score += edge[e, h]
                out[e, h] = score if score > zero else score * slope


@njit(cache=True, nogil=True)
def add_scores_gradient(
    csr: Csr, scores: Reals, slope: Any, grad: Reals, by_slot: Reals, by_target: Reals, low: int, high: int
) -> None:
    """Writes the gradient of `add_scores`, whose output is `scores`, by each slot's sum and by the targets' scores."""
    indptr, zero = csr[0], scores.dtype.type(0)
    for i in range(low, high):
        for h in range(scores.shape[1]):
            total = zero
            for e in range(indptr[i], indptr[i + 1]):
                by_slot[e, h] = grad[e, h] if scores[e, h] > zero else grad[e, h] * slope
                total += by_slot[e, h]
            by_target[i, h] = total


@njit(cache=True, nogil=True)
def sum_slots(by_source: Csr, x: Reals, out: Reals, low: int, high: int) -> None:
    """Writes each source's sum of the rows of its slots in `x`, shape (num_slots, heads)."""
    starts, _, slots = by_source
    for s in range(low, high):
        total = out[s]
        total[:] = 0
        for k in range(starts[s], starts[s + 1]):
            for h in range(len(total)):
                total[h] += x[slots[k], h]


@njit(cache=True, nogil=True)
def pair_scores(
    csr: Csr, rows: tuple[Reals, Reals], added: Any, scorer: Scorer, out: Reals, low: int, high: int
) -> None:
    """Writes GATv2's scores: `weight . LeakyReLU(source + target + added)`."""
    (indptr, indices, _), (source, target), (weight, slope) = csr, rows, scorer
    _, heads, width = source.shape
    last, zero = indptr[high], source.dtype.type(0)
    base, row_bytes = source.ctypes.data, heads * width * source.itemsize
    line = np.empty(width, dtype=source.dtype)
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(e + AHEAD, last - 1)]
            prefetch_row(base + ahead * row_bytes, row_bytes)
            row = source[indices[e]]
            for h in range(heads):
                head, own = row[h], target[i, h]
                for j in range(width):
                    value = head[j] + own[j]
                    if added is not None:
                        value += added[e, h, j]
                    line[j] = value if value > zero else value * slope
                out[e, h] = dot(line, weight[h])


@njit(cache=True, nogil=True)
def pair_gradient_by_target(
    csr: Csr,
    rows: tuple[Reals, Reals],
    added: Any,
    scorer: Scorer,
    grad: Reals,
    by_added: Any,
    written: tuple[Reals, Reals],
    low: int,
    high: int,
) -> None:
    """Writes the gradient of `pair_scores` by the targets' and slots' rows and by the weight.

    It works on blocks of `BLOCK` targets, so that sums over targets don't depend on the split into ranges.

    Args:
        csr: The edges by target.
        rows: Those of the sources and of the targets.
        added: See `pair_scores`.
        scorer: See `pair_scores`.
        grad: Gradient by the scores.
        by_added: Written, unless `added` is None.
        written: Gradient by the targets, and each block's gradient by the weight, shape (blocks, heads, width).
        low: First block.
        high: Past the last block.
    """
    (indptr, indices, _), (source, target), (weight, slope), (by_target, by_weight) = csr, rows, scorer, written
    heads, width = weight.shape
    zero, one, count = weight.dtype.type(0), weight.dtype.type(1), len(indptr) - 1
    for b in range(low, high):
        by_weight[b] = 0
        for i in range(b * BLOCK, min(count, (b + 1) * BLOCK)):
            by_target[i] = 0
            for e in range(indptr[i], indptr[i + 1]):
                for h in range(heads):
                    given, head, own, sums = grad[e, h], source[indices[e], h], target[i, h], by_target[i, h]
                    factors, of_weight = weight[h], by_weight[b, h]
                    for j in range(width):
                        value = head[j] + own[j]
                        if added is not None:
                            value += added[e, h, j]
                        gate = one if value > zero else slope
                        change = given * factors[j] * gate
                        of_weight[j] += given * value * gate
                        sums[j] += change
                        if added is not None:
                            by_added[e, h, j] = change


@njit(cache=True, nogil=True)
def pair_gradient_by_source(
    by_source: Csr, rows: tuple[Reals, Reals], added: Any, scorer: Scorer, grad: Reals, out: Reals, low: int, high: int
) -> None:
    """Writes the gradient of `pair_scores` by the sources' rows; arguments as for `pair_gradient_by_target`."""
    (starts, targets, slots), (source, target), (weight, slope) = by_source, rows, scorer
    heads, width = weight.shape
    zero, one = weight.dtype.type(0), weight.dtype.type(1)
    for s in range(low, high):
        out[s] = 0
        for k in range(starts[s], starts[s + 1]):
            slot = slots[k]
            for h in range(heads):
                given, head, own, sums = grad[slot, h], source[s, h], target[targets[k], h], out[s, h]
                factors = weight[h]
                for j in range(width):
                    value = head[j] + own[j]
                    if added is not None:
                        value += added[slot, h, j]
                    gate = one if value > zero else slope
                    sums[j] += given * factors[j] * gate
