"""The share of stored gains that needs another learning rate."""

from __future__ import annotations

from pathlib import Path

from a3gnn.profiling.store.jsonl import read_measurements
from benchmarks.emulated.measured import MeasuredDefault, by_setting
from benchmarks.rate_share import best_gains

GRID = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "grids" / "dblp.jsonl.gz"


def test_rows_with_another_rate_only_count_for_all() -> None:
    (default,) = by_setting(list(read_measurements(GRID)))
    found = best_gains(default)
    assert found is not None
    assert found[0] > found[1] > 1
    own_rate = MeasuredDefault([row for row in default.rows if row.config.learning_rate_scale == 1])
    assert best_gains(own_rate) == (found[1], found[1])
