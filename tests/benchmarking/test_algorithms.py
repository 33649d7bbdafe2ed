"""The tables of the algorithms' benchmark, and the parts that it skews."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.algorithms import ALGORITHMS, SKEW, SKEWED, accuracies, algorithm_of, gains, skewed, times


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_first_part_is_as_large_as_asked(small_graph: Any, ranks: int) -> None:
    parts = skewed(small_graph, ranks, 0)
    sizes = np.bincount(parts, minlength=ranks)
    assert sizes[0] == pytest.approx(SKEW * sizes[1:].mean(), rel=0.02)
    assert sizes[1:].max() - sizes[1:].min() <= 1


def test_variants_are_algorithms() -> None:
    assert [algorithm_of(name).name for name in ALGORITHMS] == list(ALGORITHMS)
    found = [algorithm_of(name) for name in SKEWED]
    assert [(one.balanced, one.direct) for one in found] == [(False, False), (True, False), (True, True)]


def run(seconds: float) -> list[dict[str, Any]]:
    traffic = {"beta": 0.5, "host_bytes": 2048, "gradient_bytes": 1024, "activation_bytes": 0}
    return [{"epoch_s": seconds * share, "iterations": 7, "traffic": traffic} for share in (0.5, 1.0)]


def test_tables_say_what_the_slowest_rank_took() -> None:
    names = list(SKEWED)
    found = {name: [run(2.0 / place), run(4.0 / place)] for place, name in enumerate(names, 1)}
    lines = times(found)
    assert len(lines) == 2 + len(names)
    assert lines[2] == "| skewed | 3.00 (2.00 to 4.00) | 7 | 0.50 | 2.00 KiB | 1.00 KiB | 0 B |"
    assert gains(found) == ["scheduler: 100.0 (100.0 to 100.0) % faster", "DC: 50.0 (50.0 to 50.0) % faster"]
    rows = accuracies({"one process": [0.8, 0.82], "p3": [0.8, 0.8]})
    assert rows[2:] == ["| one process | 81.00 ± 1.41 | +0.00 |", "| p3 | 80.00 ± 0.00 | -1.00 |"]
