"""The FIFOs of the array of multipliers, which have no end in the C simulation: with theirs it takes no longer."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from a3gnn.hitgnn.hls.generate import ADD_LATENCY, LANES, Design
from a3gnn.hitgnn.hls.simulation import compare_cycles, simulate
from tests.hitgnn.hls.cases import Accelerator, case_with, layer

ENDLESS = 1 << 30


def cycles(design: Design, sizes: tuple[int, int, int], entry_depth: int) -> tuple[int, int]:
    """The cycles until the update kernel has multiplied and written, if FIFOs are bounded; sizes: rows, depth, columns.

    Cycle by cycle: a unit waits for its inputs, and for room in its outputs. Links hold two values, a tool's default.
    """
    rows, columns = design.rows, design.columns
    block_rows, words, lanes = rows * ADD_LATENCY, -(-columns // LANES), min(columns, LANES)
    blocks = -(-sizes[0] // block_rows) * -(-sizes[2] // columns)
    sends = _sends(blocks, sizes[1], block_rows)
    left, top, sums, steps = (np.zeros((rows, columns), int) for _ in range(4))
    out, collected = np.zeros(columns, int), np.zeros(columns, int)
    sent, read, written, multiplied = 0, 0, 0, 0
    each = np.arange(columns)
    for now in count(1):
        first = steps % ADD_LATENCY == 0
        last = steps // ADD_LATENCY % sizes[1] == sizes[1] - 1
        adds = (steps < blocks * sizes[1] * ADD_LATENCY) & (left > 0) & (~first | (top > 0))
        adds &= ~last | (sums < 2 * ADD_LATENCY)
        adds[:, :-1] &= left[:, 1:] < 2
        adds[:-1] &= ~first[:-1] | (top[1:] < 2)
        collects = (collected < blocks * block_rows) & (sums[collected % rows, each] > 0) & (out < 2)
        of_word = slice(written % words * LANES, written % words * LANES + lanes)
        writes = bool((out[of_word] > 0).all())
        to_word = slice(read % words * LANES, read % words * LANES + lanes)
        reads = read < blocks * sizes[1] * words and bool((top[0, to_word] < entry_depth).all())
        turns = now > 1 and sent < len(sends) and (not sends[sent] or bool((left[:, 0] < entry_depth).all()))

        left -= adds
        left[:, 1:] += adds[:, :-1]
        top -= adds & first
        top[1:] += (adds & first)[:-1]
        sums += adds & last
        sums[(collected % rows)[collects], each[collects]] -= 1
        out += collects
        collected += collects
        steps += adds
        multiplied = now if adds.any() else multiplied
        if turns:
            left[:, 0] += sends[sent]
            sent += 1
        if reads:
            top[0, to_word] += 1
            read += 1
        if writes:
            out[of_word] -= 1
            written += 1
            if written == blocks * block_rows * words:
                return multiplied, now
    raise AssertionError


def _sends(blocks: int, depth: int, block_rows: int) -> list[bool]:
    """Whether `turn_left` sends entries, by its iterations: while a tile is sent the next one is filled."""
    terms = [min(LANES, depth - first) for first in range(0, depth, LANES)] * blocks
    sent = [0, *(ADD_LATENCY * some for some in terms)]
    filled = [*(block_rows for _ in terms), 0]
    return [i < of for of, into in zip(sent, filled, strict=True) for i in range(max(of, into))]


def test_it_takes_what_the_simulation_counts(accelerator: Accelerator) -> None:
    none = np.empty(0, dtype=int)
    _, calls = simulate(accelerator(4, 64), case_with(layer(1, 128, (none, none), (40, 16))))
    update = compare_cycles(Design(4, 64), calls)[1]
    assert cycles(Design(4, 64), (128, 40, 16), ENDLESS) == (update.counted, update.written)


@pytest.mark.parametrize("multipliers", [8, 64, 512, 2048])
def test_the_entries_have_room_for_the_skew(multipliers: int) -> None:
    design = Design(4, multipliers)
    sizes = (2 * design.rows * ADD_LATENCY, 128, design.columns)
    assert cycles(design, sizes, design.entry_depth) == cycles(design, sizes, ENDLESS)


def test_without_room_the_array_waits() -> None:
    multiplied, _ = cycles(Design(4, 2048), (256, 128, 128), 2)
    assert multiplied > 5 * 2 * 128 * ADD_LATENCY
