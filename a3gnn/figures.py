"""`Figures`: the numbers by which a study judges a trial at equal training time; derived, never stored.

`Spread` and `median_interval` summarize repeated measurements of one figure; `doubts` judges a gain.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, NamedTuple, Self

from a3gnn.launch import QUICK
from a3gnn.learning_curve import ROUNDING, CurveEnd, LearningCurve, Pace, next_point
from a3gnn.measurement import Metrics

#: If a choice and the baseline are trained once more, their ratios differ from the medians of a tune's own runs by a
#: factor within these, with a probability of 90 %: t intervals of the logarithms, fitted to 32 tunes on 12 graphs. With
#: each graph held out, the ranges of `Spread.widened` held 30 of the 32 ratios of either kind. The intervals of the
#: medians held 12 and 7, whatever the number of runs (docs/design/trials.md, Promises).
THROUGHPUT_AGAIN, SECONDS_AGAIN = 1.22, 1.75
#: Pairs of runs of a choice and the default that a ratio needs: the least number whose median has a 90 % interval.
LEAST_PAIRS = 1 if QUICK else 5
#: Share of disturbed runs in the pairs above which the ratios are called doubtful. One disturbed run of the
#: two disturbs a pair, so beyond a quarter of the runs, half of the ratios and their median may be disturbed.
MANY_DISTURBED, DISTURBED = 1 / 4, "disturbed"


class Spread(NamedTuple):
    """Repeated measurements of one figure.

    Attributes:
        median: Median of the measurements.
        low: Smallest measurement.
        high: Largest measurement.
        repeats: Number of measurements.
    """

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self | None:
        """Returns the spread of `values`, or None without any."""
        found = list(values)
        return cls(statistics.median(found), min(found), max(found), len(found)) if found else None

    def describe(self, form: str = ".2f", unit: str = "") -> str:
        """Returns `1.48 (1.39 to 1.73)`, each number in `form`; without a range if it is one measurement or one value.

        `unit` follows the median, as in `1.48x (1.39 to 1.73)`.
        """
        median = f"{format(self.median, form)}{unit}"
        if self.repeats == 1 or self.low == self.high:
            return median
        return f"{median} ({format(self.low, form)} to {format(self.high, form)})"

    def sooner(self, form: str = ".2f") -> str:
        """Returns a ratio of the baseline's seconds to others in words: `1.48x sooner (1.39 to 1.73)`, or `x as fast`.

        Larger is better, as in all ratios of speed that are shown.
        """
        return self.describe(form, f"x {self.sooner_word}")

    @property
    def sooner_word(self) -> str:
        """How a ratio of seconds is called: `sooner`, or `as fast` if it is not above 1."""
        return "sooner" if self.median > 1 else "as fast"

    def over(self, other: Spread) -> Spread:
        """Returns the ratio to `other`, with the least and the largest ratio of two measurements."""
        repeats = max(self.repeats, other.repeats)
        return Spread(self.median / other.median, self.low / other.high, self.high / other.low, repeats)

    def widened(self, factor: float) -> Self:
        """Returns the spread with a range that reaches at least from the median over `factor` to `factor` medians.

        A single measurement stays without a range.
        """
        if self.repeats == 1:
            return self
        return self._replace(low=min(self.low, self.median / factor), high=max(self.high, self.median * factor))

    def to_dict(self) -> dict[str, float | int]:
        """Returns the fields as JSON types."""
        return self._asdict()

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the spread of `to_dict`."""
        return cls(**fields)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns a 90 % confidence interval of the median of the distribution that `values` are drawn from.

    The bounds are order statistics, so they hold for any distribution: the sign test at 5 % on each side. For five to
    seven values they are the whole range. Fewer values have no such bounds, so their range is returned.
    """
    ordered, count, left_out = sorted(values), len(values), 0
    while 20 * sum(comb(count, below) for below in range(left_out + 2)) <= 2**count:
        left_out += 1
    return ordered[left_out], ordered[count - 1 - left_out]


def doubts(gain: Spread | None, runs: int, disturbed: float = 0.0, none: float = 1.0) -> tuple[str, ...]:
    """Returns why a gain over the baseline is not settled, in words; empty if it is.

    It is settled if its printed range excludes `none`, at least `LEAST_PAIRS` runs count, and few were disturbed.

    Args:
        gain: The ratio or difference, with the range that is printed; None leaves its range out.
        runs: Number of runs of both in turns that count.
        disturbed: Share of these that other programs disturbed, in [0, 1].
        none: The value of no gain: 1 for ratios, 0 for differences.
    """
    found = ["not settled"] if gain is not None and gain.repeats > 1 and gain.low <= none <= gain.high else []
    if runs < LEAST_PAIRS:
        found.append("one run" if runs == 1 else f"{runs} of {LEAST_PAIRS} runs")
    if disturbed > MANY_DISTURBED:
        found.append(DISTURBED)
    return tuple(found)


def differs(drift: float) -> bool:
    """Whether a machine's speed over its former speed differs from 1 when printed with two digits."""
    return f"{drift:.2g}" != "1"


@dataclass(frozen=True, slots=True)
class Reference:
    """What the default configuration reached: others get its training time and are held to its accuracy.

    Attributes:
        budget_s: The default's budget in seconds of training, set-up included, evaluation excluded.
        val_accuracy: The best validation accuracy that it kept within the budget (`LearningCurve.held`), in [0, 1].
        target: The validation accuracy that counts as reached, in [0, 1].
        still_rising: Whether its validation accuracy still improved when its budget ended, short of a requested target.
        final: Whether others are judged where they stop improving, however early: their curves are then complete.
    """

    budget_s: float
    val_accuracy: float
    target: float
    still_rising: bool
    final: bool = False

    def at(self, drift: float) -> Self:
        """Returns the reference for a machine at `drift` times its former speed: the budget is divided by `drift`."""
        return dataclasses.replace(self, budget_s=self.budget_s / drift)

    @classmethod
    def of(
        cls,
        metrics: Metrics,
        curve: LearningCurve,
        max_drop: float,
        target_accuracy: float | None = None,
        longest: LearningCurve | None = None,
    ) -> Self | None:
        """Returns the reference from the default's `metrics` and `curve`, or None if the curve is empty.

        Args:
            metrics: Metrics of the default configuration, or of one that learns the same.
            curve: Its learning curve.
            max_drop: Accuracy that may be lost, as a share of 1.
            target_accuracy: Accuracy to reach, in [0, 1]; by default that of the default less `max_drop`.
            longest: The longest known continuation of `curve`, which the default reaches `target` by, too.
        """
        if not curve.batches:
            return None
        best = curve.best_held_in(longest or curve)
        return cls(
            budget_s=metrics.pace.seconds(curve.trained),
            val_accuracy=best,
            target=best - max_drop if target_accuracy is None else target_accuracy,
            still_rising=curve.ended is not CurveEnd.TARGET and not curve.has_stopped_improving(),
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that a configuration is judged by; `docs/design/measurement.md` defines each.

    Attributes:
        throughput_epochs_per_s: Median of the replicates, epochs per second.
        throughput_low: Smallest replicate.
        throughput_high: Largest replicate.
        peak_host_bytes: As in `Metrics`.
        peak_device_bytes: As in `Metrics`.
        val_accuracy: Best validation accuracy within the reference's seconds of training, in [0, 1]; None without a
            curve. If it touched the target but kept it nowhere, the best that it kept (`LearningCurve.held`).
        seconds_to_accuracy: Seconds of training until validation first reaches the target and keeps it; None if the
            curve ends before that (censored), never a number.
        complete: Whether the curve covers the reference's seconds; if not, `val_accuracy` is a lower bound.
        seconds_low: Smallest of the values whose median is `seconds_to_accuracy`; None if that is None.
        seconds_high: Largest of these values.
        seconds_repeats: Number of these values.
        seeds: Number of seeds that it was trained with.
        seeds_missed: Number of seeds with which it missed the target.
    """

    throughput_epochs_per_s: float
    throughput_low: float
    throughput_high: float
    peak_host_bytes: int
    peak_device_bytes: int
    val_accuracy: float | None = None
    seconds_to_accuracy: float | None = None
    complete: bool = True
    seconds_low: float | None = None
    seconds_high: float | None = None
    seconds_repeats: int = 1
    seeds: int = 1
    seeds_missed: int = 0

    @classmethod
    def of(cls, metrics: Metrics, curve: LearningCurve | None, reference: Reference | None) -> Self:
        """Returns the figures of `metrics`; `curve` is the longest known curve of the learning key.

        Without a reference the whole curve counts, and no target is reached. Rows of measurement version 2 have no
        curve; their validation accuracy after a fixed number of epochs takes its place.
        """
        replicates = metrics.throughput_replicates or (metrics.throughput_epochs_per_s,)
        low, high = min(replicates), max(replicates)

        def pace(epochs_per_s: float) -> Pace:
            return Pace(metrics.setup_seconds, epochs_per_s * metrics.batches_per_epoch)

        accuracy, reached, complete = metrics.val_accuracy, None, True
        if curve is not None:
            accuracy = max(curve.val_accuracy, default=None)
        if curve is not None and reference is not None:
            within = metrics.pace.batches(reference.budget_s) * ROUNDING
            accuracy, complete = curve.best_within(within), covers(curve, within)
            complete |= reference.final and curve.ended is CurveEnd.PLATEAU
            reached = curve.first_reaching(reference.target)
            if accuracy is not None and curve.fell_from(reference.target):
                accuracy = min(accuracy, curve.best_held())
        return cls(
            throughput_epochs_per_s=metrics.throughput_epochs_per_s,
            throughput_low=low,
            throughput_high=high,
            peak_host_bytes=metrics.peak_host_bytes,
            peak_device_bytes=metrics.peak_device_bytes,
            val_accuracy=accuracy,
            seconds_to_accuracy=None if reached is None else metrics.pace.seconds(reached),
            complete=complete,
            seconds_low=None if reached is None else pace(high).seconds(reached),
            seconds_high=None if reached is None else pace(low).seconds(reached),
            seconds_repeats=1 if reached is None else len(replicates),
        )

    def later_than(self, latest_s: float | None) -> bool:
        """Whether the target is reached after more than `latest_s` seconds, or never; None sets no limit."""
        reached = self.seconds_to_accuracy
        return latest_s is not None and (reached is None or reached > latest_s)

    @property
    def throughput(self) -> Spread:
        """The epochs per second with the range of the replicates; one value counts as one measurement."""
        low, high = self.throughput_low, self.throughput_high
        return Spread(self.throughput_epochs_per_s, low, high, 1 if low == high else 2)

    @property
    def seconds(self) -> Spread | None:
        """The seconds to the target with their range; None if it is not reached."""
        if self.seconds_to_accuracy is None:
            return None
        low, high = self.seconds_low, self.seconds_high
        if low is None or high is None:  # older versions stored no range
            return Spread.of([self.seconds_to_accuracy])
        return Spread(self.seconds_to_accuracy, low, high, self.seconds_repeats)


def covers(curve: LearningCurve, batches: float) -> bool:
    """Returns whether `curve` has every point up to `batches` mini-batches."""
    if not curve.batches:
        return batches < 1
    return next_point(curve.trained, curve.batches[0]) > batches
