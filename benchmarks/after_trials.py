"""How well the surrogate predicts a graph after some of its trials, and how often its intervals hold.

    python -m benchmarks.after_trials [--grids FILE.jsonl.gz ...] [--trials 0 4 8] [--draws 5]
        [--profiles FILE.jsonl.gz]

Each graph of the profiles with at least twelve rows is held out in turn, or each graph of `--grids`. The surrogate is
fitted to the other graphs, then refitted with the baseline's trial and that many trials of random configurations, as in
a tune. The remaining configurations are judged; accuracy and epochs only where no trial has their learning key, whose
curve would be known otherwise.

Columns, over graphs, each the mean over draws: mean log density of the measured values as if the intervals were those
of normal distributions, with its standard error; share of the values in the 90 % intervals, the median, mean and worst
graph; median error, in logarithms (accuracy: asinh(points)).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.measurement import Measurement, distinct
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.seeding import generator
from a3gnn.setting import setting_key
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.row_source import RowSource
from a3gnn_surrogate.surrogate import Surrogate
from a3gnn_surrogate.training_rows import LEARNED, OUTPUTS
from benchmarks.report import add_profiles, profiles

Floats = NDArray[np.float64]
#: Rows from which a graph of the profiles is held out, and half-width of a 90 % interval in standard deviations.
_MIN_ROWS, _DEVIATIONS = 12, 1.645


def judged(
    corpus: Sequence[Measurement], own: Sequence[Measurement], trials: Sequence[int], draws: int
) -> Iterator[tuple[int, Floats, Floats]]:
    """Yields the number of trials, and errors and half-widths of the others' `OUTPUTS`, (n, n_outputs) each."""
    probes = list(dict.fromkeys(row.setting.hardware for row in own))
    own = sorted(own, key=lambda row: probes.index(row.setting.hardware))  # as in `RowSource`
    graph, key = own[0].setting.graph.fingerprint, setting_key(own[0].setting)
    others = [row for row in corpus if row.setting.graph.fingerprint != graph]
    base = Surrogate(seed=0).fit(others, graph)
    measured = np.concatenate([probed.measured for probed in RowSource(own).settings[key]])
    default = next(i for i, row in enumerate(own) if row.config == TrainConfig().canonical())
    firsts = list({row.config: i for i, row in reversed(list(enumerate(own)))}.values())
    firsts = [i for i in firsts if own[i].config != own[default].config]
    for draw in range(draws):
        order = [default, *generator(draw, "after_trials").permutation(firsts).tolist()]
        for count in trials:
            seen = [own[i] for i in order[: count + 1]]
            configs, keys = {row.config for row in seen}, {row.config.learning_key() for row in seen}
            held = [i for i, row in enumerate(own) if row.config not in configs]
            surrogate = Surrogate(seed=0).fit([*others, *seen], graph, like=base)
            center, widths = surrogate.intervals(as_columns([own[i].config for i in held]), own[0].setting)
            errors = measured[held] - center
            known = np.array([own[i].config.learning_key() in keys for i in held])
            errors[np.ix_(known, LEARNED)] = np.nan
            yield count, errors, widths


def table(found: dict[str, list[tuple[int, Floats, Floats]]]) -> Iterator[str]:
    """Yields the lines of the table."""
    for count in dict.fromkeys(count for cases in found.values() for count, _, _ in cases):
        for j, output in enumerate(OUTPUTS):
            scores = np.array([score for cases in found.values() if (score := _scores(cases, count, j)) is not None])
            if len(scores):
                density, covered, error = scores.T
                spread = density.std(ddof=1) / np.sqrt(len(density)) if len(density) > 1 else np.nan
                shares = f"{np.median(covered):.2f} {covered.mean():.2f} {covered.min():.2f}"
                yield f"{count:3} {output:24} {density.mean():7.3f} ({spread:.3f})  {shares}  {error.mean():.3f}"


def _scores(cases: Sequence[tuple[int, Floats, Floats]], count: int, output: int) -> list[float] | None:
    errors, widths = (
        np.concatenate([case[place][:, output] for case in cases if case[0] == count]) for place in (1, 2)
    )
    errors, widths = errors[np.isfinite(errors)], widths[np.isfinite(errors)]
    if not len(errors):
        return None
    deviations = widths / _DEVIATIONS
    density = -np.log(deviations) - (errors / deviations) ** 2 / 2 - np.log(2 * np.pi) / 2
    return [float(density.mean()), float((np.abs(errors) <= widths).mean()), float(np.median(np.abs(errors)))]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--grids", type=Path, nargs="+", help="files of measured grids, in place of the profiles' graphs"
    )
    parser.add_argument("--trials", type=int, nargs="+", default=[0, 4, 8], help="trials besides the baseline's")
    parser.add_argument("--draws", type=int, default=5, help="random choices of the trials")
    add_profiles(parser)
    options = parser.parse_args()
    corpus = [row for row in distinct(profiles(options)) if row.metrics is not None]
    graphs: dict[str, list[Measurement]] = {}
    for row in corpus if not options.grids else (row for path in options.grids for row in read_measurements(path)):
        if row.metrics is not None:
            graphs.setdefault(row.setting.graph.name, []).append(row)
    found = {
        name: list(judged(corpus, own, options.trials, options.draws))
        for name, own in graphs.items()
        if len(own) >= _MIN_ROWS
    }
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
