"""`LearningCurve`: validation quality after counts of trained mini-batches; `Pace`: the seconds that these take."""

from __future__ import annotations

import bisect
import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from statistics import fmean
from typing import Any, Self

from a3gnn._fields import Stored
from a3gnn.errors import UsageError

#: Up to this multiple of the first point's count, points are one such count apart; later they are at least this
#: multiple apart. A fast configuration reaches a target within the first points, and dense points tell when.
_EARLY = 3
#: Later points are this share of the mini-batches so far apart, if that is more. A finer grid would only show the noise
#: of validation.
_SPACING = 1 / 16
#: Points after a first touch of an accuracy that must keep it in the mean, or the touch does not count. Of 506 touches
#: of the baseline's best less half a point in measured curves, 94 were false: the median of later points was lower.
#: The mean of the next 1, 2, 3 and 4 points finds 66, 66, 78 and 86 of them, and refuses 52, 13, 13 and 7 others
#: (`python -m benchmarks.touches`). Each point takes a sixteenth of the training.
FOLLOWING = 3
#: A curve has stopped improving if it was no better over this last share of its mini-batches, ...
_STALE = 1 / 3
#: ... and over so many of them. Of 860 shipped and gridded curves, 68 were trained on after a stop by the other two
#: rules alone, half as long again in the median, and gained .51 (.10) points in the mean; with 100 mini-batches .41
#: (.12), with 200 .18 (.09), with 300 .17 (.11) (`python -m benchmarks.curve_ends --rules`).
_STALE_BATCHES = 200
#: A curve with fewer points does not count as having stopped improving: one evaluation is noise.
LEAST_POINTS = 20
#: A point counts as better from a hundredth of a point on, the last digit that messages show. Errors fall for ever.
_BETTER = 1e-4
#: Factor on mini-batches by a pace, a quotient of measurements, so that a point exactly at the end of the seconds
#: counts.
ROUNDING = 1 + 1e-9
#: Training until a touch of an accuracy counts takes about this many times as long as until the touch.
CONFIRMED = (1 + _SPACING) ** FOLLOWING


class CurveEnd(StrEnum):
    """Why a learning curve ends where it does."""

    BUDGET = "budget"  # it was trained as long as requested
    PLATEAU = "plateau"  # it had stopped improving
    TARGET = "target"  # it had reached the requested accuracy
    SLOWER = "slower"  # its configuration could no longer beat the best one, or reach the target in time
    LOST = "lost"  # it could no longer keep the least accuracy; in rows from before `SLOWER`, or no longer win


def next_point(batches: int, first: int) -> int:
    """Returns the next count of mini-batches at which a curve is evaluated.

    Args:
        batches: The previous count, or 0 before the first one.
        first: The first count, >= 1.
    """
    return batches + (first if batches < _EARLY * first else max(_EARLY * first, int(batches * _SPACING)))


@dataclass(frozen=True, slots=True)
class LearningCurve(Stored):
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

    def held(self) -> tuple[float, ...]:
        """Returns for each point the accuracy that it kept: its own, or the mean of the next ones if that is lower.

        `FOLLOWING` points count, or as many as there are.
        """
        found, kept = self.val_accuracy, []
        for place, own in enumerate(found):
            after = found[place + 1 : place + 1 + FOLLOWING]
            kept.append(min(own, max(fmean(after), min(after))) if after else own)  # a mean of equals may round
        return tuple(kept)

    def best_held(self) -> float:
        """Returns the highest accuracy that any point kept (`held`): the highest that `first_reaching` finds reached.

        Minus infinity without points.
        """
        return max(self.held(), default=-math.inf)

    def best_held_in(self, longer: Self) -> float:
        """Returns the highest accuracy that a point of this curve keeps, however far `longer` is known.

        A curve that ends at a spike keeps it, because nothing follows. `longer` continues this curve, so it has the
        next points; its beginnings in between count, too. Minus infinity without points.
        """
        points = len(self.batches)
        known = range(points, min(len(longer.batches), points + FOLLOWING) + 1)
        held = (self.held(), *(longer.first(end).held() for end in known))
        return max((min(kept) for kept in zip(*held, strict=False)), default=-math.inf)

    def first_reaching(self, accuracy: float) -> int | None:
        """Returns the mini-batches after which validation first is at least `accuracy` and stays there.

        A touch does not count if the mean of the next points is below `accuracy` (`held`). None if none counts.
        """
        place = self.place_reaching(accuracy)
        return None if place is None else self.batches[place]

    def place_reaching(self, accuracy: float) -> int | None:
        """Returns the index of the first point that is at least `accuracy` and keeps it (`held`), or None."""
        return next((place for place, kept in enumerate(self.held()) if kept >= accuracy), None)

    def has_settled_at(self, accuracy: float) -> bool:
        """Returns whether `accuracy` is reached, and all points that decide about it (`held`) are known."""
        place = self.place_reaching(accuracy)
        return place is not None and place + FOLLOWING < len(self.batches)

    def fell_from(self, accuracy: float) -> bool:
        """Returns whether a point has `accuracy`, but none kept it."""
        return max(self.val_accuracy, default=-math.inf) >= accuracy > self.best_held()

    def has_stopped_improving(self) -> bool:
        """Returns whether it was no better over the last third of its mini-batches, and over 200, with twenty points.

        It counts mini-batches and not epochs, because an epoch of large mini-batches teaches little.
        """
        return bool(self.batches) and self.soonest_stop() <= self.trained

    def soonest_stop(self) -> float:
        """Returns the least mini-batches after which the curve can have stopped improving; 0 without points."""
        if not self.batches:
            return 0.0
        last, improved = self.trained, self.improved_at()
        for _ in range(len(self.batches), LEAST_POINTS):
            last = next_point(last, self.batches[0])
        return max(improved / (1 - _STALE), improved + _STALE_BATCHES, last if len(self.batches) < LEAST_POINTS else 0)

    def improves_at_its_end(self) -> bool:
        """Returns whether the last third of its mini-batches was better than the rest."""
        return self.improved_at() > (1 - _STALE) * self.trained

    def improved_at(self) -> int:
        """Returns the mini-batches after which it was last better than before; 0 without points."""
        highest, found = -math.inf, 0
        for count, quality in zip(self.batches, self.val_accuracy, strict=True):
            if quality > highest + _BETTER:
                highest, found = quality, count
        return found

    def first(self, points: int) -> Self:
        """Returns the curve of the first so many `points`."""
        return dataclasses.replace(self, batches=self.batches[:points], val_accuracy=self.val_accuracy[:points])

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
