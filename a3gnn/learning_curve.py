"""`LearningCurve`: validation quality after counts of trained mini-batches; `Pace`: the seconds that these take."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.errors import UsageError

#: Up to this multiple of the first point's count, points are one such count apart; later they are at least this
#: multiple apart. A fast configuration reaches a target within the first points, and dense points tell when. Guess.
_EARLY = 3
#: Later points are this share of the mini-batches so far apart, if that is more. A finer grid would only show the noise
#: of validation. Guess.
_SPACING = 1 / 16
#: A curve has stopped rising if training twice as long gained less than this: half a point of quality (`a3gnn.metric`).
_PLATEAU_GAIN = 0.005
#: Factor on mini-batches by a pace, a quotient of measurements, so that a point exactly at the end of the seconds
#: counts.
ROUNDING = 1 + 1e-9
#: A curve with fewer points does not count as having stopped rising.
LEAST_POINTS = 12


class CurveEnd(StrEnum):
    """Why a learning curve ends where it does."""

    BUDGET = "budget"  # it was trained as long as requested
    PLATEAU = "plateau"  # it had stopped rising
    TARGET = "target"  # it had reached the requested accuracy
    SLOWER = "slower"  # its configuration could no longer beat the best one
    LOST = "lost"  # it could no longer keep the least accuracy; in rows from before `SLOWER`, or no longer win


def next_point(batches: int, first: int) -> int:
    """Returns the next count of mini-batches at which a curve is evaluated.

    Args:
        batches: The previous count, or 0 before the first one.
        first: The first count, >= 1.
    """
    return batches + (first if batches < _EARLY * first else max(_EARLY * first, int(batches * _SPACING)))


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Validation quality over one training; the learning key decides it bit for bit on one machine and version.

    Attributes:
        batches: Mini-batches trained on before each evaluation, ascending.
        val_accuracy: Validation quality at each, by the metric of the task (`a3gnn.metric`).
        ended: Why the curve ends.

    Raises:
        UsageError: The counts do not ascend from 1, or the number of accuracies differs.
    """

    batches: tuple[int, ...]
    val_accuracy: tuple[float, ...]
    ended: CurveEnd

    def __post_init__(self) -> None:
        if len(self.batches) != len(self.val_accuracy):
            raise UsageError(
                f"a curve needs one accuracy per count, got {len(self.val_accuracy)} for {len(self.batches)}"
            )
        if any(later <= earlier for earlier, later in zip((0, *self.batches), self.batches, strict=False)):
            raise UsageError(f"a curve's counts of mini-batches must be ascending and >= 1, got {self.batches}")

    @property
    def trained(self) -> int:
        """Mini-batches up to the last point; 0 without points."""
        return self.batches[-1] if self.batches else 0

    def best_within(self, batches: float) -> float | None:
        """Returns the highest validation accuracy after at most `batches` mini-batches, or None before any point."""
        return max(self.val_accuracy[: bisect.bisect_right(self.batches, batches)], default=None)

    def first_reaching(self, accuracy: float) -> int | None:
        """Returns the mini-batches after which validation first is at least `accuracy`, or None if it never is."""
        reached = (count for count, found in zip(self.batches, self.val_accuracy, strict=True) if found >= accuracy)
        return next(reached, None)

    def has_stopped_rising(self) -> bool:
        """Returns whether the best so far gained under half a point over the last half of the mini-batches."""
        if len(self.batches) < LEAST_POINTS:
            return False
        before = self.best_within(self.trained / 2)
        return before is not None and max(self.val_accuracy) - before < _PLATEAU_GAIN

    def running_best(self) -> tuple[float, ...]:
        """Returns the highest validation accuracy up to each point."""
        return tuple(accumulate(self.val_accuracy, max))

    def with_point(self, batches: int, val_accuracy: float) -> Self:
        """Returns the curve with one more point at its end."""
        longer = (*self.batches, batches), (*self.val_accuracy, val_accuracy)
        return dataclasses.replace(self, batches=longer[0], val_accuracy=longer[1])

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"ended": str(self.ended)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the curve of `to_dict`."""
        return from_fields(cls, dict(fields) | {"ended": CurveEnd(fields["ended"])})


#: The curve of a training that has not begun.
NO_CURVE = LearningCurve((), (), CurveEnd.BUDGET)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a configuration trains, evaluation left out.

    Attributes:
        setup_s: Seconds before its first mini-batch: partitions, orders, caches and tables.
        batches_per_s: Mini-batches per second from then on, epoch overhead included.
    """

    setup_s: float
    batches_per_s: float

    def seconds(self, batches: float) -> float:
        """Returns the seconds of training until `batches` mini-batches are done."""
        return self.setup_s + batches / self.batches_per_s

    def batches(self, seconds: float) -> float:
        """Returns the mini-batches that are done after `seconds` of training, fractions included; 0 in the set-up."""
        return max(0.0, seconds - self.setup_s) * self.batches_per_s
