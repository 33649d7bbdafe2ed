"""What counts as stolen, and how much longer work takes for it."""

from __future__ import annotations

import math

import pytest

from a3gnn.threads import core_time
from a3gnn.threads.core_time import StolenTime, stretch


def test_it_counts_from_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    stolen = [7.0]
    monkeypatch.setattr(core_time, "stolen_seconds", lambda: stolen[0])
    counted = StolenTime()
    assert (counted.seconds(), counted.share()) == (0.0, 0.0)
    stolen[0] = 9.0
    assert counted.seconds() == 2.0
    assert counted.share() == 1.0  # more than there can have been since a moment ago
    assert counted.passed_s() > 0


def test_the_more_is_stolen_the_longer_work_takes_by_more_than_that_share() -> None:
    shares = [0.0, 0.05, 0.2, 0.5]
    found = [stretch(share) for share in shares]
    assert found[0] == 1
    assert all(1 / (1 - share) < one < 1 / (1 - share) ** 2 for share, one in zip(shares[1:], found[1:], strict=True))
    assert math.isfinite(stretch(1.0))
