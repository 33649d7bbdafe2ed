"""Measurements that several benchmarks' tests are about."""

from __future__ import annotations

import pytest

from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import shipped_measurements

#: Graphs of `rows`.
GRAPHS = 3


@pytest.fixture(scope="session")
def rows() -> list[Measurement]:
    """The shipped rows of `GRAPHS` graphs."""
    every = shipped_measurements()
    graphs = list(dict.fromkeys(row.setting.graph.fingerprint for row in every))[:GRAPHS]
    return [row for row in every if row.setting.graph.fingerprint in graphs]
