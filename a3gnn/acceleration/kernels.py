"""Compiled kernels of accelerated convolutions: edges to CSR, weighted sums, maxima and attention. All release the GIL.

Kernels over rows work on rows `low` to `high` of their output, on one thread. `a3gnn.threads.pool` splits the output;
the split doesn't change a bit of the results. A slot is a place in the CSR, which is sorted by target. Rows are float32
or float64, or int16 for the bits of bfloat16; all else has the dtype of the sums, float32 or float64. An empty array
stands for an optional argument that is absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from a3gnn.features.row_kernels import prefetch_row, settle, sum_of
from a3gnn.models.layers.layer_kernels import random_bits
from a3gnn.models.layers.layer_kernels import softmax as single_softmax
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import narrowed, widened


def lifted(value: Any) -> Any:
    """Returns an entry of a row as a number to add; for compiled code only."""
    raise NotImplementedError


@overload(lifted, inline="always")
def _lifted(value: Any) -> Callable[..., Any]:
    def itself(value: Any) -> Any:
        return value

    def wider(value: Any) -> Any:
        return widened(value)

    return itself if value in (types.float32, types.float64) else wider


def softmax(scores: Any) -> None:
    """Overwrites each column of `scores`, shape (slots, heads), by its softmax; for compiled code only."""
    raise NotImplementedError


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
        single_softmax(scores)

    def double(scores: Any) -> None:
        _double_softmax(scores)

    return single if scores.dtype == types.float32 else double


@njit(cache=True, nogil=True)
def extent(sources: NDArray[Any], targets: NDArray[Any]) -> Any:
    """Returns the lowest end, the highest source, the highest target, and whether targets ascend."""
    lowest, top_source, top_target, ascending = np.int64(0), np.int64(-1), np.int64(-1), True
    for e in range(len(sources)):
        source, target = np.int64(sources[e]), np.int64(targets[e])
        lowest = min(lowest, min(source, target))
        top_source = max(top_source, source)
        if target < np.int64(targets[max(e - 1, 0)]):
            ascending = False
        top_target = max(top_target, target)
    return lowest, top_source, top_target, ascending


@njit(cache=True, nogil=True)
def count_targets(targets: NDArray[Any], indptr: NDArray[np.int32]) -> None:
    """Writes the start of each target's edges, shape (num_dst + 1,)."""
    indptr[:] = 0
    for target in targets:
        indptr[target + 1] += 1
    for i in range(1, len(indptr)):
        indptr[i] += indptr[i - 1]


@njit(cache=True, nogil=True)
def place_edges(
    sources: NDArray[Any],
    targets: NDArray[Any],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    order: NDArray[np.int32],
) -> None:
    """Sorts edges by target, stably: writes their sources and their places in the given order."""
    place = indptr[:-1].copy()
    for e in range(len(sources)):
        at = place[targets[e]]
        place[targets[e]] = at + 1
        indices[at] = sources[e]
        order[at] = e


@njit(cache=True, nogil=True)
def count_loops(indptr: NDArray[np.int32], indices: NDArray[np.int32]) -> int:
    """Returns the number of edges from a node to itself."""
    found = 0
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            found += indices[e] == i
    return found


@njit(cache=True, nogil=True)
def add_loops(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    order: NDArray[np.int32],
    loops: int,
    out_indptr: NDArray[np.int32],
    out_indices: NDArray[np.int32],
    out_order: NDArray[np.int32],
) -> None:
    """Writes the CSR without self loops and with one of nodes 0 to `loops`, at the end of each row.

    Args:
        indptr: The CSR's.
        indices: The CSR's.
        order: Each slot's place in the edge list; empty if they are equal.
        loops: Number of nodes that get a self loop.
        out_indptr: Written.
        out_indices: Written.
        out_order: Written: each slot's place in the list of the remaining edges, in their order, and then the loops.
    """
    edges, rows = len(indices), len(indptr) - 1
    rank = np.ones(edges, dtype=np.int32)
    for i in range(rows):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] == i:
                rank[order[e] if len(order) else e] = 0
    kept = 0
    for e in range(edges):
        kept += rank[e]
        rank[e] = kept - 1
    at = 0
    out_indptr[0] = 0
    for i in range(rows):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                out_indices[at] = indices[e]
                out_order[at] = rank[order[e] if len(order) else e]
                at += 1
        if i < loops:
            out_indices[at] = i
            out_order[at] = kept + i
            at += 1
        out_indptr[i + 1] = at


@njit(cache=True, nogil=True, inline="always")
def _factor(
    slots: NDArray[np.int32], weights: NDArray[Any], scale: NDArray[Any], unit: Any, e: int, source: int
) -> Any:
    """Returns the factor of slot `e`: its weight times its source's scale."""
    factor = unit
    if len(weights):
        factor = weights[slots[e] if len(slots) else e]
    if len(scale):
        factor = factor * scale[source]
    return factor


@njit(cache=True, nogil=True)
def sum_rows(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    slots: NDArray[np.int32],
    weights: NDArray[Any],
    scales: tuple[NDArray[Any], NDArray[Any]],
    unit: Any,
    x: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes each target's weighted sum of rows of `x`.

    Args:
        indptr: The CSR's.
        indices: The CSR's.
        slots: Each slot's place in `weights`; empty if they are equal.
        weights: Each edge's weight, or empty.
        scales: Each source's and each target's factor, or empty.
        unit: 1 in the dtype of the sums.
        x: The sources' rows, shape (num_src, width).
        out: Written, shape (num_dst, width).
        low: First row.
        high: Past the last row.
    """
    scale, own = scales
    width, last = out.shape[1], indptr[high]
    base, row_bytes = x.ctypes.data, x.shape[1] * x.itemsize
    scratch = np.empty(width, dtype=np.float32)
    for i in range(low, high):
        total, e, end = sum_of(out[i], scratch), indptr[i], indptr[i + 1]
        for j in range(width):
            total[j] = 0
        while e + 3 < end:
            for ahead in range(e + 4, min(e + 8, last)):
                prefetch_row(base + indices[ahead] * row_bytes, row_bytes)
            a, b, c, d = x[indices[e]], x[indices[e + 1]], x[indices[e + 2]], x[indices[e + 3]]
            p = _factor(slots, weights, scale, unit, e, indices[e])
            q = _factor(slots, weights, scale, unit, e + 1, indices[e + 1])
            r = _factor(slots, weights, scale, unit, e + 2, indices[e + 2])
            s = _factor(slots, weights, scale, unit, e + 3, indices[e + 3])
            for j in range(width):
                some = total[j] + p * lifted(a[j])
                total[j] = ((some + q * lifted(b[j])) + r * lifted(c[j])) + s * lifted(d[j])
            e += 4
        while e < end:
            row, factor = x[indices[e]], _factor(slots, weights, scale, unit, e, indices[e])
            for j in range(width):
                total[j] += factor * lifted(row[j])
            e += 1
        if len(own):
            factor = own[i]
            for j in range(width):
                total[j] *= factor
        settle(total, out[i])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(a: NDArray[Any], b: NDArray[Any], unit: Any) -> Any:
    """Returns the inner product; the compiler chooses the order of the sum, which is the same in every call."""
    zero = unit - unit
    total = zero
    for j in range(len(a)):
        total += lifted(a[j]) * lifted(b[j])
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot_sum(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], unit: Any) -> Any:
    """Returns the inner product of `a` and `b + c`."""
    zero = unit - unit
    total = zero
    for j in range(len(a)):
        total += lifted(a[j]) * (lifted(b[j]) + lifted(c[j]))
    return total


@njit(cache=True, nogil=True)
def edge_dots(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    slots: NDArray[np.int32],
    scales: tuple[NDArray[Any], NDArray[Any]],
    unit: Any,
    grad: NDArray[Any],
    x: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient by each weight of `sum_rows` for targets `low` to `high`, at its place in `weights`."""
    scale, own = scales
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            source = indices[e]
            found = _dot(grad[i], x[source], unit)
            if len(scale):
                found *= scale[source]
            if len(own):
                found *= own[i]
            out[slots[e] if len(slots) else e] = found


@njit(cache=True, nogil=True)
def max_rows(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], x: NDArray[Any], out: NDArray[Any], low: int, high: int
) -> None:
    """Writes each target's columnwise maximum over its in-neighbors' rows; 0 without in-neighbors, and NaN stays."""
    for i in range(low, high):
        best, begin, end = out[i], indptr[i], indptr[i + 1]
        if begin == end:
            best[:] = 0
            continue
        first = x[indices[begin]]
        for j in range(len(best)):
            best[j] = first[j]
        for e in range(begin + 1, end):
            row = x[indices[e]]
            for j in range(len(best)):
                value = row[j]
                best[j] = value if value > best[j] or value != value else best[j]


@njit(cache=True, nogil=True)
def share_among_ties(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    x: NDArray[Any],
    best: NDArray[Any],
    grad: NDArray[Any],
    unit: Any,
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes each maximum's gradient, divided by the number of its equals.

    As torch's `scatter_reduce`, on which PyG's maximum rests, it also counts the 0 that was there before.
    """
    zero = unit - unit
    for i in range(low, high):
        row, top = out[i], best[i]
        for j in range(len(row)):
            row[j] = unit if top[j] == zero else zero
        for e in range(indptr[i], indptr[i + 1]):
            values = x[indices[e]]
            for j in range(len(row)):
                row[j] += unit if values[j] == top[j] else zero
        for j in range(len(row)):
            row[j] = grad[i, j] / row[j]


@njit(cache=True, nogil=True)
def collect_from_maxima(
    starts: NDArray[np.int32],
    targets: NDArray[np.int32],
    x: NDArray[Any],
    best: NDArray[Any],
    shared: NDArray[Any],
    unit: Any,
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the sources' gradient: the shares of the maxima that they are equal to."""
    zero = unit - unit
    for s in range(low, high):
        total, row = out[s], x[s]
        total[:] = 0
        for k in range(starts[s], starts[s + 1]):
            top, given = best[targets[k]], shared[targets[k]]
            for j in range(len(total)):
                total[j] += given[j] if row[j] == top[j] else zero


@njit(cache=True, nogil=True)
def normalize_scores(
    indptr: NDArray[np.int32],
    dropping: tuple[np.uint32, np.float32, np.uint32, np.uint32],
    attention: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Overwrites the scores of targets `low` to `high`, (num_slots, heads), by their softmax.

    Dropped slots get a negative sign. `dropping` is `Dropout.arguments`.
    """
    threshold, _, low_key, high_key = dropping
    heads = attention.shape[1]
    for i in range(low, high):
        begin, end = indptr[i], indptr[i + 1]
        if begin == end:
            continue
        own = attention[begin:end]
        softmax(own)
        if threshold > 0:
            flat, place = own.reshape(-1), np.uint32(np.int64(begin) * heads)
            for k in range(len(flat)):
                dropped = random_bits(low_key, high_key, np.uint32(k) + place) < threshold
                flat[k] = -flat[k] if dropped else flat[k]


@njit(cache=True, nogil=True)
def score_gradient(
    indptr: NDArray[np.int32],
    attention: NDArray[Any],
    scale: Any,
    grad: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient by the scores of targets `low` to `high`.

    Args:
        indptr: The CSR's.
        attention: The output of `normalize_scores`, shape (num_slots, heads).
        scale: Factor of the kept slots.
        grad: Gradient by the kept and scaled attention, with the same shape.
        out: Written, with the same shape.
        low: First row.
        high: Past the last row.
    """
    zero = scale - scale
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
def sum_heads(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    slots: NDArray[np.int32],
    attention: NDArray[Any],
    rows: NDArray[Any],
    added: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes each head's sum of rows, weighted by `attention`.

    Args:
        indptr: The CSR's, by target or by source.
        indices: The CSR's.
        slots: Each edge's slot in `attention` and `added`; empty if they are equal.
        attention: Shape (num_slots, heads).
        rows: Shape (num_rows, heads, width).
        added: Rows of the slots, added to those of `rows`, shape (num_slots, heads, width); or empty.
        out: Written, shape (len(indptr) - 1, heads, width).
        low: First row.
        high: Past the last row.
    """
    heads, width, last = out.shape[1], out.shape[2], indptr[high]
    base, row_bytes = rows.ctypes.data, heads * width * rows.itemsize
    for i in range(low, high):
        total = out[i]
        for h in range(heads):
            for j in range(width):
                total[h, j] = 0
        for e in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(e + 4, last - 1)]
            prefetch_row(base + ahead * row_bytes, row_bytes)
            row, slot = rows[indices[e]], slots[e] if len(slots) else e
            for h in range(heads):
                weight, head, sums = attention[slot, h], row[h], total[h]
                if len(added):
                    more = added[slot, h]
                    for j in range(width):
                        sums[j] += weight * (head[j] + more[j])
                else:
                    for j in range(width):
                        sums[j] += weight * head[j]


@njit(cache=True, nogil=True)
def dot_heads(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    left: NDArray[Any],
    rows: NDArray[Any],
    added: NDArray[Any],
    scale: Any,
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes each slot's inner product per head, times `scale`: of the target's row in `left` and the source's.

    Args:
        indptr: The CSR's.
        indices: The CSR's.
        left: Shape (num_dst, heads, width).
        rows: Shape (num_src, heads, width).
        added: See `sum_heads`.
        scale: Factor of the products.
        out: Written, shape (num_slots, heads).
        low: First target.
        high: Past the last target.
    """
    heads, width, last = left.shape[1], left.shape[2], indptr[high]
    base, row_bytes = rows.ctypes.data, heads * width * rows.itemsize
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(e + 4, last - 1)]
            prefetch_row(base + ahead * row_bytes, row_bytes)
            row = rows[indices[e]]
            for h in range(heads):
                if len(added):
                    out[e, h] = scale * _dot_sum(left[i, h], row[h], added[e, h], scale)
                else:
                    out[e, h] = scale * _dot(left[i, h], row[h], scale)


@njit(cache=True, nogil=True)
def spread_heads(
    indptr: NDArray[np.int32],
    attention: NDArray[Any],
    grad: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient by `added` of `sum_heads`: each slot's weight times its target's gradient."""
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            for h in range(out.shape[1]):
                weight = attention[e, h]
                for j in range(out.shape[2]):
                    out[e, h, j] = weight * grad[i, h, j]


@njit(cache=True, nogil=True)
def add_scores(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    source: NDArray[Any],
    target: NDArray[Any],
    edge: NDArray[Any],
    slopes: tuple[Any, Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the LeakyReLU of the sum of each slot's source, target and edge scores, shape (num_slots, heads).

    Args:
        indptr: The CSR's.
        indices: The CSR's.
        source: Shape (num_src, heads).
        target: Shape (num_dst, heads).
        edge: Shape (num_slots, heads), or empty.
        slopes: LeakyReLU's slopes below (>= 0) and above 0.
        out: Written.
        low: First target.
        high: Past the last target.
    """
    slope, unit = slopes
    zero = unit - unit
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            for h in range(out.shape[1]):
                score = source[indices[e], h] + target[i, h]
                if len(edge):
                    score += edge[e, h]
                out[e, h] = score if score > zero else score * slope


@njit(cache=True, nogil=True)
def add_scores_gradient(
    indptr: NDArray[np.int32],
    scores: NDArray[Any],
    slopes: tuple[Any, Any],
    grad: NDArray[Any],
    by_slot: NDArray[Any],
    by_target: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient of `add_scores`, whose output is `scores`, by each slot's sum and by the targets' scores."""
    slope, unit = slopes
    zero = unit - unit
    for i in range(low, high):
        for h in range(scores.shape[1]):
            total = zero
            for e in range(indptr[i], indptr[i + 1]):
                by_slot[e, h] = grad[e, h] if scores[e, h] > zero else grad[e, h] * slope
                total += by_slot[e, h]
            by_target[i, h] = total


@njit(cache=True, nogil=True)
def sum_slots(
    starts: NDArray[np.int32], slots: NDArray[np.int32], x: NDArray[Any], out: NDArray[Any], low: int, high: int
) -> None:
    """Writes the sums of rows `slots` of `x`, shape (num_slots, heads), from each start to the next one."""
    for s in range(low, high):
        total = out[s]
        total[:] = 0
        for k in range(starts[s], starts[s + 1]):
            for h in range(len(total)):
                total[h] += x[slots[k], h]


@njit(cache=True, nogil=True)
def pair_scores(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    source: NDArray[Any],
    target: NDArray[Any],
    added: NDArray[Any],
    weight: NDArray[Any],
    slopes: tuple[Any, Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes GATv2's scores: `weight . LeakyReLU(source + target + added)`, shape (num_slots, heads).

    Args:
        indptr: The CSR's.
        indices: The CSR's.
        source: The sources' rows, shape (num_src, heads, width).
        target: The targets' rows, shape (num_dst, heads, width).
        added: The slots' rows, shape (num_slots, heads, width), or empty.
        weight: Shape (heads, width).
        slopes: LeakyReLU's slopes below and above 0.
        out: Written.
        low: First target.
        high: Past the last target.
    """
    slope, unit = slopes
    zero = unit - unit
    heads, width, last = source.shape[1], source.shape[2], indptr[high]
    base, row_bytes = source.ctypes.data, heads * width * source.itemsize
    line = np.empty(width, dtype=source.dtype)
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(e + 4, last - 1)]
            prefetch_row(base + ahead * row_bytes, row_bytes)
            row = source[indices[e]]
            for h in range(heads):
                head, own = row[h], target[i, h]
                for j in range(width):
                    line[j] = head[j] + own[j]
                if len(added):
                    for j in range(width):
                        line[j] += added[e, h, j]
                for j in range(width):
                    line[j] = line[j] if line[j] > zero else line[j] * slope
                out[e, h] = _dot(line, weight[h], unit)


@njit(cache=True, nogil=True)
def pair_gradient_by_target(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    source: NDArray[Any],
    target: NDArray[Any],
    added: NDArray[Any],
    weight: NDArray[Any],
    slopes: tuple[Any, Any],
    grad: NDArray[Any],
    by_target: NDArray[Any],
    by_added: NDArray[Any],
    by_weight: NDArray[Any],
    block: int,
    low: int,
    high: int,
) -> None:
    """Writes the gradient of `pair_scores` by the targets' and slots' rows and by the weight.

    It works on blocks of `block` targets, so that sums over targets don't depend on the split into ranges.

    Args:
        indptr: See `pair_scores`.
        indices: See `pair_scores`.
        source: See `pair_scores`.
        target: See `pair_scores`.
        added: See `pair_scores`.
        weight: See `pair_scores`.
        slopes: See `pair_scores`.
        grad: Gradient by the scores.
        by_target: Written, with the shape of `target`.
        by_added: Written, with the shape of `added`.
        by_weight: Written: each block's gradient by `weight`, shape (blocks, heads, width).
        block: Targets per block.
        low: First block.
        high: Past the last block.
    """
    slope, unit = slopes
    zero = unit - unit
    heads, width, rows = source.shape[1], source.shape[2], len(indptr) - 1
    for b in range(low, high):
        by_weight[b] = 0
        for i in range(b * block, min(rows, (b + 1) * block)):
            by_target[i] = 0
            for e in range(indptr[i], indptr[i + 1]):
                for h in range(heads):
                    given, head, own, sums = grad[e, h], source[indices[e], h], target[i, h], by_target[i, h]
                    factors, of_weight = weight[h], by_weight[b, h]
                    if len(added):
                        for j in range(width):
                            value = head[j] + own[j] + added[e, h, j]
                            gate = unit if value > zero else slope
                            change = given * factors[j] * gate
                            of_weight[j] += given * value * gate
                            sums[j] += change
                            by_added[e, h, j] = change
                    else:
                        for j in range(width):
                            value = head[j] + own[j]
                            gate = unit if value > zero else slope
                            of_weight[j] += given * value * gate
                            sums[j] += given * factors[j] * gate


@njit(cache=True, nogil=True)
def pair_gradient_by_source(
    sorted_edges: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    source: NDArray[Any],
    target: NDArray[Any],
    added: NDArray[Any],
    weight: NDArray[Any],
    slopes: tuple[Any, Any],
    grad: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient of `pair_scores` by the sources' rows.

    `sorted_edges` is `EdgeGraph.by_source`; for the others see `pair_gradient_by_target`.
    """
    slope, unit = slopes
    zero = unit - unit
    starts, edges, targets = sorted_edges
    heads, width = source.shape[1], source.shape[2]
    for s in range(low, high):
        out[s] = 0
        for k in range(starts[s], starts[s + 1]):
            for h in range(heads):
                given, head, own, sums = grad[edges[k], h], source[s, h], target[targets[k], h], out[s, h]
                factors = weight[h]
                if len(added):
                    more = added[edges[k], h]
                    for j in range(width):
                        gate = unit if head[j] + own[j] + more[j] > zero else slope
                        sums[j] += given * factors[j] * gate
                else:
                    for j in range(width):
                        gate = unit if head[j] + own[j] > zero else slope
                        sums[j] += given * factors[j] * gate


def stored(value: Any, like: Any) -> Any:
    """Returns a number as an entry of the array `like`; for compiled code only."""
    raise NotImplementedError


@overload(stored, inline="always")
def _stored(value: Any, like: Any) -> Callable[..., Any]:
    def itself(value: Any, like: Any) -> Any:
        return value

    def shorter(value: Any, like: Any) -> Any:
        return narrowed(value, like)

    return itself if like.dtype in (types.float32, types.float64) else shorter


@njit(cache=True, nogil=True)
def drop_entries(
    x: NDArray[Any],
    dropping: tuple[np.uint32, np.float32, np.uint32, np.uint32],
    unit: Any,
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes entries `low` to `high` of the flat `x`, dropped or scaled; NaN stays.

    Args:
        x: The entries.
        dropping: `Dropout.arguments`.
        unit: 1 in the dtype of sums.
        out: Written.
        low: First entry.
        high: Past the last entry.
    """
    threshold, _, low_key, high_key = dropping
    scale = unit * dropping[1]
    zero = unit - unit
    # Counts from 0 over slices, because an index with `low` prevents vectorization.
    given, written, first = x[low:high], out[low:high], np.uint32(low)
    for j in range(len(given)):
        factor = zero if random_bits(low_key, high_key, np.uint32(j) + first) < threshold else scale
        written[j] = stored(lifted(given[j]) * factor, written)


@njit(cache=True, nogil=True)
def count_entries(x: NDArray[Any], counts: NDArray[np.int64], low: int, high: int) -> None:
    """Writes how many entries of rows `low` to `high` of `x` are not 0."""
    for i in range(low, high):
        row, count = x[i], 0
        for j in range(len(row)):
            count += row[j] != 0
        counts[i] = count


@njit(cache=True, nogil=True)
def take_entries(
    x: NDArray[Any],
    bits: NDArray[Any],
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the columns and values of the entries of rows `low` to `high` of `x` that are not 0.

    It looks at 32 entries at once, which is most of the work where nearly all are 0.

    Args:
        x: Shape (n_rows, n_columns).
        bits: The same memory as unsigned integers.
        indptr: Start of each row's entries, shape (n_rows + 1,).
        indices: Written, shape (num_stored,).
        values: Written, shape (num_stored,).
        low: First row.
        high: Past the last row.
    """
    for i in range(low, high):
        row, words, at, end, j = x[i], bits[i], indptr[i], indptr[i + 1], 0
        while at < end and j < len(row):
            stop, some = min(j + 32, len(row)), words[j]
            if stop == j + 32:
                for k in range(1, 32):
                    some |= words[j + k]
            if some or stop != j + 32:
                for c in range(j, stop):
                    if row[c] != 0 and at < end:
                        indices[at] = c
                        values[at] = row[c]
                        at += 1
            j = stop
        for missing in range(at, end):  # another thread has changed the row since it was counted
            indices[missing] = 0
            values[missing] = 0
