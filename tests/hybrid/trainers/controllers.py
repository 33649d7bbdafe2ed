"""Controllers of the tests' own."""

from __future__ import annotations

import dataclasses

import numpy as np

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.stage_times import StageTimes


class Random:
    """A controller that draws another division each time that it is asked, and keeps what it was told."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.told: list[tuple[Assignment, StageTimes]] = []

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        self.told.append((assignment, times))
        ends = np.sort(self._rng.integers(0, assignment.batch_size + 1, len(assignment.shares) - 1))
        shares = np.diff([0, *ends, assignment.batch_size])
        return dataclasses.replace(assignment, shares=tuple(shares.tolist()))


class Once:
    """A controller that divides all mini-batches alike."""

    def __init__(self, shares: tuple[int, ...]) -> None:
        self._shares = shares
        self.told: list[tuple[int, ...]] = []

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        self.told.append(assignment.shares)
        return dataclasses.replace(assignment, shares=self._shares)
