"""Compiled kernels that pick by rejection sampling, for caches that change: a mask is read at every draw.

An offset in the row is proposed uniformly. It is accepted with probability 1 if its in-neighbour is cached, 1 / bias if
not, and rejected if it was picked before: each pick is drawn with probability proportional to its weight among those
that remain, as `pick_two_bucket` does. A row gets at most as many proposals as it has in-neighbours; what is missing
then is picked by two buckets from the in-neighbours not yet picked, which continues the same distribution, while
starting the row anew would bias it. Rows of at most twice the fanout are picked by two buckets at once.

A chunk of rows goes through three passes: offsets are proposed, the in-neighbours at them are read, then the mask is.
Each pass prefetches what the next one reads. All kernels release the GIL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.kernel_types import HopDraw, Proposals, RowBounds, RowRange
from a3gnn.sampling.pick_kernels import pick_two_bucket
from a3gnn.sampling.prefetch import prefetch
from a3gnn.sampling.random import below_and_rest, fold
from a3gnn.storage.compiled import njit

# Rows of at most so many times the fanout are read whole, which is cheaper than random reads: measured in a prototype,
# on a graph of 2.4 million nodes.
_SCANNED_FANOUTS = 2
# Folded with a row's stream, the stream for what follows its proposals: beyond any counter of theirs.
_REST = np.uint64(1 << 62)


@njit(cache=True, nogil=True)
def max_proposals(fanout: int) -> int:
    """Returns the proposals per row that `Proposals` must have room for."""
    return max(_SCANNED_FANOUTS * fanout, 1)


@njit(nogil=True)
def pick_by_rejection(
    rows: RowRange,
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: RowBounds,
    draw: HopDraw,
    proposals: Proposals,
    edges: NDArray[np.int32],
    in_advance: int,
) -> int:
    """Writes the in-neighbours that are picked of `rows` to `edges`, one row after the other.

    Args:
        rows: Which rows of the hop.
        indices: In-neighbours of all nodes, int32, shape (num_edges,).
        nodes: Nodes of the hop's rows, int32.
        bounds: Where rows begin in `indices`, and their degrees.
        draw: How the hop is drawn, with a fanout above 0.
        proposals: Scratch with room for `max_proposals(fanout)` proposals per row.
        edges: Room for `fanout` in-neighbours per row.
        in_advance: Proposals per row that are drawn before the first is tested, at most `max_proposals(fanout)`; it
            changes no pick.

    Returns:
        How many proposals a row needs on average, rounded up.
    """
    begin, degree = bounds.begin, bounds.degree
    mask, bias, fanout = draw.mask, draw.bias, draw.fanout
    stride = max_proposals(fanout)
    # An uncached in-neighbour is accepted where the rest of its random word is below this: with probability 1 / bias.
    accept_below = np.uint64(2.0**64 / bias)
    _propose(rows, indices, nodes, bounds, draw, accept_below, in_advance, proposals)
    _read_neighbours(rows, indices, bounds, draw, in_advance, proposals)
    written, tested, long_rows = 0, 0, 0
    for i in range(rows.low, rows.high):
        first, size = (i - rows.low) * stride, min(fanout, degree[i])
        if degree[i] <= fanout:
            for j in range(size):
                edges[written + j] = indices[begin[i] + j]
        elif degree[i] <= _SCANNED_FANOUTS * fanout:
            stream = fold(draw.key, np.uint64(nodes[i]))
            row = proposals.neighbours[first : first + degree[i]]
            _pick_from(stream, row, mask, bias, edges[written : written + size])
        else:
            accepted, used = _accept(proposals, mask, first, in_advance, edges, written, size)
            tested += used
            long_rows += 1
            if accepted < size:
                stream, chosen = fold(draw.key, np.uint64(nodes[i])), proposals.slots[first : first + size]
                whole, picks = indices[begin[i] : begin[i] + degree[i]], edges[written : written + size]
                tested += _finish_row(stream, whole, draw, accept_below, chosen, accepted, in_advance, picks)
        written += size
    return in_advance if long_rows == 0 else tested // long_rows + 1


@njit(nogil=True)
def _propose(
    rows: RowRange,
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: RowBounds,
    draw: HopDraw,
    accept_below: np.uint64,
    in_advance: int,
    proposals: Proposals,
) -> None:
    """Proposes offsets in long rows and prefetches the in-neighbours there; of short rows, prefetches all."""
    begin, degree, slots = bounds.begin, bounds.degree, proposals.slots
    for i in range(rows.low, rows.high):
        if degree[i] <= _SCANNED_FANOUTS * draw.fanout:
            for offset in range(0, degree[i], 16):
                prefetch(indices, begin[i] + offset)
            continue
        stream, first = fold(draw.key, np.uint64(nodes[i])), (i - rows.low) * max_proposals(draw.fanout)
        for t in range(in_advance):
            offset, rest = below_and_rest(stream, t, degree[i])
            slots[first + t] = 2 * offset + (rest < accept_below)
            prefetch(indices, begin[i] + offset)


@njit(nogil=True)
def _read_neighbours(
    rows: RowRange,
    indices: NDArray[np.int32],
    bounds: RowBounds,
    draw: HopDraw,
    in_advance: int,
    proposals: Proposals,
) -> None:
    """Reads the in-neighbours at the proposed offsets, of short rows all, and prefetches their mask."""
    begin, degree, mask = bounds.begin, bounds.degree, draw.mask
    slots, neighbours = proposals
    for i in range(rows.low, rows.high):
        first = (i - rows.low) * max_proposals(draw.fanout)
        if degree[i] > _SCANNED_FANOUTS * draw.fanout:
            for t in range(first, first + in_advance):
                neighbours[t] = indices[begin[i] + (slots[t] >> 1)]
                prefetch(mask, np.int64(neighbours[t]))
        elif degree[i] > draw.fanout:
            for offset in range(degree[i]):
                neighbours[first + offset] = indices[begin[i] + offset]
                prefetch(mask, np.int64(neighbours[first + offset]))


@njit(nogil=True, inline="always")
def _accept(
    proposals: Proposals,
    mask: NDArray[np.bool_],
    first: int,
    count: int,
    edges: NDArray[np.int32],
    written: int,
    size: int,
) -> tuple[int, int]:
    """Tests a row's `count` proposals from `first` on, in order, until `size` of them are accepted.

    Accepted offsets overwrite the proposals, which were tested before. Whether a proposal is accepted is unpredictable,
    so it is tested without branching; duplicates are rare, and two words of bits rule most of them out.

    Returns:
        How many are accepted, and how many were tested.
    """
    slots, neighbours = proposals
    seen, seen_above, accepted, t = np.uint64(0), np.uint64(0), 0, first
    while t < first + count and accepted < size:
        offset, node = slots[t] >> 1, neighbours[t]
        accepts = (slots[t] & 1) | np.int64(mask[node])
        bit = np.uint64(accepts) << np.uint64(offset & 63)
        above = np.uint64(accepts) << np.uint64((offset >> 6) & 63)
        if (seen & bit != 0) & (seen_above & above != 0):
            for j in range(first, first + accepted):
                accepts &= np.int64(slots[j] != offset)
        slots[first + accepted] = offset
        edges[written + accepted] = node
        seen |= bit
        seen_above |= above
        accepted += accepts
        t += 1
    return accepted, t - first


@njit(nogil=True)
def _finish_row(
    stream: np.uint64,
    row: NDArray[np.int32],
    draw: HopDraw,
    accept_below: np.uint64,
    chosen: NDArray[np.int64],
    accepted: int,
    tested: int,
    picks: NDArray[np.int32],
) -> int:
    """Fills the rest of `picks`: by further proposals, and once those are used up, from what is left of the row.

    Args:
        stream: The row's random numbers.
        row: Its in-neighbours.
        draw: How the hop is drawn.
        accept_below: As in `pick_by_rejection`.
        chosen: Offsets that are picked, int64, shape (len(picks),); the first `accepted` are set.
        accepted: Picks so far.
        tested: Proposals so far.
        picks: In-neighbours that are picked, int32.

    Returns:
        How many further proposals were tested.
    """
    degree, mask = len(row), draw.mask
    for t in range(tested, degree):
        offset, rest = below_and_rest(stream, t, degree)
        node = row[offset]
        accepts = rest < accept_below or mask[node]
        for j in range(accepted):
            accepts &= chosen[j] != offset
        if accepts:
            chosen[accepted] = offset
            picks[accepted] = node
            accepted += 1
            if accepted == len(picks):
                return t + 1 - tested
    left, count = np.empty(degree - accepted, dtype=np.int32), 0
    for offset in range(degree):
        picked = False
        for j in range(accepted):
            picked |= chosen[j] == offset
        if not picked:
            left[count] = row[offset]
            count += 1
    _pick_from(fold(stream, _REST), left, mask, draw.bias, picks[accepted:])
    return int(degree - tested)


@njit(cache=True, nogil=True)
def _pick_from(
    stream: np.uint64, neighbours: NDArray[np.int32], mask: NDArray[np.bool_], bias: float, picks: NDArray[np.int32]
) -> None:
    """Fills `picks` with some of `neighbours`, by two buckets."""
    ordered = np.empty(len(neighbours), dtype=np.int32)
    front, back = 0, len(ordered)
    for i in range(len(neighbours)):
        # Branch-free: written at both ends, and the wrong one is overwritten later.
        cached = int(mask[neighbours[i]])
        ordered[front] = neighbours[i]
        ordered[back - 1] = neighbours[i]
        front += cached
        back -= 1 - cached
    pick_two_bucket(stream, front, bias, ordered, np.int64(0), np.int32(len(ordered)), picks)
    for j in range(len(picks)):
        picks[j] = ordered[picks[j]]
