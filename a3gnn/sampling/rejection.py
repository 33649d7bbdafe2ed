"""Compiled kernels that pick among in-neighbours by a cache that changes, so by a mask that is read at every draw.

A slot of a row is proposed uniformly, and taken unless it has been, always if it is cached and else with probability
1 / bias: each taken one is drawn by its weight among those that remain, the law of `pick_two_bucket`. After as many
proposals as the row has slots, the rest is drawn by a scan of what is left, which continues the law (starting the row
anew would not). Short rows are scanned at once.

Rows go through together, in passes: slots are proposed, the in-neighbours in them are read, then the mask is. Each pass
asks for what the next one reads. All release the GIL.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from a3gnn.sampling.pick_kernels import pick_two_bucket
from a3gnn.sampling.prefetch import prefetch
from a3gnn.sampling.random import fold, split

#: A row's stream, where it begins in `indices`, and its degree.
Row = tuple[np.uint64, np.int64, np.int64]
#: Of `lanes` proposals a row, flat: each one (int64, twice its slot, odd where it is taken even if it is not cached)
#: and the in-neighbour in its slot (int32).
Proposals = tuple[NDArray[np.int64], NDArray[np.int32]]

# A row of at most so many fanouts is cheaper read as a whole than at random.
_SCANNED_FANOUTS = 2
# The stream of what follows a row's rejected proposals, beyond any counter of theirs.
_REST = np.uint64(1 << 62)


@njit(cache=True, nogil=True)
def lanes(fanout: int) -> int:
    """Returns the room for proposals that each row of `pick_changing` needs."""
    return max(_SCANNED_FANOUTS * fanout, 1)


@njit(cache=True, nogil=True)
def pick_changing(
    rows: tuple[int, int],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: tuple[NDArray[np.int64], NDArray[np.int32]],
    draw: tuple[NDArray[np.bool_], float, int, np.uint64],
    proposals: Proposals,
    edges: NDArray[np.int32],
    ready: int,
) -> int:
    """Writes the in-neighbours that are picked of rows `rows[0]` to `rows[1]` to `edges`, one row behind the other.

    Args:
        rows: First, and behind the last.
        indices: In-neighbours of all nodes, int32, shape (num_edges,).
        nodes: Whose rows they are, int32.
        bounds: Where each row begins in `indices` (int64) and its degree (int32).
        draw: Mask of cached nodes, bias rate, fanout and the hop's key.
        proposals: Scratch for `lanes(fanout)` proposals of each of the rows.
        edges: Room for `fanout` in-neighbours of each of the rows.
        ready: Proposals that are made of a row before any is judged, at most `lanes(fanout)`; it changes no pick.

    Returns:
        How many proposals a row needs on average, rounded up.
    """
    begin, degree = bounds
    mask, bias, fanout, key = draw
    slots, near = proposals
    room = lanes(fanout)
    # An uncached in-neighbour is taken where what is left of its draw lies below this.
    bar = np.uint64(2.0**64 / bias)
    _ask(rows, indices, nodes, bounds, (fanout, key, bar, ready), slots)
    _read(rows, indices, bounds, (mask, fanout, ready), proposals)
    written, judged, long_rows = 0, 0, 0
    for i in range(rows[0], rows[1]):
        first, size = (i - rows[0]) * room, min(fanout, degree[i])
        if degree[i] <= fanout:
            for j in range(size):
                edges[written + j] = indices[begin[i] + j]
        elif degree[i] <= _SCANNED_FANOUTS * fanout:
            stream = fold(key, np.uint64(nodes[i]))
            _scan(stream, near[first : first + degree[i]], mask, bias, edges[written : written + size])
        else:
            taken, used = _take(slots, near, mask, first, ready, edges, written, size)
            judged += used
            long_rows += 1
            if taken < size:
                row = fold(key, np.uint64(nodes[i])), begin[i], np.int64(degree[i])
                known = slots[first : first + size], taken, ready
                judged += _finish(row, indices, mask, (bias, bar), known, edges[written : written + size])
        written += size
    return ready if long_rows == 0 else judged // long_rows + 1


@njit(cache=True, nogil=True)
def _ask(
    rows: tuple[int, int],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: tuple[NDArray[np.int64], NDArray[np.int32]],
    law: tuple[int, np.uint64, np.uint64, int],
    slots: NDArray[np.int64],
) -> None:
    """Proposes slots of long rows, and asks for them, or for all of a short row."""
    begin, degree = bounds
    fanout, key, bar, ready = law
    for i in range(rows[0], rows[1]):
        if degree[i] <= _SCANNED_FANOUTS * fanout:
            for slot in range(0, degree[i], 16):
                prefetch(indices, begin[i] + slot)
            continue
        stream, first = fold(key, np.uint64(nodes[i])), (i - rows[0]) * lanes(fanout)
        for t in range(ready):
            slot, rest = split(stream, t, degree[i])
            slots[first + t] = 2 * slot + (rest < bar)
            prefetch(indices, begin[i] + slot)


@njit(cache=True, nogil=True)
def _read(
    rows: tuple[int, int],
    indices: NDArray[np.int32],
    bounds: tuple[NDArray[np.int64], NDArray[np.int32]],
    law: tuple[NDArray[np.bool_], int, int],
    proposals: Proposals,
) -> None:
    """Reads the in-neighbours in the proposed slots, or all of a short row, and asks for their mask."""
    begin, degree = bounds
    mask, fanout, ready = law
    slots, near = proposals
    for i in range(rows[0], rows[1]):
        first = (i - rows[0]) * lanes(fanout)
        if degree[i] > _SCANNED_FANOUTS * fanout:
            for t in range(first, first + ready):
                near[t] = indices[begin[i] + (slots[t] >> 1)]
                prefetch(mask, np.int64(near[t]))
        elif degree[i] > fanout:
            for slot in range(degree[i]):
                near[first + slot] = indices[begin[i] + slot]
                prefetch(mask, np.int64(near[first + slot]))


@njit(cache=True, nogil=True, inline="always")
def _take(
    slots: NDArray[np.int64],
    near: NDArray[np.int32],
    mask: NDArray[np.bool_],
    first: int,
    count: int,
    edges: NDArray[np.int32],
    written: int,
    size: int,
) -> tuple[int, int]:
    """Judges a row's `count` proposals from `first` on, in order, until `size` of them are taken.

    The slots that are taken replace the proposals: none is written before it was read. Whether one is taken can't be
    foreseen, so there is no branch on it; that it was taken before is rare, and a word of bits clears most of them.

    Returns:
        How many are taken, and how many were judged.
    """
    met, met_above, taken, t = np.uint64(0), np.uint64(0), 0, first
    while t < first + count and taken < size:
        slot, node = slots[t] >> 1, near[t]
        takes = (slots[t] & 1) | np.int64(mask[node])
        bit = np.uint64(takes) << np.uint64(slot & 63)
        above = np.uint64(takes) << np.uint64((slot >> 6) & 63)
        if (met & bit != 0) & (met_above & above != 0):
            for j in range(first, first + taken):
                takes &= np.int64(slots[j] != slot)
        slots[first + taken] = slot
        edges[written + taken] = node
        met |= bit
        met_above |= above
        taken += takes
        t += 1
    return taken, t - first


@njit(cache=True, nogil=True)
def _finish(
    row: Row,
    indices: NDArray[np.int32],
    mask: NDArray[np.bool_],
    law: tuple[float, np.uint64],
    known: tuple[NDArray[np.int64], int, int],
    picks: NDArray[np.int32],
) -> int:
    """Fills what `picks` lack, with `known` slots, how many of them are taken, and proposals judged; returns others."""
    stream, begin, degree = row
    chosen, taken, judged = known
    for t in range(judged, degree):
        slot, rest = split(stream, t, degree)
        node = indices[begin + slot]
        takes = rest < law[1] or mask[node]
        for j in range(taken):
            takes &= chosen[j] != slot
        if takes:
            chosen[taken] = slot
            picks[taken] = node
            taken += 1
            if taken == len(picks):
                return t + 1 - judged
    left, count = np.empty(degree - taken, dtype=np.int32), 0
    for slot in range(degree):
        met = False
        for j in range(taken):
            met |= chosen[j] == slot
        if not met:
            left[count] = indices[begin + slot]
            count += 1
    _scan(fold(stream, _REST), left, mask, law[0], picks[taken:])
    return int(degree - judged)


@njit(cache=True, nogil=True)
def _scan(
    stream: np.uint64, near: NDArray[np.int32], mask: NDArray[np.bool_], bias: float, picks: NDArray[np.int32]
) -> None:
    """Fills `picks` with some of the in-neighbours `near`, by two buckets; `near` is put in their order."""
    ordered = np.empty(len(near), dtype=np.int32)
    front, back = 0, len(ordered)
    for i in range(len(near)):
        # Both ends are written, and the one that was wrong is written again.
        held = int(mask[near[i]])
        ordered[front] = near[i]
        ordered[back - 1] = near[i]
        front += held
        back -= 1 - held
    pick_two_bucket(stream, front, bias, ordered, (np.int64(0), np.int32(len(ordered))), picks)
    for j in range(len(picks)):
        picks[j] = ordered[picks[j]]
