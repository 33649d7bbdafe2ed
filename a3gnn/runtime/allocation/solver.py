"""`solve`: how many cores each of several stages gets, so that the slowest one is as fast as can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.units import count


class Solution(NamedTuple):
    """Cores of each stage, and the seconds from one mini-batch to the next."""

    cores: tuple[int, ...]
    seconds: float


def solve(seconds: Sequence[NDArray[np.float64]], cores: int, floor: float = 0.0) -> Solution:
    """Returns the cores, at least one per stage and `cores` in all, that make the slowest stage fastest (section 3.4).

    The optimum is one of the stages' times or the floor. Each of those is tried: every stage gets the fewest cores that
    keep it, and the least one that fits is the answer, with the fewest cores of all that reach it. That is exhaustive,
    also where times rise with cores, and looks up `stages * cores` times, where trying all combinations of cores
    costs `cores ** stages`.

    Args:
        seconds: Each stage's time with 1, 2, ... cores; where it ends, more cores are of no use. A stage that no core
            speeds up is one with a single time.
        cores: Cores in all.
        floor: Seconds below which no allocation gets a mini-batch, such as its bytes over the memory's bandwidth.

    Raises:
        UsageError: There are fewer cores than stages.
    """
    if not seconds or cores < len(seconds):
        raise UsageError(
            f"each of the stages needs a core, got {count(len(seconds), 'stage')} and {count(cores, 'core')}"
        )
    tables = [np.maximum(times[:cores], floor) for times in seconds]
    periods = np.unique(np.concatenate(tables))
    kept = [table[None, :] <= periods[:, None] for table in tables]
    fewest = np.stack([table.argmax(axis=1) + 1 for table in kept], axis=1)
    fits = np.stack([table.any(axis=1) for table in kept]).all(axis=0) & (fewest.sum(axis=1) <= cores)
    best = int(fits.argmax())  # one always fits: with one core per stage, the slowest stage's time
    return Solution(tuple(fewest[best].tolist()), float(periods[best]))
