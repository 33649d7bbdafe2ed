"""What configurations come to when they are measured again."""

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


class Parted(NamedTuple):
    """Alternations by which speeds are compared, and those that are left out."""

    counted: list[Pair]
    left_out: list[Pair]


def parted(alternations: Sequence[Pair]) -> Parted:
    """Returns which of `alternations` count.

    Where at least `ALTERNATIONS` of them are undisturbed (`Pair.disturbed`), these alone do: other work slows a default
    whose products use every core more than a choice with small batches, so that it makes a ratio larger than it is on a
    quiet machine. Where fewer are, all count: no choice of a few decides what is promised.
    """
    if not enough_undisturbed(alternations):
        return Parted(list(alternations), [])
    return Parted(
        [pair for pair in alternations if not pair.disturbed], [pair for pair in alternations if pair.disturbed]
    )


def enough_undisturbed(alternations: Sequence[Pair]) -> bool:
    """Whether `ALTERNATIONS` of them are undisturbed."""
    return sum(not pair.disturbed for pair in alternations) >= ALTERNATIONS


_PEAKS = ("peak_host_bytes", "peak_device_bytes", "resident_file_bytes")


def with_timing(metrics: Metrics, timed: Sequence[Metrics], seen: Sequence[Metrics] = ()) -> Metrics:
    """Returns `metrics` with the pace of `timed`, and the largest peaks of all, those `seen` included.

    Throughput and set-up are the medians of `timed` alone: how fast the machine was when `metrics` were measured drops
    out.
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


def judged_in_turns(
    seeds: Sequence[Pair],
    counted: Sequence[Pair],
    left_out: Sequence[Pair],
    target: float,
    reference: Reference | None,
) -> tuple[Judged, Judged]:
    """Returns what the choice and the default came to, both by the same pairs, which their `Comparison` is of too.

    Throughput and set-up are medians over the `counted` alternations, seconds to the `target` over these and the
    `seeds`, accuracy over the seeds that trained both as long; the peaks are the largest of all pairs.

    Args:
        seeds: Trainings, one pair per seed, the task's own first.
        counted: Alternations by which speeds are compared.
        left_out: Other alternations, of which the peaks alone count.
        target: The validation accuracy that is to be reached, in [0, 1].
        reference: That of the play-off.
    """
    reached = [one for of_seed in seconds_in_turns(counted, seeds, target) for one in of_seed]
    seconds = [one.choice for one in reached], [inf if one.default_missed else one.default for one in reached]
    alike = trained_alike(seeds)
    choice, default = (
        _judged_side(trained, timed, seen, own_seconds, [best_accuracy(one) for one in learnt], target, reference)
        for trained, timed, seen, own_seconds, learnt in zip(
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
    """Returns what a configuration came to: what `whole` learnt, at the pace of `timed`, with the largest peaks `seen`.

    Where nothing was timed beside it, the pace is that of `whole`. The `reference` is that of the play-off. A whole
    training has its first point however slow the machine has become: it counts, though the reference was there earlier.
    """
    figures = Figures.of(whole, whole.curve, reference)
    metrics = with_timing(whole, timed or [whole], seen)
    later = Figures.of(metrics, whole.curve, reference)
    accuracy = figures.val_accuracy
    if accuracy is None and whole.curve is not None:
        accuracy = next(iter(whole.curve.val_accuracy), None)
    return Judged(metrics, dataclasses.replace(later, val_accuracy=accuracy, complete=figures.complete))
