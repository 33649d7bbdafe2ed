"""Scores the surrogate and its baselines on the shipped profiles: random rows, unseen graphs, default measured.

Also what calibration alone does for the equations, each graph held out in turn.

    python -m benchmarks.surrogate_card [--profiles FILE.jsonl.gz] [--rows-of-each 3 6 9 12]

--rows-of-each says what more rows are worth instead: the surrogate is fitted to the default's rows and the first so
many others of each setting, and predicts all others of graphs held out of the fit, with their default measured. Errors
are root mean squares over the rows of a graph, means over graphs; in brackets the difference from the most rows, with
its standard error over graphs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.measurement import METRICS, Measurement
from a3gnn_surrogate.evaluate import SPLITS, HeldOut, evaluate, held_out
from a3gnn_surrogate.physics.stage_seconds import Calibrations
from a3gnn_surrogate.rows import THROUGHPUT, RowSource, by_setting
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.report import add_profiles, profiles

#: Columns of `METRICS` that are compared, with their heads.
_COMPARED = {
    "throughput_epochs_per_s": "throughput, %",
    "peak_host_bytes": "memory above idle, %",
    "val_accuracy": "accuracy, points",
    "seconds_to_accuracy": "seconds to accuracy, %",
}


class FirstRows(Surrogate):
    """A surrogate that is fitted to the default's rows and the first `rows_of_each` others of each setting alone."""

    def __init__(self, rows_of_each: int, **options: Any) -> None:
        super().__init__(**options)
        self.rows_of_each = rows_of_each

    def fit(self, measurements: Sequence[Measurement], *args: Any, **options: Any) -> Self:
        """Fits to fewer rows; see `Surrogate.fit`."""
        kept = list[Measurement]()
        for group in by_setting(measurements).values():
            default = [row for row in group if row.config == TrainConfig()]
            kept += default + [row for row in group if row.config != TrainConfig()][: self.rows_of_each]
        return super().fit(kept, *args, **options)


def errors_by_graph(found: HeldOut) -> NDArray[np.float64]:
    """Returns the root mean square errors of each graph's rows, float64, shape (n_graphs, 4); NaN where unknown.

    Accuracies differ by points, the others by 100 times their logarithm, about percent.
    """
    graphs = np.array([row.setting.graph.fingerprint for row in found.rows])
    idle = np.array([row.setting.hardware.profile.idle_host_bytes for row in found.rows], dtype=np.float64)
    columns = list[NDArray[np.float64]]()
    for name in _COMPARED:
        place = METRICS.index(name)
        truth, guess = found.truth[:, place], found.prediction.mean[:, place]
        if name == "val_accuracy":
            columns.append(100 * (guess - truth))
            continue
        known = idle if name == "peak_host_bytes" else 0.0
        above = np.where(truth > known, truth - known, np.nan)
        columns.append(100 * np.log(np.maximum(guess - known, 1e-9) / above))
    squares = np.stack(columns, axis=1) ** 2
    groups = [squares[graphs == graph] for graph in np.unique(graphs)]
    with np.errstate(invalid="ignore"):  # nothing over nothing
        return np.stack([np.sqrt(np.nansum(one, axis=0) / np.isfinite(one).sum(axis=0)) for one in groups])


def lines(errors: Mapping[int, NDArray[np.float64]]) -> Iterator[str]:
    """Yields a markdown table of the `errors` (n_graphs, 4) by rows of each setting."""
    most = errors[max(errors)]
    yield f"| rows of each setting | {' | '.join(_COMPARED.values())} |"
    yield f"|---:|{'---:|' * len(_COMPARED)}"
    for count, own in sorted(errors.items()):
        off = own - most
        spread = np.nanstd(off, axis=0, ddof=1) / np.sqrt(np.isfinite(off).sum(axis=0))
        cells = (
            f"{mean:.1f}" if own is most else f"{mean:.1f} ({more:+.1f}, {error:.1f})"
            for mean, more, error in zip(np.nanmean(own, axis=0), np.nanmean(off, axis=0), spread, strict=True)
        )
        yield f"| {count} | {' | '.join(cells)} |"


def equations_alone(measurements: Sequence[Measurement]) -> tuple[float, float]:
    """Returns R2 within settings of the logarithm of throughput by the equations, before and after calibration.

    Nothing is added to them: no intercept, no trees. Each graph is held out of the calibration that predicts it.
    """
    source = RowSource(measurements)
    before = after = total = 0.0
    for key, settings in source.settings.items():
        held = frozenset({settings[0].setting.graph.fingerprint})
        plain, calibrated = (source.setting_rows(key, one) for one in (Calibrations(), source.calibrations(held)))
        measured = plain.measured[:, THROUGHPUT]
        before += float((plain.residual(THROUGHPUT) ** 2).sum())
        after += float((calibrated.residual(THROUGHPUT) ** 2).sum())
        total += float(((measured - measured.mean()) ** 2).sum())
    return 1 - before / total, 1 - after / total


def main() -> None:
    """Prints the model card, or the table of --rows-of-each, as markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_profiles(parser)
    parser.add_argument("--rows-of-each", type=int, nargs="+", help="rows of each setting that are fitted to")
    options = parser.parse_args()
    rows = profiles(options)
    if options.rows_of_each:
        if min(options.rows_of_each) < 1 or len({row.setting.graph.fingerprint for row in rows}) < 2:
            parser.error("--rows-of-each needs numbers from 1, and profiles of at least two graphs")
        found = {count: errors_by_graph(held_out(rows, SPLITS[2], FirstRows(count))) for count in options.rows_of_each}
        print("\n".join(lines(found)))
        return
    print(evaluate(rows).to_markdown())
    before, after = equations_alone(rows)
    print(f"Equations alone, throughput, unseen graph: R2 {before:.2f} before calibration, {after:.2f} after")


if __name__ == "__main__":
    main()
