"""What a sampler cannot avoid to read."""

import numpy as np
import pytest

from benchmarks.engine.workers.a3gnn_shares import Reads, issued_reads, least_seconds, unavoidable_lines


def test_a_row_taken_whole_costs_its_lines() -> None:
    degrees = np.array([16, 17, 0, 1])
    assert unavoidable_lines(degrees, degrees, num_nodes=10) == Reads(4.0, 1 + 2 + 0 + 1, 20.0)


def test_picks_touch_the_expected_distinct_lines() -> None:
    lines, picks = 4, 3
    reads = unavoidable_lines(np.array([lines * 16]), np.array([picks]), num_nodes=0)
    drawn = np.random.default_rng(0).integers(lines, size=(20_000, picks))
    distinct = np.mean([len(set(row)) for row in drawn.tolist()])
    assert reads.slots == pytest.approx(distinct, rel=0.01)


def test_picks_never_touch_more_lines_than_there_are_picks_or_lines() -> None:
    degrees, picks = np.array([1_000_000, 20]), np.array([10, 10])
    assert unavoidable_lines(degrees, picks, 0).slots <= 10 + 2


def test_each_read_is_charged_at_its_own_limit() -> None:
    assert least_seconds(Reads(10.0, 20.0, 30.0), Reads(10.0, 5.0, 30.0)) == pytest.approx(1 + 4 + 1)


def test_each_pick_is_a_slot_and_a_look_up() -> None:
    assert issued_reads(np.array([3, 0, 2]), num_nodes=7) == Reads(3.0, 5.0, 12.0)
