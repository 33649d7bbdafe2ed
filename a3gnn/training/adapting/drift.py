"""`drifts`: which stages take another time than they did."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from a3gnn.training.adapting.stage_times import StageTimes

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


#: A stage has drifted that takes this share longer, or what is left of it by so much; a division's measurements that
#: differ so are of a machine that has changed.
CHANGED = 0.2
#: Share of an iteration by which it must differ, for a short stage may vary. Guess.
_MATTERS = 0.05


class Drift(NamedTuple):
    """A stage whose time has changed.

    Attributes:
        stage: Sampling, loading, synchronisation, or propagation or transfer of a trainer.
        trainer: Whose; None of all.
        before_s: Seconds per mini-batch that it took.
        now_s: That it takes.
    """

    stage: str
    trainer: int | None
    before_s: float
    now_s: float

    @property
    def slower(self) -> bool:
        """Whether it takes longer."""
        return self.now_s > self.before_s


def drifts(before: StageTimes, now: StageTimes, least: float = CHANGED) -> list[Drift]:
    """Returns the stages whose seconds differ, that which differs by most seconds first.

    Args:
        before: Of some division, with its iteration.
        now: Of the same one.
        least: Share by which they must differ to count, and by a twentieth of the iteration besides.
    """
    assert before.iteration is not None, "trainers measure from one mini-batch to the next"
    pairs = zip(_stages(before).items(), _stages(now).values(), strict=True)
    found = [Drift(*stage, was, seconds) for (stage, was), seconds in pairs]
    matters = _MATTERS * before.iteration
    far = [
        one
        for one in found
        if abs(one.now_s - one.before_s) > matters
        and max(one.now_s, one.before_s) > (1 + least) * min(one.now_s, one.before_s)
    ]
    return sorted(far, key=lambda one: -abs(one.now_s - one.before_s))


def _stages(times: StageTimes) -> dict[tuple[str, int | None], float]:
    """Returns the seconds of each stage, those of trainers apart."""
    common: dict[tuple[str, int | None], float] = {
        ("sampling", None): max(times.sampling_processor, times.sampling_accelerators),
        ("loading", None): times.loading,
        ("synchronisation", None): times.synchronisation,
    }
    own = {("propagation", place): seconds for place, seconds in enumerate(times.training)}
    sent = {("transfer", place): seconds for place, seconds in enumerate(times.transfer)}
    return common | own | sent
