"""`Contender`: a configuration with its runs in the verification, and how it is judged by these beside the baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import fmean, median
from typing import NamedTuple, Self

from a3gnn.config import TrainConfig
from a3gnn.figures import LEAST_PAIRS, Figures, Reference, Spread
from a3gnn.limits import Breach
from a3gnn.measurement import Metrics
from a3gnn.objectives import Objectives, Priority
from a3gnn.report.ratios import show_speed
from a3gnn.tuning.run.blocks import SEEDS
from a3gnn.tuning.study.choice import Judged
from a3gnn.tuning.study.comparison import (
    Comparison,
    Pair,
    accuracy_differences,
    best_accuracy,
    kept_accuracy,
    reaches,
    seconds_in_turns,
    trained_alike,
)
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import JudgedTrial, Trial
from a3gnn.units import count

#: Peaks of memory, of which the largest measurement counts.
_PEAKS = ("peak_host_bytes", "peak_device_bytes", "resident_file_bytes")


@dataclass
class Contender:
    """A configuration, and its runs in the verification.

    Attributes:
        trial: Its last trial before the verification.
        before: The metrics of that trial, with the longest curve known.
        baseline: The baseline's training with the task's own seed; None for the baseline itself, or without one.
        whole: Its whole training with the task's own seed.
        runs: One per block.
        pairs: The runs of blocks in which the baseline ran as well, with the baseline's.
        seeds: Trainings of both with further seeds, by their distance from the task's own.
    """

    trial: Trial
    before: Metrics
    baseline: Metrics | None = None
    whole: Metrics | None = None
    runs: list[Metrics] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    seeds: dict[int, Pair] = field(default_factory=dict)

    @classmethod
    def of(cls, one: JudgedTrial, history: History) -> Self:
        """Returns the contender of a trial of `history`, without runs."""
        config, reference = one.trial.measurement.config, history.reference_trial
        before = dataclasses.replace(one.metrics, curve=history.curve(config))
        if reference is None or not history.has_default_reference or reference.measurement.config == config:
            return cls(one.trial, before)
        return cls(one.trial, before, history.reference_metrics)

    @property
    def config(self) -> TrainConfig:
        """The configuration."""
        return self.trial.measurement.config

    @property
    def key(self) -> str:
        """The configuration's key."""
        return self.config.key()

    def record(self, run: Metrics, seed: int | None, default: Metrics | None) -> None:
        """Records its run in a block, and the baseline's.

        Args:
            run: Its metrics.
            seed: The seed's distance from the task's own, if it trained.
            default: The baseline's metrics; None if it did not run, or failed.
        """
        self.runs.append(run)
        self.whole = run if seed == 0 else self.whole
        if default is not None:
            self.pairs.append(Pair(run, default))
            if seed:
                self.seeds[seed] = self.pairs[-1]

    def trainings(self) -> list[Pair]:
        """Returns its trainings and the baseline's by seed, the task's own first; without any, those of the trials."""
        own = [] if self.baseline is None else [Pair(self.whole or self.before, self.baseline)]
        return [*(own if self.whole or not self.seeds else []), *self.seeds.values()]

    def judged(self, objectives: Objectives, reference: Reference | None) -> Beside:
        """Returns how it is judged: as in `judged_beside` if there are pairs, and else alone."""
        if self.pairs:
            return judged_beside(self.pairs, self.trainings(), objectives, reference)
        return Beside(judged_over(self.whole or self.before, self.runs, [self.before], reference), None, None)

    def left_out(self) -> list[str]:
        """Returns the measurements beside the baseline that the budget was too small for."""
        seeds, pairs = SEEDS - 1 - len(self.seeds), LEAST_PAIRS - len(self.pairs)
        untested = self.baseline is None or self.baseline.test_accuracy is None
        missing = {
            f"the baseline's test {self.trial.measurement.setting.metric.label}": untested,
            count(seeds, "further seed"): seeds > 0,
            f"{pairs} of {LEAST_PAIRS} runs in turns with the baseline": pairs > 0,
        }
        return [what for what, is_missing in missing.items() if is_missing]

    def missed(self, history: History) -> tuple[Breach, str] | None:
        """Returns by how much it misses the least accuracy over its seeds, and with which; None if it does not.

        The allowed loss is relative to the baseline, seed by seed. If trainings end at the target, it may not reach the
        target with fewer seeds than the baseline.
        """
        least, request, pairs = history.objectives.limits.least_accuracy, history.study.request, self.trainings()
        if least is None or history.reference is None or not pairs or not (self.whole or self.seeds):
            return None
        learned = [kept_accuracy(pair.choice, least) for pair in pairs]
        found, where = fmean(learned), f" in the mean of {count(len(pairs), 'seed')}"
        if request.priority.to_target:
            kept, of_default = (sum(reaches(run, least) for run in side) for side in zip(*pairs, strict=True))
            found = least if kept >= of_default else min(learned)
            where = f" with {kept} of {count(len(pairs), 'seed')}, the baseline with {of_default}"
        elif request.target_accuracy is None:
            found = history.reference.val_accuracy + fmean(accuracy_differences(pairs, least)) / 100
        return None if found >= least else (Breach("least_accuracy", least, found, history.objectives.metric), where)


class Beside(NamedTuple):
    """A configuration and the baseline, judged by the same pairs, and their comparison; without pairs, one side."""

    choice: Judged
    default: Judged | None
    against: Comparison | None

    def describe(self, priority: Priority) -> str:
        """Returns the speed in a few words, beside the baseline's if there are pairs."""
        if self.against is None:
            return f"{show_speed(self.choice.figures.throughput_epochs_per_s)} epochs/s"
        of_time = self.against.sooner() if priority.time else ""
        return of_time or self.against.throughput_again.describe(unit="x the epochs per second")


def judged_beside(
    pairs: Sequence[Pair], seeds: Sequence[Pair], objectives: Objectives, reference: Reference | None
) -> Beside:
    """Returns both sides of `pairs` and `seeds`, judged, and their comparison.

    Throughput and set-up are medians over the pairs; seconds to the target are medians over pairs and seeds. Accuracy
    is the median over the seeds that trained both as long. The peaks are the largest of all.

    If at least `LEAST_PAIRS` pairs are undisturbed (`Pair.disturbed`), only these count for speed. Other work slows a
    baseline whose matrix products use every core more than a choice with small batches, and so inflates the ratio. If
    fewer are undisturbed, all count, because a selection of a few pairs would decide the promise.

    Args:
        pairs: One per block, at least one.
        seeds: Trainings, one pair per seed, the task's own first.
        objectives: The least accuracy is the target.
        reference: The reference, at the machine's speed in the verification.
    """
    quiet = [pair for pair in pairs if not pair.disturbed]
    enough = len(quiet) >= LEAST_PAIRS
    counted, left_out = (quiet, [pair for pair in pairs if pair.disturbed]) if enough else (list(pairs), [])
    target = objectives.limits.least_accuracy or 0.0
    reached = [one for of_seed in seconds_in_turns(counted, seeds, target) for one in of_seed]
    seconds = [one.choice for one in reached], [inf if one.default_missed else one.default for one in reached]
    sides = (_sides(some) for some in (seeds, counted, [*seeds[1:], *left_out], trained_alike(seeds)))
    choice, default = (
        _over_seeds(judged_over(trained[0], timed, seen, reference), trained, learned, of_side, target)
        for trained, timed, seen, learned, of_side in zip(*sides, seconds, strict=True)
    )
    against = Comparison.of(counted, seeds, target, objectives.memory, objectives.priority, left_out)
    return Beside(choice, default, against)


def _sides(pairs: Sequence[Pair]) -> tuple[list[Metrics], list[Metrics]]:
    return [pair.choice for pair in pairs], [pair.default for pair in pairs]


def _over_seeds(
    judged: Judged, trained: Sequence[Metrics], alike: Sequence[Metrics], seconds: Sequence[float], target: float
) -> Judged:
    """Returns `judged` with the `seconds` to the target, the accuracy of `alike`, and the seeds of `trained`."""
    reached = Spread.of(one for one in seconds if one < inf)
    if reached is not None:
        middle = median(seconds)
        reached = None if middle == inf else reached._replace(median=middle, repeats=len(seconds))
    figures = dataclasses.replace(
        judged.figures,
        seconds_to_accuracy=None if reached is None else reached.median,
        seconds_low=None if reached is None else reached.low,
        seconds_high=None if reached is None else reached.high,
        seconds_repeats=1 if reached is None else reached.repeats,
        seeds=len(trained),
        seeds_missed=sum(one.curve is not None and one.curve.first_reaching(target) is None for one in trained),
    )
    if alike:
        accuracy = median(best_accuracy(one) for one in alike)
        figures = dataclasses.replace(figures, val_accuracy=accuracy, complete=True)
    return Judged(judged.metrics, figures)


def judged_over(
    whole: Metrics, timed: Sequence[Metrics], seen: Sequence[Metrics], reference: Reference | None
) -> Judged:
    """Returns a judged configuration: the curve of `whole`, the pace of `timed`, and the largest peaks of all.

    Throughput and set-up are the medians of `timed`, so the speed of the machine during `whole` does not matter. If the
    machine has slowed down so much that even the first point of the curve lies after the reference's budget, that point
    gives the accuracy.

    Args:
        whole: The training.
        timed: Runs at the speed of the verification; `whole` itself, with its own replicates, if empty.
        seen: Further runs; only their peaks count.
        reference: The reference, at the machine's speed in the verification.
    """
    replicates = tuple(one.throughput_epochs_per_s for one in timed) or whole.throughput_replicates
    timed = timed or [whole]
    throughput = [one.throughput_epochs_per_s for one in timed]
    peaks = {name: max(getattr(one, name) for one in (whole, *timed, *seen)) for name in _PEAKS}
    metrics = dataclasses.replace(
        whole,
        throughput_epochs_per_s=median(throughput),
        throughput_replicates=replicates,
        setup_seconds=median(one.setup_seconds for one in timed),
        **peaks,
    )
    figures, later = (Figures.of(one, whole.curve, reference) for one in (whole, metrics))
    accuracy = figures.val_accuracy
    if accuracy is None and whole.curve is not None:
        accuracy = next(iter(whole.curve.val_accuracy), None)
    return Judged(metrics, dataclasses.replace(later, val_accuracy=accuracy, complete=figures.complete))
