"""Measurements that ship with a3gnn: reading all of them takes a second."""

from __future__ import annotations

from functools import cache

from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import shipped_measurements


@cache
def shipped(count: int) -> list[Measurement]:
    """Returns the first `count` of them; nobody may change the list."""
    return shipped_measurements()[:count]
