"""`Comparison`: a choice against the default, from the play-off's alternations and seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, median
from typing import Any, NamedTuple, Self

import numpy as np

from a3gnn.figures import Spread, median_interval
from a3gnn.learning_curve import CurveEnd, Pace
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.quick import QUICK

#: Alternations of the choice and the default that what is printed stands on.
ALTERNATIONS = 1 if QUICK else 5
#: Divisor of a ratio whose range fewer than `ALTERNATIONS` pairs give. In ten tunes of two graphs one pair's ratio was
#: 1.51 times the median of its tune; the largest deviation in the other nine was 1.26 times.
_ONE_PAIR = 1.5
#: A gain of accuracy needs so many seeds: a single one may be lucky.
SEEDS_OF_A_GAIN = 2


def tells_apart(found: Spread | None, equal: float = 1.0) -> bool:
    """Returns whether a choice and the default differ in a figure, by the range that is printed of it.

    Args:
        found: Ratios or differences of pairs that were measured one after the other; None without any.
        equal: What the figure is of two that are equal: 1 for ratios, 0 for differences.
    """
    return found is not None and (found.low > equal or found.high < equal)


class Pair(NamedTuple):
    """Metrics of the choice and of the default that were measured one after the other."""

    choice: Metrics
    default: Metrics

    @property
    def disturbed(self) -> bool:
        """Whether other work disturbed a timed window of either, also where that was timed again: it was about then."""
        return any(one.disturbed_windows for one in self)


class Reached(NamedTuple):
    """Training seconds after which a choice and the default reach the target, with one seed, by the paces of one turn.

    Attributes:
        choice: Infinite where the choice does not reach it.
        default: Where the default does not reach it, the seconds of its whole training: it takes more.
        default_missed: Whether the default does not reach it.
    """

    choice: float
    default: float
    default_missed: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """The choice's figures over the default's.

    Both sides of every ratio are medians over one set of pairs, which are the figures that the tune shows of the choice
    and of the default (`judged_in_turns`), so that the shown figures divide into the shown ratio. Its range is that in
    which the median of the pairs' own ratios lies (`median_interval`); over seeds it is the widest of theirs.

    Attributes:
        throughput: Ratio of epochs per second, over the alternations.
        time: Ratio of the default's seconds to accuracy to the choice's, over alternations and seeds; None where the
            choice misses the target with half of the seeds or more.
        memory: Ratio of the largest peaks seen.
        memory_most: The largest of that and of the upper end of the pairs' own ratios; None in files of older versions.
        accuracy: Difference of validation accuracy at equal training time, over the seeds, in points.
        differs: Whether the choice is better by the priority's score at the worse end of every range. With fewer than
            `ALTERNATIONS` alternations it has to be better by `_ONE_PAIR` more; a gain of accuracy counts with
            `SEEDS_OF_A_GAIN` seeds. What is `late` does not differ.
        late: Whether it is better, but reaches the target later than the default, where speed decides, whatever that
            means.
        disturbed: Share of all alternations' trials in which other work disturbed a timed window, in [0, 1].
        left_out: Disturbed alternations that the ratios of throughput and time leave out (`remeasured.parted`).
        time_at_least: Whether the default misses the target with half of the seeds or more: the seconds of its whole
            training stand in, so that the ratio of time is at least so large.
        missed: Seeds with which the choice misses the target and the default does not.
    """

    throughput: Spread
    time: Spread | None
    memory: float
    accuracy: Spread | None
    differs: bool
    disturbed: float = 0.0
    left_out: int = 0
    time_at_least: bool = False
    missed: int = 0
    memory_most: float | None = None
    late: bool = False

    @classmethod
    def of(
        cls,
        alternations: Sequence[Pair],
        seeds: Sequence[Pair],
        target: float,
        memory: str,
        priority: Priority,
        left_out: Sequence[Pair] = (),
    ) -> Self:
        """Returns the comparison.

        Args:
            alternations: Timed trials by which speeds are compared, at least one pair.
            seeds: Trainings, one pair per seed.
            target: The validation accuracy that is to be reached, in [0, 1].
            memory: The metric that memory means.
            priority: Its score judges, by the figures that it weighs most.
            left_out: Other timed trials, of which the peaks alone count.
        """
        assert alternations, "there is at least one alternation"
        speeds = [(pair.choice.throughput_epochs_per_s, pair.default.throughput_epochs_per_s) for pair in alternations]
        reached = list(seconds_in_turns(alternations, seeds, target))
        peaks = [(getattr(own, memory), getattr(other, memory)) for own, other in (*alternations, *left_out, *seeds)]
        most, of_default = (max(side) for side in zip(*peaks, strict=True))
        throughput, (time, time_at_least) = _quotient([speeds]), _time(reached)
        accuracy = _difference([[100 * best_accuracy(one) for one in pair] for pair in trained_alike(seeds)])
        worst_peak = max(most / of_default, median_interval([own / other for own, other in peaks])[1])
        speed = time if priority.time else throughput
        later = bool(reached) if time is None else time.median < 1 and not time_at_least
        better = _surely_better(speed, len(alternations), worst_peak, accuracy, priority)
        late = better and later and bool(priority.deciding[0])
        return cls(
            throughput=throughput,
            time=time,
            memory=most / of_default,
            accuracy=accuracy,
            differs=better and not late,
            disturbed=fmean(one.disturbed_windows > 0 for pair in (*alternations, *left_out) for one in pair),
            left_out=len(left_out),
            time_at_least=time_at_least,
            missed=sum(one[0].choice == inf for one in reached),
            memory_most=worst_peak,
            late=late,
        )

    def describe_time(self, number_format: str = ".2f") -> str:
        """Returns the ratio of seconds for people, `at least` so large where that is all that is known; "" for none."""
        if self.time is None:
            return ""
        return f"{'at least ' if self.time_at_least else ''}{self.time.describe(number_format)}"

    def better_by(self, priority: Priority) -> tuple[str, ...]:
        """Returns in which of speed, memory and accuracy the choice is better, of those that `priority` weighs.

        Empty if the choice is not better by the priority, if no range tells them apart, or if an older version took
        fewer than `ALTERNATIONS` for enough.
        """
        old = self.memory_most is None
        if not self.differs or (old and self.throughput.repeats < ALTERNATIONS):
            return ()
        speed, accuracy = self.time if priority.time else self.throughput, self.accuracy
        most = self.memory if self.memory_most is None else self.memory_most
        better = (
            speed is not None and _worst_speed(speed, self.throughput.repeats) > 1,
            most < 1,
            accuracy is not None and _worst_points(accuracy) > 0,
        )
        told = zip(("speed", "memory", "accuracy"), better, priority.deciding, strict=True)
        return tuple(name for name, is_better, decides in told if is_better and decides)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        spreads = {name: getattr(self, name) for name in ("throughput", "time", "accuracy")}
        return dataclasses.asdict(self) | {name: s.to_dict() if s else None for name, s in spreads.items()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the comparison of `to_dict`."""
        spreads = {name: fields[name] for name in ("throughput", "time", "accuracy")}
        return cls(**dict(fields) | {name: Spread.from_dict(s) if s else None for name, s in spreads.items()})


def trained_alike(seeds: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs of `seeds` in which both trained as long; accuracy is that at equal training time.

    Seeds with which a training ended at the target tell none.
    """
    return [
        pair for pair in seeds if not any(one.curve is not None and one.curve.ended is CurveEnd.TARGET for one in pair)
    ]


def accuracy_differences(seeds: Sequence[Pair]) -> list[float]:
    """Returns by how many points the choice's best validation accuracy exceeds the default's, per seed.

    Seeds with which a training ended at the target tell none.
    """
    return [100 * (best_accuracy(pair.choice) - best_accuracy(pair.default)) for pair in trained_alike(seeds)]


def best_accuracy(metrics: Metrics) -> float:
    """Returns the highest validation accuracy of its curve, in [0, 1]; 0 without one."""
    return 0.0 if metrics.curve is None else max(metrics.curve.val_accuracy, default=0.0)


def seconds_in_turns(alternations: Sequence[Pair], seeds: Sequence[Pair], target: float) -> Iterator[list[Reached]]:
    """Yields when both reach `target`, for each seed by the paces of each alternation.

    The set-up is the median of those seen. Seeds with which neither reaches it are left out.
    """
    setups = [median(m.setup_seconds for m in own) for own in zip(*alternations, strict=True)]
    for trained in seeds:
        own, other = trained.choice.curve, trained.default.curve
        if own is None or other is None:
            continue
        at, default_at = own.first_reaching(target), other.first_reaching(target)
        if at is None and default_at is None:
            continue
        paces = [
            [Pace(setup, m.pace.batches_per_s) for setup, m in zip(setups, timed, strict=True)]
            for timed in alternations
        ]
        yield [
            Reached(
                choice=inf if at is None else choice.seconds(at),
                default=default.seconds(other.trained if default_at is None else default_at),
                default_missed=default_at is None,
            )
            for choice, default in paces
        ]


def _time(reached: Sequence[Sequence[Reached]]) -> tuple[Spread | None, bool]:
    """Returns the ratio of the default's seconds to the choice's, and whether it is at least so large."""
    every = [one for of_seed in reached for one in of_seed]
    if not every or median(one.choice for one in every) == inf:
        return None, False
    default = median(inf if one.default_missed else one.default for one in every)
    found = _quotient([[(one.default, one.choice) for one in of_seed] for of_seed in reached])
    if default == inf:
        return found, True
    # Where the default misses the target with some seeds, its median is known all the same.
    return _around(default / median(one.choice for one in every), found), False


def _quotient(by_seed: Sequence[Sequence[tuple[float, float]]]) -> Spread:
    """Returns the ratio of the medians of both sides of all pairs, with the widest range of a seed's own ratios."""
    ranges = [median_interval([own / other for own, other in pairs]) for pairs in by_seed]
    every = [pair for pairs in by_seed for pair in pairs]
    middle = median(own for own, _ in every) / median(other for _, other in every)
    lows, highs = zip(*ranges, strict=True)
    return _around(middle, Spread(middle, min(lows), max(highs), len(every)))


def _difference(pairs: Sequence[Sequence[float]]) -> Spread | None:
    """Returns the difference of the medians of both sides of `pairs`, with the range of the pairs' differences."""
    if not pairs:
        return None
    low, high = median_interval([own - other for own, other in pairs])
    middle = median(own for own, _ in pairs) - median(other for _, other in pairs)
    return _around(middle, Spread(middle, low, high, len(pairs)))


def _around(middle: float, spread: Spread) -> Spread:
    """Returns `spread` about another `middle`, which lies within its range: that of all pairs surely does."""
    return spread._replace(median=middle, low=min(spread.low, middle), high=max(spread.high, middle))


def _surely_better(
    speed: Spread | None, alternations: int, memory: float, accuracy: Spread | None, priority: Priority
) -> bool:
    """Returns whether the worse ends of all ranges are a gain by `priority`; `memory` is the largest ratio of peaks."""
    if speed is None or speed.low <= 0:
        return False
    points = 0.0 if accuracy is None else _worst_points(accuracy)
    costs = np.array([[-np.log2(_worst_speed(speed, alternations)), np.log2(memory), -points / 100]])
    return bool(priority.score(costs * priority.deciding)[0] > 0)


def _worst_speed(speed: Spread, alternations: int) -> float:
    """Returns the worse end of a ratio of speeds that so many alternations gave."""
    return speed.low if alternations >= ALTERNATIONS else min(speed.low, speed.median / _ONE_PAIR)


def _worst_points(accuracy: Spread) -> float:
    """Returns the worse end of a difference of accuracy; of too few seeds a loss alone counts."""
    return accuracy.low if accuracy.repeats >= SEEDS_OF_A_GAIN else min(accuracy.low, 0.0)
