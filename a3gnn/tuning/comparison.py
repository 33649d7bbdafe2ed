"""`Comparison`: a choice against the default, from the play-off's alternations and seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple, Self

import numpy as np

from a3gnn.learning_curve import CurveEnd, Pace
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.spread import Spread

#: Fewer pairs tell nothing apart. Of two pairs of equals, both lie on the same side of 1 every second time.
LEAST_PAIRS = 3


def tells_apart(found: Spread | None, pairs: int, disturbed: float = 0.0, equal: float = 1.0) -> bool:
    """Returns whether a choice and the baseline differ in a figure, by the range that is printed of it.

    Args:
        found: Ratios or differences of pairs that were measured one after the other; None without any.
        pairs: How many pairs were measured.
        disturbed: Share of their trials that other work disturbed, in [0, 1]; from 1 nothing follows.
        equal: What the figure is of two that are equal: 1 for ratios, 0 for differences.
    """
    return found is not None and pairs >= LEAST_PAIRS and disturbed < 1 and (found.low > equal or found.high < equal)


class Pair(NamedTuple):
    """Metrics of the choice and of the default that were measured one after the other."""

    choice: Metrics
    default: Metrics

    @property
    def disturbed(self) -> bool:
        """Whether other work disturbed a timed window of either, also where that was timed again: it was about then."""
        return any(one.disturbed_windows for one in self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The choice's figures over the default's.

    Attributes:
        throughput: Ratio of epochs per second, per alternation.
        time: Ratio of the default's seconds to accuracy to the choice's, per alternation and seed; None where the
            choice reached the target with no seed. Where the default did not, its whole training stands in: then the
            ratio is at least so large.
        memory: Ratio of the largest peaks seen.
        accuracy: Difference of validation accuracy at equal training time per seed, in points.
        differs: Whether the choice is better by the priority in every alternation.
        disturbed: Share of all alternations' trials in which other work disturbed a timed window, in [0, 1].
        left_out: Disturbed alternations that the ratios of throughput and time leave out (`a3gnn.tuning.disturbed`).
    """

    throughput: Spread
    time: Spread | None
    memory: float
    accuracy: Spread | None
    differs: bool
    disturbed: float = 0.0
    left_out: int = 0

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
            priority: Its score judges, by the figures that it weighs most; of accuracy the least difference counts.
            left_out: Other timed trials, of which the peaks alone count.
        """
        ratios = [pair.choice.throughput_epochs_per_s / pair.default.throughput_epochs_per_s for pair in alternations]
        times = list(_time_ratios(alternations, seeds, target))
        throughput = Spread.of(ratios)
        assert throughput is not None, "there is at least one alternation"
        peaks = [max(getattr(m, memory) for m in own) for own in zip(*alternations, *left_out, *seeds, strict=True)]
        differences = accuracy_differences(seeds)
        of_peaks, speeds = peaks[0] / peaks[1], np.array(times if priority.time else ratios)
        accuracy = min(differences, default=0.0) / 100
        costs = np.stack(np.broadcast_arrays(-np.log2(speeds), np.log2(of_peaks), -accuracy), axis=1)
        return cls(
            throughput=throughput,
            time=Spread.of(times),
            memory=of_peaks,
            accuracy=Spread.of(differences),
            differs=len(speeds) > 0 and bool((priority.score(costs * priority.deciding) > 0).all()),
            disturbed=fmean(one.disturbed_windows > 0 for pair in (*alternations, *left_out) for one in pair),
            left_out=len(left_out),
        )

    def better_by(self, priority: Priority) -> tuple[str, ...]:
        """Returns in which of speed, memory and accuracy the choice is better, of those that `priority` weighs.

        Empty if the choice is not better by the priority in every alternation, or if no printed range tells them apart.
        """
        if not self.differs:
            return ()
        speed, seeds = self.time if priority.time else self.throughput, self.accuracy
        apart = (
            tells_apart(speed, self.throughput.repeats, self.disturbed),
            self.memory < 1,
            tells_apart(seeds, seeds.repeats if seeds else 0, equal=0.0),
        )
        better = (speed is not None and speed.median > 1, True, seeds is not None and seeds.median > 0)
        told = zip(("speed", "memory", "accuracy"), apart, better, priority.deciding, strict=True)
        return tuple(name for name, *conditions in told if all(conditions))

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        spreads = {name: getattr(self, name) for name in ("throughput", "time", "accuracy")}
        return dataclasses.asdict(self) | {name: s.to_dict() if s else None for name, s in spreads.items()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the comparison of `to_dict`."""
        spreads = {name: fields[name] for name in ("throughput", "time", "accuracy")}
        return cls(**dict(fields) | {name: Spread.from_dict(s) if s else None for name, s in spreads.items()})


def accuracy_differences(seeds: Sequence[Pair]) -> list[float]:
    """Returns by how many points the choice's best validation accuracy exceeds the default's, per seed.

    Seeds with which a training ended at the target tell none.
    """
    return [
        100 * (best_accuracy(pair.choice) - best_accuracy(pair.default))
        for pair in seeds
        if not any(one.curve is not None and one.curve.ended is CurveEnd.TARGET for one in pair)
    ]


def best_accuracy(metrics: Metrics) -> float:
    """Returns the highest validation accuracy of its curve, in [0, 1]; 0 without one."""
    return 0.0 if metrics.curve is None else max(metrics.curve.val_accuracy, default=0.0)


def _time_ratios(alternations: Sequence[Pair], seeds: Sequence[Pair], target: float) -> Iterator[float]:
    """Yields the default's seconds to accuracy over the choice's, for each seed by the pace of each alternation.

    The set-up is the median of those seen. Seeds with which the choice does not reach the target have no ratio.
    """
    setups = [median(m.setup_seconds for m in own) for own in zip(*alternations, strict=True)]
    for trained in seeds:
        curves = trained.choice.curve, trained.default.curve
        if curves[0] is None or curves[1] is None:
            continue
        reached = curves[0].first_reaching(target), curves[1].first_reaching(target) or curves[1].trained
        if reached[0] is None:
            continue
        for timed in alternations:
            paces = [Pace(setup, m.pace.batches_per_s) for setup, m in zip(setups, timed, strict=True)]
            yield paces[1].seconds(reached[1]) / paces[0].seconds(reached[0])
