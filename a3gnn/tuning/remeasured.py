"""What configurations come to when they are measured again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median

from a3gnn.figures import Figures, Reference
from a3gnn.measurement import Metrics
from a3gnn.tuning.choice import Judged

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
