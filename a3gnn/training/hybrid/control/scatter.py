"""What is measured of an iteration, and by how much measurements scatter."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from a3gnn.training.hybrid.stage_times import StageTimes

#: Share of an iteration that a change must gain, or be expected to. Guess.
LEAST_GAIN = 0.02


def iteration_of(times: StageTimes) -> float:
    """Returns the seconds from one mini-batch to the next, which real trainers always measure."""
    assert times.iteration is not None, "trainers measure from one mini-batch to the next"
    return times.iteration


def deviation(values: Sequence[float]) -> float:
    """Returns the standard deviation of two values or more; `statistics.stdev` takes ten times as long."""
    mean = statistics.fmean(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def standard_error(values: Sequence[float]) -> float:
    """Returns the standard error of the mean of two values or more."""
    return deviation(values) / math.sqrt(len(values))


def shown(seconds: float) -> str:
    """Returns seconds as milliseconds, for people."""
    return f"{1e3 * seconds:.3g} ms"
