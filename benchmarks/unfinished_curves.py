"""How well a curve that ended early tells how it would have gone on (`a3gnn_surrogate.unfinished`).

    python -m benchmarks.unfinished_curves [STORE ...] [--at 0.3 0.5 0.75]

Curves that reached their target are cut at a share of their mini-batches to it, others at that share of all of theirs;
what is expected of the rest is compared with what came. Of the shipped profiles, and of more stores of profiles.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.profiling.store.store import ProfileStore
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.references import by_setting
from a3gnn_surrogate.unfinished import expected_accuracy, expected_batches


class Told(NamedTuple):
    """What a cut curve tells.

    Attributes:
        reaches: Whether the whole one reaches the target.
        off: Logarithm of the mini-batches expected to the target over those it took; over all that were trained, where
            it was not reached.
        points: Accuracy expected at its end less what it came to, in points; None where it reached the target.
    """

    reaches: bool
    off: float
    points: float | None


def told(rows: Sequence[Measurement], share: float) -> Iterator[Told]:
    """Yields what the curves of one setting tell, each cut at `share`."""
    curves = KnownCurves.of(rows)
    if curves.default is None or curves.reference is None:
        return
    default, target = curves.default.curve, curves.reference.target
    for known in curves.curves:
        curve, reached = known.curve, known.curve.first_reaching(target)
        points = sum(count <= share * (reached or curve.trained) for count in curve.batches)
        if known.knobs == curves.default.knobs or not points:
            continue
        cut = LearningCurve(curve.batches[:points], curve.val_accuracy[:points], curve.ended)
        off = math.log(expected_batches(cut, default, target) / (reached or curve.trained))
        accuracy = expected_accuracy(cut, default, curve.trained) - max(curve.val_accuracy)
        yield Told(reached is not None, off, None if reached is not None else 100 * accuracy)


def main() -> None:
    """Prints a line per share."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("stores", nargs="*", type=Path, metavar="STORE")
    made.add_argument("--at", nargs="+", type=float, default=[0.3, 0.5, 0.75], metavar="SHARE")
    options, rows = made.parse_args(), list(shipped_measurements())
    for path in options.stores:
        with ProfileStore.open(path) as store:
            rows += store.rows()
    table = Table(
        "cut at", "reach the target", "off, mean", "off, median", "miss it", "said so", "points too many, mean"
    )
    for share in options.at:
        found = defaultdict(list)
        for group in by_setting(rows).values():
            for one in told(group, share):
                found[one.reaches].append(one)
        off, missed = [one.off for one in found[True]], found[False]
        said = fmean(one.off > 0 for one in missed) if missed else math.nan
        points = fmean(one.points for one in missed if one.points is not None) if missed else math.nan
        error = f"{math.expm1(fmean(map(abs, off))):.0%}" if off else ""
        bias = f"{math.expm1(median(off)):+.0%}" if off else ""
        table.add_row(f"{share:.0%}", str(len(off)), error, bias, str(len(missed)), f"{said:.0%}", f"{points:+.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
