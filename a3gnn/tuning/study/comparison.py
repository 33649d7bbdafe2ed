"""`Comparison`: a choice against the default, from the pairs of a verification."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log2
from statistics import fmean, median
from typing import Any, NamedTuple, Self

import numpy as np

from a3gnn.figures import LEAST_PAIRS, SECONDS_AGAIN, THROUGHPUT_AGAIN, Spread, doubts, median_interval
from a3gnn.learning_curve import CurveEnd, Pace
from a3gnn.measurement import Metrics
from a3gnn.objectives import MIN_GAIN, Priority

#: Divisor of a ratio from fewer than `LEAST_PAIRS` pairs. Measured in ten tunes of two graphs: one pair's ratio was
#: 1.51 times the median of its tune; the largest deviation in the other nine tunes was 1.26 times.
_ONE_PAIR = 1.5
#: A gain of accuracy needs so many seeds: a single one may be lucky.
SEEDS_OF_A_GAIN = 2


class Pair(NamedTuple):
    """Metrics of the choice and of the default that were measured one after the other."""

    choice: Metrics
    default: Metrics

    @property
    def disturbed(self) -> bool:
        """Whether other work disturbed a timed window of either, even if that window was timed again."""
        return any(one.disturbed_windows for one in self)

    @property
    def peaks_compare(self) -> bool:
        """Whether both trained, or neither: a run that only times mini-batches takes less memory."""
        return (self.choice.curve is None) == (self.default.curve is None)


class Reached(NamedTuple):
    """Training seconds until a choice and the default reach the target, for one seed and the paces of one pair."""

    choice: float  # infinite if the choice misses the target
    default: float  # if the default misses the target, the seconds of its whole training, a lower bound
    default_missed: bool  # whether the default misses the target


@dataclass(frozen=True, slots=True)
class Comparison:
    """The choice's figures over the default's.

    Both sides of a ratio are medians over the same pairs. They equal the printed figures of the choice and the default
    (`judged_beside`), so the printed figures divide into the printed ratio. Its range is the interval of the median
    of the pairs' ratios (`median_interval`); over several seeds, the widest of the seeds' ranges. It decides whether a
    gain counts. Printed are the wider ranges of `throughput_again` and `time_again`.

    Attributes:
        throughput: Ratio of epochs per second, over the pairs.
        time: Ratio of the default's seconds to accuracy to the choice's, over pairs and seeds; None if the
            choice misses the target with at least half of the seeds.
        memory: Ratio of the largest peaks seen.
        memory_most: The larger of `memory` and the upper bound of the pairs' ratios; None in files of older versions.
        accuracy: Difference of validation accuracy at equal training time, over the seeds, in points.
        differs: Whether the choice gains `MIN_GAIN` by the priority's score at the worse end of every range. With fewer
            than `LEAST_PAIRS` pairs, the median speed over `_ONE_PAIR` counts if that is worse. A gain of accuracy
            needs `SEEDS_OF_A_GAIN` seeds. False if `late`.
        late: Whether the priority may not be late (`Priority.in_time`), and the choice is better by the score but
            reaches the target later than the default.
        disturbed: Share of all pairs' runs in which other work disturbed a timed window, in [0, 1].
        left_out: Number of disturbed pairs that do not count for throughput and time (`judged_beside`).
        time_at_least: Whether the default misses the target with at least half of the seeds. The seconds of its whole
            training then stand in, so `time` is a lower bound.
        missed: Number of seeds with which the choice misses the target and the default does not.
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
        pairs: Sequence[Pair],
        seeds: Sequence[Pair],
        target: float,
        memory: str,
        priority: Priority,
        left_out: Sequence[Pair] = (),
    ) -> Self:
        """Returns the comparison.

        Args:
            pairs: Runs that count in the comparison of speeds, at least one pair.
            seeds: Trainings, one pair per seed.
            target: The validation accuracy to reach, in [0, 1].
            memory: Name of the memory metric: peak_host_bytes or peak_device_bytes.
            priority: Judges by its score of the figures that it weighs enough (`Priority.deciding`).
            left_out: Other runs; only their peaks count.
        """
        assert pairs, "there is at least one pair"
        speeds = [(pair.choice.throughput_epochs_per_s, pair.default.throughput_epochs_per_s) for pair in pairs]
        reached = list(seconds_in_turns(pairs, seeds, target))
        every = [*pairs, *left_out, *(pair for pair in seeds if pair not in pairs and pair not in left_out)]
        peaks = [(getattr(own, memory), getattr(other, memory)) for own, other in every]
        most, of_default = (max(side) for side in zip(*peaks, strict=True))
        throughput, (time, time_at_least) = _quotient([speeds]), _time(reached)
        accuracy = _difference([[100 * best_accuracy(one) for one in pair] for pair in trained_alike(seeds)])
        alike = [own / other for (own, other), pair in zip(peaks, every, strict=True) if pair.peaks_compare]
        worst_peak = max(most / of_default, median_interval(alike)[1])
        speed = time if priority.time else throughput
        later = bool(reached) if time is None else time.median < 1 and not time_at_least
        better = _surely_better(speed, len(pairs), worst_peak, accuracy, priority)
        late = better and later and priority.in_time
        return cls(
            throughput=throughput,
            time=time,
            memory=most / of_default,
            accuracy=accuracy,
            differs=better and not late,
            disturbed=fmean(one.disturbed_windows > 0 for pair in (*pairs, *left_out) for one in pair),
            left_out=len(left_out),
            time_at_least=time_at_least,
            missed=sum(one[0].choice == inf for one in reached),
            memory_most=worst_peak,
            late=late,
        )

    @property
    def throughput_again(self) -> Spread:
        """`throughput`, with the range that holds the ratio of one more training of both in nine of ten cases."""
        return self.throughput.widened(THROUGHPUT_AGAIN)

    @property
    def time_again(self) -> Spread | None:
        """`time`, with such a range; a lower bound has none."""
        if self.time is None:
            return None
        if self.time_at_least:
            return Spread.of([self.time.median])
        return self.time.widened(SECONDS_AGAIN)

    def doubts(self, gain: Spread | None = None, none: float = 1.0) -> tuple[str, ...]:
        """Returns why `gain`, one of its ratios or differences as printed, is not settled (`a3gnn.figures.doubts`).

        Without a gain, the reasons that hold for all of them.
        """
        return doubts(gain, self.throughput.repeats, 0.0 if self.left_out else self.disturbed, none)

    @property
    def at_least(self) -> str:
        """What stands before the ratio of seconds: "at least " if it is a lower bound, else ""."""
        return "at least " if self.time_at_least else ""

    def describe_time(self, form: str = ".2f", unit: str = "") -> str:
        """Returns `time_again` as text, after `at least` if it is a lower bound; "" if there is none."""
        return "" if self.time_again is None else f"{self.at_least}{self.time_again.describe(form, unit)}"

    def sooner(self, form: str = ".2f") -> str:
        """Returns `time_again` in words (`Spread.sooner`), after `at least` if it is a lower bound; "" without one."""
        return "" if self.time_again is None else f"{self.at_least}{self.time_again.sooner(form)}"

    def better_by(self, priority: Priority) -> tuple[str, ...]:
        """Returns the names of the figures that `priority` weighs and in which the choice is better.

        The names are speed, memory and accuracy. Empty if the choice is not better by the priority, if no range tells
        the two apart, or if an older version made do with fewer than `LEAST_PAIRS` pairs.
        """
        old = self.memory_most is None
        if not self.differs or (old and self.throughput.repeats < LEAST_PAIRS):
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
    """Returns the pairs of `seeds` that trained equally long, and whose accuracies therefore compare.

    A pair is left out if one of its trainings ended at the target.
    """
    return [
        pair for pair in seeds if not any(one.curve is not None and one.curve.ended is CurveEnd.TARGET for one in pair)
    ]


def accuracy_differences(seeds: Sequence[Pair], target: float) -> list[float]:
    """Returns by how many points the choice's validation accuracy exceeds the default's, per seed.

    The default's is its best, the choice's that of `kept_accuracy`. Pairs that did not train equally long are left out
    (`trained_alike`).
    """
    return [100 * (kept_accuracy(pair.choice, target) - best_accuracy(pair.default)) for pair in trained_alike(seeds)]


def best_accuracy(metrics: Metrics) -> float:
    """Returns the highest validation accuracy of the curve, in [0, 1]; 0 without a curve."""
    return 0.0 if metrics.curve is None else max(metrics.curve.val_accuracy, default=0.0)


def kept_accuracy(metrics: Metrics, target: float) -> float:
    """Returns the highest validation accuracy; if it touched `target` but kept it nowhere, the highest that it kept."""
    best = best_accuracy(metrics)
    fell = metrics.curve is not None and metrics.curve.fell_from(target)
    return min(best, metrics.curve.best_held()) if fell and metrics.curve is not None else best


def reaches(metrics: Metrics, target: float) -> bool:
    """Returns whether the curve reaches `target`, by `LearningCurve.first_reaching`."""
    return metrics.curve is not None and metrics.curve.first_reaching(target) is not None


def seconds_in_turns(pairs: Sequence[Pair], seeds: Sequence[Pair], target: float) -> Iterator[list[Reached]]:
    """Yields a list per seed, with the seconds until both reach `target` at the paces of each pair.

    The set-up time is the median over the pairs. Seeds with which neither reaches the target are left out.
    """
    setups = [median(m.setup_seconds for m in own) for own in zip(*pairs, strict=True)]
    for trained in seeds:
        own, other = trained.choice.curve, trained.default.curve
        if own is None or other is None:
            continue
        at, default_at = own.first_reaching(target), other.first_reaching(target)
        if at is None and default_at is None:
            continue
        paces = [[Pace(setup, m.pace.batches_per_s) for setup, m in zip(setups, timed, strict=True)] for timed in pairs]
        yield [
            Reached(
                choice=inf if at is None else choice.seconds(at),
                default=default.seconds(other.trained if default_at is None else default_at),
                default_missed=default_at is None,
            )
            for choice, default in paces
        ]


def _time(reached: Sequence[Sequence[Reached]]) -> tuple[Spread | None, bool]:
    """Returns the ratio of the default's seconds to the choice's, and whether it is a lower bound."""
    every = [one for of_seed in reached for one in of_seed]
    if not every or median(one.choice for one in every) == inf:
        return None, False
    default = median(inf if one.default_missed else one.default for one in every)
    found = _quotient([[(one.default, one.choice) for one in of_seed] for of_seed in reached])
    if default == inf:
        return found, True
    # If the default misses the target with fewer than half of the seeds, its median is still known.
    return _around(default / median(one.choice for one in every), found), False


def _quotient(by_seed: Sequence[Sequence[tuple[float, float]]]) -> Spread:
    """Returns the ratio of the medians of all pairs' two sides, with the widest range of any seed's ratios."""
    ranges = [median_interval([own / other for own, other in pairs]) for pairs in by_seed]
    every = [pair for pairs in by_seed for pair in pairs]
    middle = median(own for own, _ in every) / median(other for _, other in every)
    lows, highs = zip(*ranges, strict=True)
    return _around(middle, Spread(middle, min(lows), max(highs), len(every)))


def _difference(pairs: Sequence[Sequence[float]]) -> Spread | None:
    """Returns the difference of the medians of the two sides of `pairs`, with the range of the pairs' differences."""
    if not pairs:
        return None
    low, high = median_interval([own - other for own, other in pairs])
    middle = median(own for own, _ in pairs) - median(other for _, other in pairs)
    return _around(middle, Spread(middle, low, high, len(pairs)))


def _around(middle: float, spread: Spread) -> Spread:
    """Returns `spread` with the median `middle`, and its range extended to include that."""
    return spread._replace(median=middle, low=min(spread.low, middle), high=max(spread.high, middle))


def _surely_better(
    speed: Spread | None, pairs: int, memory: float, accuracy: Spread | None, priority: Priority
) -> bool:
    """Returns whether `priority` gains at the worse end of every range; `memory` is the largest ratio of peaks."""
    if speed is None or speed.low <= 0:
        return False
    points = 0.0 if accuracy is None else _worst_points(accuracy)
    costs = np.array([[-np.log2(_worst_speed(speed, pairs)), np.log2(memory), -points / 100]])
    return bool(priority.score(costs * priority.deciding)[0] >= log2(1 + MIN_GAIN))


def _worst_speed(speed: Spread, pairs: int) -> float:
    """Returns the worse end of a ratio of speeds, divided by `_ONE_PAIR` if there were too few pairs."""
    return speed.low if pairs >= LEAST_PAIRS else min(speed.low, speed.median / _ONE_PAIR)


def _worst_points(accuracy: Spread) -> float:
    """Returns the worse end of a difference of accuracy; with too few seeds, only a loss counts."""
    return accuracy.low if accuracy.repeats >= SEEDS_OF_A_GAIN else min(accuracy.low, 0.0)
