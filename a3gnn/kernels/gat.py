"""Compiled kernels of GAT over unmapped rows. All release the GIL, and work as those of `a3gnn.kernels.sums`.

An attention slot is an edge or a self loop. The slots of destination i begin at `indptr[i] + i`, its self loop first.
An edge from a node to itself has a slot with attention 0. Dropped slots keep their attention, negated. Rows are
float32, or int16 for the bits of bfloat16; all else is float32.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.row_kernels import prefetch_row, settle, sum_of
from a3gnn.kernels.attention import normalize
from a3gnn.kernels.dropout import Dropping
from a3gnn.kernels.sums import AHEAD, Csr
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import widened

_Pair = tuple[NDArray[Any], NDArray[Any]]
Attended: TypeAlias = tuple[NDArray[np.float32], np.float32]
#: LeakyReLU's slope below 0: Veličković et al., 2018, section 2.1.
NEGATIVE_SLOPE = 0.2
#: The score of a slot without attention.
NEVER = -1e30
_SLOPE, _NEVER, _ZERO = np.float32(NEGATIVE_SLOPE), np.float32(NEVER), np.float32(0)


@njit(cache=True, nogil=True, inline="always")
def _leaky(score: np.float32) -> Any:
    return score if score > _ZERO else score * _SLOPE


@njit(cache=True, nogil=True)
def attend(
    block: _Pair,
    scores: _Pair,
    dropping: Dropping,
    first_slots: NDArray[np.int64],
    x: NDArray[Any],
    attention: NDArray[np.float32],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the attention of destinations `low` to `high` and the weighted sums of their rows.

    Args:
        block: indptr and indices, int32, shapes (num_dst + 1,) and (num_edges,).
        scores: Scores of the sources and of the destinations, shapes (num_src, heads) and (num_dst, heads).
        dropping: `Dropout.arguments`; dropped slots get a negative sign.
        first_slots: Each destination's first slot in the whole mini-batch, (num_dst,); empty if this block is the
            whole.
        x: Rows of the sources; the destinations are the first; shape (num_src, width).
        attention: Written, shape (num_edges + num_dst, heads).
        out: Written, shape (heads, num_dst, width).
        low: First row.
        high: Past the last row.
    """
    (indptr, indices), (source, target) = block, scores
    scale, heads, base, row_bytes = dropping[1], source.shape[1], x.ctypes.data, x.shape[1] * x.itemsize
    scratch = np.empty(x.shape[1], dtype=np.float32)
    for i in range(low, high):
        begin, end = indptr[i], indptr[i + 1]
        first = begin + i
        for h in range(heads):
            attention[first, h] = _leaky(source[i, h] + target[i, h])
        for e in range(begin, end):
            s, row = indices[e], attention[e + i + 1]
            prefetch_row(base + s * row_bytes, row_bytes)
            for h in range(heads):
                row[h] = _NEVER if s == i else _leaky(source[s, h] + target[i, h])
        own = attention[first : end + i + 1]
        normalize(own, dropping, first_slots[i] if len(first_slots) else np.int64(first))
        for h in range(heads):
            total = sum_of(out[h, i], scratch)
            _sum_slots(own, h, scale, x, i, indices[begin:end], total)
            settle(total, out[h, i])


@njit(cache=True, nogil=True)
def _sum_slots(
    attention: NDArray[np.float32],
    h: int,
    scale: np.float32,
    x: NDArray[Any],
    i: int,
    sources: NDArray[np.int32],
    total: NDArray[np.float32],
) -> None:
    """Writes one head's weighted sum of row `i` of `x` and the rows `sources`, in this order, to `total`."""
    row, factor = x[i], max(attention[0, h], _ZERO) * scale
    for j in range(len(total)):
        total[j] = factor * widened(row[j])
    k = 0
    while k + 3 < len(sources):
        a, b, c, d = x[sources[k]], x[sources[k + 1]], x[sources[k + 2]], x[sources[k + 3]]
        p, q = max(attention[k + 1, h], _ZERO) * scale, max(attention[k + 2, h], _ZERO) * scale
        r, s = max(attention[k + 3, h], _ZERO) * scale, max(attention[k + 4, h], _ZERO) * scale
        for j in range(len(total)):
            some = total[j] + p * widened(a[j])
            total[j] = ((some + q * widened(b[j])) + r * widened(c[j])) + s * widened(d[j])
        k += 4
    while k < len(sources):
        row, factor = x[sources[k]], max(attention[k + 1, h], _ZERO) * scale
        for j in range(len(total)):
            total[j] += factor * widened(row[j])
        k += 1


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _dot(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """Returns the inner product; the compiler chooses the order of the sum, which is the same in every call."""
    total = _ZERO
    for j in range(len(a)):
        total += widened(a[j]) * widened(b[j])
    return total


@njit(cache=True, nogil=True)
def score_gradients(
    grad: NDArray[Any],
    block: _Pair,
    scores: _Pair,
    attended: Attended,
    x: NDArray[Any],
    by_slot: NDArray[np.float32],
    by_target: NDArray[np.float32],
    low: int,
    high: int,
) -> None:
    """Writes the gradients by the scores of destinations `low` to `high` and of their slots.

    Args:
        grad: Gradient by the sums, shape (heads, num_dst, width).
        block: See `attend`.
        scores: See `attend`.
        attended: The output of `attend`, and the factor of the kept slots.
        x: See `attend`.
        by_slot: Written: gradient by each slot's source score, shape (num_edges + num_dst, heads).
        by_target: Written: gradient by each destination's own score, shape (num_dst, heads).
        low: First row.
        high: Past the last row.
    """
    (indptr, indices), (source, target), (attention, scale) = block, scores, attended
    heads, base, row_bytes = source.shape[1], x.ctypes.data, x.shape[1] * x.itemsize
    for i in range(low, high):
        begin, end = indptr[i], indptr[i + 1]
        means = by_target[i]
        means[:] = _ZERO
        for slot in range(begin + i, end + i + 1):
            s = i if slot == begin + i else indices[slot - i - 1]
            ahead = indices[min(slot - i + AHEAD, len(indices) - 1)] if end > begin else s
            prefetch_row(base + ahead * row_bytes, row_bytes)
            row, weights, changes = x[s], attention[slot], by_slot[slot]
            for h in range(heads):
                changes[h] = _dot(grad[h, i], row) * scale if weights[h] > _ZERO else _ZERO
                means[h] += abs(weights[h]) * changes[h]
        for slot in range(begin + i, end + i + 1):
            s = i if slot == begin + i else indices[slot - i - 1]
            weights, changes, scores_of = attention[slot], by_slot[slot], source[s]
            for h in range(heads):
                change = abs(weights[h]) * (changes[h] - means[h])
                changes[h] = change if scores_of[h] + target[i, h] > _ZERO else change * _SLOPE
        means[:] = _ZERO
        for slot in range(begin + i, end + i + 1):
            for h in range(heads):
                means[h] += by_slot[slot, h]


@njit(cache=True, nogil=True)
def sum_by_source(block: _Pair, by_slot: NDArray[np.float32], by_source: NDArray[np.float32]) -> None:
    """Adds each slot's gradient to its source's gradient, shape (num_src, heads), in the order of the slots."""
    indptr, indices = block
    for i in range(len(indptr) - 1):
        for h in range(by_slot.shape[1]):
            by_source[i, h] += by_slot[indptr[i] + i, h]
        for e in range(indptr[i], indptr[i + 1]):
            for h in range(by_slot.shape[1]):
                by_source[indices[e], h] += by_slot[e + i + 1, h]


@njit(cache=True, nogil=True)
def collect_attended(
    grad: NDArray[Any],
    block: _Pair,
    attended: Attended,
    by_source: Csr,
    scorers: tuple[_Pair, _Pair],
    activated: tuple[NDArray[Any], np.float32],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient of sources `low` to `high`, through the sums and through their scores.

    Args:
        grad: Gradient by the sums, shape (heads, num_dst, width).
        block: See `attend`.
        attended: See `score_gradients`.
        by_source: The edges by source.
        scorers: Of sources and of destinations: the gradient by their scores, and the map from rows to these scores,
            shape (heads, width).
        activated: See `a3gnn.kernels.sums.collect`.
        out: Written, shape (num_src, width).
        low: First row.
        high: Past the last row.
    """
    (indptr, _), (starts, targets, edges), (attention, scale) = block, by_source, attended
    ((by_source_score, source_map), (by_target, target_map)), (alive, alive_scale) = scorers, activated
    heads, rows = grad.shape[0], grad.shape[1]
    scratch = np.empty(out.shape[1], dtype=np.float32)
    for s in range(low, high):
        total = sum_of(out[s], scratch)
        total[:] = _ZERO
        for h in range(heads):
            _add(by_source_score[s, h], source_map[h], total)
            if s < rows:
                _add(by_target[s, h], target_map[h], total)
                _add(max(attention[indptr[s] + s, h], _ZERO) * scale, grad[h, s], total)
            for k in range(starts[s], starts[s + 1]):
                i = targets[k]
                _add(max(attention[edges[k] + i + 1, h], _ZERO) * scale, grad[h, i], total)
        if len(alive):
            passed = alive[s]
            for j in range(len(total)):
                total[j] = _ZERO if widened(passed[j]) <= _ZERO else total[j] * alive_scale
        settle(total, out[s])


@njit(cache=True, nogil=True)
def _add(factor: np.float32, row: NDArray[Any], total: NDArray[np.float32]) -> None:
    for j in range(len(total)):
        total[j] += factor * widened(row[j])
