"""Controllers of one trainer's preparations, of the tests' own."""

from __future__ import annotations

import numpy as np

from a3gnn.pipeline.preparation import Preparation
from a3gnn.training.adapting.stage_times import StageTimes


def drawn(rng: np.random.Generator, most_bytes: int) -> Preparation:
    """Returns any preparation with a cache of at most `most_bytes`."""
    cache_bytes = int(rng.integers(0, most_bytes + 1))
    if rng.random() < 0.3:
        return Preparation("sequential", 0, 0, cache_bytes)
    workers = int(rng.integers(1, 4))
    mode = "mode1" if rng.random() < 0.5 else "mode2"
    return Preparation(mode, workers, workers + int(rng.integers(0, 3)), cache_bytes)


class RandomPreparations:
    """Draws another preparation each time that it is asked, and keeps what it was told."""

    def __init__(self, seed: int, most_bytes: int = 0) -> None:
        self._rng, self._most_bytes = np.random.default_rng(seed), most_bytes
        self.told: list[tuple[Preparation, StageTimes]] = []

    def adjust(self, assignment: Preparation, times: StageTimes) -> Preparation:
        self.told.append((assignment, times))
        return drawn(self._rng, self._most_bytes)


class Stays:
    """Asks for one preparation."""

    def __init__(self, wanted: Preparation) -> None:
        self._wanted = wanted
        self.told: list[Preparation] = []

    def adjust(self, assignment: Preparation, times: StageTimes) -> Preparation:
        self.told.append(assignment)
        return self._wanted
