"""`drifts`: finds the stages whose time has changed; also computes the statistics of measured times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from a3gnn.hybrid.stage_times import StageTimes

#: Share of an iteration that a change must gain, or must be expected to gain. Guess.
LEAST_GAIN = 0.02
#: A stage has drifted if the longer of its two times exceeds the shorter by more than this share. Two measurements of
#: one division that differ by more come from a machine that has changed.
CHANGED = 0.2
#: Least difference as a share of an iteration, because the times of short stages vary. Guess.
_MATTERS = 0.05
#: Measurements that a division's mean needs, and those that are kept. Guess: their scatter must be known.
MEASURED, KEPT = 4, 8
#: Changes in a row without a gain after which a controller stops trying. With 2 as with 3, `FittedScaling` ends within
#: 5 % of the best division on all of 100 simulated platforms (`python -m benchmarks.hybrid management`).
PATIENCE = 2


class Drift(NamedTuple):
    """A stage whose time has changed."""

    stage: str  # sampling, loading or synchronization; or a trainer's propagation or transfer
    trainer: int | None  # the trainer's number; None for a stage of all trainers
    before_s: float  # former seconds per mini-batch
    now_s: float  # present seconds per mini-batch

    @property
    def slower(self) -> bool:
        """Whether it takes longer."""
        return self.now_s > self.before_s


def drifts(before: StageTimes, now: StageTimes, least: float = CHANGED) -> list[Drift]:
    """Returns the stages whose seconds differ, the largest difference in seconds first.

    Args:
        before: Former times of a division, with its iteration.
        now: Present times of the same division.
        least: Least relative difference; a difference must also exceed a twentieth of the iteration.
    """
    assert before.iteration is not None, "trainers measure from one mini-batch to the next"
    pairs = zip(_stages(before).items(), _stages(now).values(), strict=True)
    found = [Drift(stage, trainer, was, seconds) for ((stage, trainer), was), seconds in pairs]
    matters = _MATTERS * before.iteration
    far = [
        one
        for one in found
        if abs(one.now_s - one.before_s) > matters
        and max(one.now_s, one.before_s) > (1 + least) * min(one.now_s, one.before_s)
    ]
    return sorted(far, key=lambda one: -abs(one.now_s - one.before_s))


def iteration_of(times: StageTimes) -> float:
    """Returns the seconds from one mini-batch to the next; real trainers always measure them."""
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
    """Returns seconds as text in milliseconds."""
    return f"{1e3 * seconds:.3g} ms"


def _stages(times: StageTimes) -> dict[tuple[str, int | None], float]:
    """Returns the seconds of each stage, separately for each trainer where a trainer has its own."""
    common: dict[tuple[str, int | None], float] = {
        ("sampling", None): max(times.sampling_processor, times.sampling_accelerators),
        ("loading", None): times.loading,
        ("synchronization", None): times.synchronization,
    }
    own = {("propagation", place): seconds for place, seconds in enumerate(times.training)}
    sent = {("transfer", place): seconds for place, seconds in enumerate(times.transfer)}
    return common | own | sent
