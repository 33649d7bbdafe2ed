"""How often a curve that touches a target falls below it again, and how many points find that out.

    python -m benchmarks.touches [--drop POINTS] [--profiles FILE.jsonl.gz ...]

A touch is a curve's first point at the target: the best of the baseline in the same setting, less the drop. It is false
if the median of all later points is below the target. `a3gnn.learning_curve.FOLLOWING` was chosen by the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from a3gnn.config import TrainConfig
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import read_measurements, shipped_measurements

GRIDS = Path(__file__).parent / "results" / "grids"
#: Numbers of points to judge a touch by. A touch with fewer later points is left out.
COUNTS = (1, 2, 3, 4)
Touch = tuple[float, Sequence[float]]


def touches(measurements: Iterable[Measurement], drop: float) -> Iterator[Touch]:
    """Yields the target and the later accuracies of each curve that touches it; `drop` is a share of 1."""
    rows = [row for row in measurements if row.metrics is not None and row.metrics.curve is not None]
    curves = [(row, row.metrics.curve.val_accuracy) for row in rows if row.metrics and row.metrics.curve]
    best: dict[tuple[object, ...], float] = {}
    for row, accuracies in curves:
        if row.config.curve_key(row.setting.task) == TrainConfig().curve_key(row.setting.task):
            best.setdefault(row.setting.key(), max(accuracies, default=0.0))
    for row, accuracies in curves:
        target = best.get(row.setting.key(), float("inf")) - drop
        first = next((place for place, found in enumerate(accuracies) if found >= target), len(accuracies))
        if len(accuracies) - first > max(COUNTS):
            yield target, accuracies[first + 1 :]


def found_by(touched: Sequence[Touch], count: int) -> tuple[int, int]:
    """Returns how many false touches the mean of the next `count` points finds, and how many others it refuses."""
    refused = [(target, later) for target, later in touched if fmean(later[:count]) < target]
    false = sum(median(later) < target for target, later in refused)
    return false, len(refused) - false


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drop", type=float, default=0.5, help="points below the baseline's best")
    parser.add_argument("--profiles", nargs="*", type=Path, help="files; by default the shipped rows and the grids")
    options = parser.parse_args()
    paths = options.profiles or sorted(GRIDS.glob("*.jsonl.gz"))
    rows = [] if options.profiles else list(shipped_measurements())
    rows += [row for path in paths for row in read_measurements(path)]
    touched = list(touches(rows, options.drop / 100))
    false = sum(median(later) < target for target, later in touched)
    print(f"{len(touched)} touches, {false} of them false")
    for count in COUNTS:
        finds, wrongly = found_by(touched, count)
        print(f"mean of the next {count}: finds {finds} false ones, refuses {wrongly} others")


if __name__ == "__main__":
    main()
