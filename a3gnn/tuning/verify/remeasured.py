"""Judges configurations by their repeated measurements in the play-off."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import inf
from statistics import median
from typing import NamedTuple

from a3gnn.figures import Figures, Reference, Spread
from a3gnn.measurement import Metrics
from a3gnn.tuning.study.choice import Judged
from a3gnn.tuning.study.comparison import ALTERNATIONS, Pair, best_accuracy, seconds_in_turns, trained_alike

#: Peaks of memory, of which the largest measurement counts.
_PEAKS = ("peak_host_bytes", "peak_device_bytes", "resident_file_bytes")


class Parted(NamedTuple):
    """Alternations that count in the comparison of speeds, and others."""

    counted: list[Pair]
    left_out: list[Pair]


def parted(alternations: Sequence[Pair]) -> Parted:
    """Returns which of `alternations` count.

    If at least `ALTERNATIONS` of them are undisturbed (`Pair.disturbed`), only the undisturbed ones count. Other work
    slows a default whose matrix products use every core more than a choice with small batches, and so inflates the
    ratio. If fewer are undisturbed, all count, because a selection of a few pairs would decide the promise.
    """
    if not enough_undisturbed(alternations):
        return Parted(list(alternations), [])
    return Parted(
        [pair for pair in alternations if not pair.disturbed], [pair for pair in alternations if pair.disturbed]
    )


def enough_undisturbed(alternations: Sequence[Pair]) -> bool:
    """Whether at least `ALTERNATIONS` of `alternations` are undisturbed."""
    return sum(not pair.disturbed for pair in alternations) >= ALTERNATIONS


def judged_in_turns(
    seeds: Sequence[Pair],
    counted: Sequence[Pair],
    left_out: Sequence[Pair],
    target: float,
    reference: Reference | None,
) -> tuple[Judged, Judged]:
    """Returns the judged choice and the judged default, from the same pairs as their `Comparison`.

    Throughput and set-up are medians over the `counted` alternations; seconds to the `target` are medians over these
    and the `seeds`. Accuracy is the median over the seeds that trained both as long. The peaks are the largest of all
    pairs.

    Args:
        seeds: Trainings, one pair per seed, the task's own first.
        counted: Alternations that count in the comparison of speeds.
        left_out: Other alternations; only their peaks count.
        target: The validation accuracy to reach, in [0, 1].
        reference: The play-off's reference.
    """
    reached = [one for of_seed in seconds_in_turns(counted, seeds, target) for one in of_seed]
    seconds = [one.choice for one in reached], [inf if one.default_missed else one.default for one in reached]
    alike = trained_alike(seeds)
    choice, default = (
        _judged_side(trained, timed, seen, own_seconds, [best_accuracy(one) for one in learned], target, reference)
        for trained, timed, seen, own_seconds, learned in zip(
            _sides(seeds), _sides(counted), _sides([*seeds[1:], *left_out]), seconds, _sides(alike), strict=True
        )
    )
    return choice, default


def _sides(pairs: Sequence[Pair]) -> tuple[list[Metrics], list[Metrics]]:
    return [pair.choice for pair in pairs], [pair.default for pair in pairs]


def _judged_side(
    trained: Sequence[Metrics],
    timed: Sequence[Metrics],
    seen: Sequence[Metrics],
    seconds: Sequence[float],
    accuracies: Sequence[float],
    target: float,
    reference: Reference | None,
) -> Judged:
    alone = judged_over(trained[0], timed, seen, reference)
    reached = Spread.of(one for one in seconds if one < inf)
    if reached is not None:
        middle = median(seconds)
        reached = None if middle == inf else reached._replace(median=middle, repeats=len(seconds))
    figures = dataclasses.replace(
        alone.figures,
        seconds_to_accuracy=None if reached is None else reached.median,
        seconds_low=None if reached is None else reached.low,
        seconds_high=None if reached is None else reached.high,
        seconds_repeats=1 if reached is None else reached.repeats,
        seeds=len(trained),
        seeds_missed=sum(one.curve is not None and one.curve.first_reaching(target) is None for one in trained),
    )
    if accuracies:
        figures = dataclasses.replace(figures, val_accuracy=median(accuracies), complete=True)
    return Judged(alone.metrics, figures)


def judged_over(
    whole: Metrics, timed: Sequence[Metrics], seen: Sequence[Metrics], reference: Reference | None
) -> Judged:
    """Returns a judged configuration: the curve of `whole`, the pace of `timed`, and the largest peaks of all.

    If `timed` is empty, the pace is that of `whole`. If the machine has slowed down so much that even the first point
    of the curve lies after the reference's budget, that point gives the accuracy.

    Args:
        whole: The training.
        timed: Timed trials.
        seen: Further trials; only their peaks count.
        reference: The play-off's reference.
    """
    figures = Figures.of(whole, whole.curve, reference)
    metrics = with_timing(whole, timed or [whole], seen)
    later = Figures.of(metrics, whole.curve, reference)
    accuracy = figures.val_accuracy
    if accuracy is None and whole.curve is not None:
        accuracy = next(iter(whole.curve.val_accuracy), None)
    return Judged(metrics, dataclasses.replace(later, val_accuracy=accuracy, complete=figures.complete))


def with_timing(metrics: Metrics, timed: Sequence[Metrics], seen: Sequence[Metrics] = ()) -> Metrics:
    """Returns `metrics` with the pace of `timed`, and the largest peaks of `metrics`, `timed` and `seen`.

    Throughput and set-up are the medians of `timed` alone, so the speed of the machine during the trial of `metrics`
    does not matter.
    """
    throughput = [one.throughput_epochs_per_s for one in timed]
    peaks = {name: max(getattr(one, name) for one in (metrics, *timed, *seen)) for name in _PEAKS}
    return dataclasses.replace(
        metrics,
        throughput_epochs_per_s=median(throughput),
        throughput_replicates=tuple(throughput),
        setup_seconds=median(one.setup_seconds for one in timed),
        **peaks,
    )
