"""How much of the stored gains over the baseline needs another learning rate: the best row with any rate, and without.

    python -m benchmarks.rate_share [FILE.jsonl.gz ...]

Of each graph, task and machine, the baseline's seconds to its target over those of the fastest stored configuration:
of all, and of those with the task's learning rate. 1 where the baseline is the fastest. The last line has geometric
means. By default all profiles and grids are read. The best of many single trials is lucky, on both sides alike.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import geometric_mean

from a3gnn.figures import Figures
from a3gnn.profiling.store.jsonl import read_measurements
from benchmarks.emulated.measured import MeasuredDefault, by_setting

ROOT = Path(__file__).resolve().parents[1]


def best_gains(default: MeasuredDefault) -> tuple[float, float] | None:
    """Returns the best gains of `default`'s rows, with any learning rate and with the task's; None without a target."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for row in default.rows:
        if row.metrics is None or row.metrics.curve is None:
            continue
        reached = Figures.of(row.metrics, row.metrics.curve, default.reference).seconds_to_accuracy
        if reached is not None:
            seconds[row.config.learning_rate_scale == 1.0].append(reached)
    baseline = default.known.seconds
    if baseline is None:
        return None
    kept = min([baseline, *seconds[True]])
    return baseline / min([kept, *seconds[False]]), baseline / kept


def main() -> None:
    """Prints a line per graph, task and machine, and the means."""
    grids = ROOT / "benchmarks" / "results" / "grids"
    files = [Path(name) for name in sys.argv[1:]] or [ROOT / "profiles" / "corpus.jsonl.gz", *grids.rglob("*.gz")]
    gains = []
    for default in by_setting([row for file in files for row in read_measurements(file)]):
        if (found := best_gains(default)) is not None:
            setting = default.rows[0].setting
            print(
                f"{setting.graph.name[:50]:50} {setting.task.model:6} all {found[0]:5.2f}x  own rate {found[1]:5.2f}x"
            )
            gains.append(found)
    means = [geometric_mean(side) for side in zip(*gains, strict=True)]
    print(f"geometric mean of {len(gains)}: all {means[0]:.2f}x, own rate {means[1]:.2f}x")


if __name__ == "__main__":
    main()
