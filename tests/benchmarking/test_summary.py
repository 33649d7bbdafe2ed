"""Medians, ratios and means."""

import pytest

from benchmarks.engine.summary import Ratio, ratio, spread, stage_medians


def test_spread_is_the_median_and_its_quartiles() -> None:
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == (3.0, 2.0, 4.0)
    assert spread([7.0]) == (7.0, 7.0, 7.0)


def test_ratio_is_of_all_rounds_and_its_ends_of_single_ones() -> None:
    ours, theirs = [[1.0, 1.0, 9.0], [2.0, 2.0, 2.0]], [[4.0, 4.0, 4.0], [6.0, 6.0, 6.0]]
    assert ratio(ours, theirs) == Ratio(2.5, 3.0, 4.0)


def test_rounds_must_pair_up() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([[1.0], [1.0]], [[1.0]])


def test_only_stages_that_were_timed_have_a_median() -> None:
    assert stage_medians([{"ms": [1.0], "sample": [1.0, 3.0]}, {"sample": [2.0]}]) == {"sample": 2.0}
