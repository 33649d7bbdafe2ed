"""How well the surrogate predicts a graph after some of its trials, and how often its intervals hold.

    python -m benchmarks.after_trials [--grids FILE.jsonl.gz ...] [--trials 0 4 8] [--draws 5]
        [--profiles FILE.jsonl.gz]

Each graph and task of the profiles with at least twelve rows is held out in turn, or each graph of `--grids`. The
surrogate is fitted to the other graphs, then refitted with the baseline's trial and that many trials of random
configurations, as in a tune. The remaining configurations are judged; accuracy and epochs only where no trial has their
learning key, whose curve would be known otherwise.

Columns, over graphs, each the mean over draws: mean log density of the measured values as if the intervals were those
of normal distributions, with its standard error; share of the values in the 90 % intervals, the median, mean and worst
graph; median error, in logarithms (accuracy: asinh(points)).

The last line of each number of trials is about reaching the baseline's accuracy less a point as soon as the baseline:
Brier score of the probability (`Limits.keeping`), with its standard error; the mean probability; the share that did.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement, distinct
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.seeding import generator
from a3gnn.setting import setting_key
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.rows import LEARNED, OUTPUTS, RowSource
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.emulated.measured import MeasuredDefault
from benchmarks.report import add_profiles, profiles

Floats = NDArray[np.float64]
#: Rows from which a graph of the profiles is held out, and half-width of a 90 % interval in standard deviations.
_MIN_ROWS, _DEVIATIONS = 12, 1.645


class Judged(NamedTuple):
    """What is predicted of a graph's other measurements after some of its trials.

    Attributes:
        trials: Number of trials besides the baseline's.
        errors: Of `OUTPUTS`, float64, shape (n, n_outputs); NaN where nothing is predicted.
        widths: Half-widths of their intervals, same shape.
        probability: Of reaching the target as soon as the baseline, float64, shape (n_new,), for each configuration
            with a new learning key.
        reached: Whether they did, bool, same shape.
    """

    trials: int
    errors: Floats
    widths: Floats
    probability: Floats
    reached: NDArray[np.bool_]


def judged(
    corpus: Sequence[Measurement], own: Sequence[Measurement], trials: Sequence[int], draws: int
) -> Iterator[Judged]:
    """Yields what is predicted of the measurements `own` of one graph, for each draw and number of trials."""
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
            new = [own[i] for i, is_known in zip(held, known.tolist(), strict=True) if not is_known]
            once = list({row.config: row for row in reversed(new)}.values())  # a grid repeats those that reach it
            yield Judged(count, errors, widths, *_reaching(surrogate, MeasuredDefault(own), once))


def _reaching(
    surrogate: Surrogate, default: MeasuredDefault, rows: Sequence[Measurement]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Returns the probability that `rows` reach the target as soon as the baseline, and whether they did."""
    if not rows:
        return np.empty(0), np.empty(0, dtype=np.bool_)
    known, target = default.known, default.reference.target
    configs, seconds = [row.config for row in rows], known.seconds or default.reference.budget_s
    prediction = surrogate.predict(as_columns(configs), default.rows[0].setting, known)
    due = dataclasses.replace(prediction, budget_s=seconds)
    figures = (
        Figures.of(row.metrics, default.curves.get(row.config.learning_key()), default.reference)
        for row in rows
        if row.metrics is not None
    )
    reached = np.array([not one.later_than(seconds) for one in figures], dtype=np.bool_)
    return Limits(least_accuracy=target).keeping(due)["least_accuracy"], reached


def table(found: dict[str, list[Judged]]) -> Iterator[str]:
    """Yields the lines of the table."""
    for count in dict.fromkeys(case.trials for cases in found.values() for case in cases):
        for j, output in enumerate(OUTPUTS):
            scores = np.array([score for cases in found.values() if (score := _scores(cases, count, j)) is not None])
            if len(scores):
                density, covered, error = scores.T
                spread = density.std(ddof=1) / np.sqrt(len(density)) if len(density) > 1 else np.nan
                shares = f"{np.median(covered):.2f} {covered.mean():.2f} {covered.min():.2f}"
                yield f"{count:3} {output:24} {density.mean():7.3f} ({spread:.3f})  {shares}  {error.mean():.3f}"
        scored = [score for cases in found.values() if (score := _targets(cases, count)) is not None]
        if not scored:
            continue
        brier, expected, share = np.array(scored).T
        spread = brier.std(ddof=1) / np.sqrt(len(brier)) if len(brier) > 1 else np.nan
        shares = f"{expected.mean():.2f} {share.mean():.2f}"
        yield f"{count:3} {'target in time':24} {brier.mean():7.3f} ({spread:.3f})  {shares}"


def _targets(cases: Sequence[Judged], count: int) -> tuple[float, float, float] | None:
    """Returns the Brier score, the mean probability and the share of what reached the target in time, or None."""
    probability, reached = (
        np.concatenate([getattr(case, name) for case in cases if case.trials == count])
        for name in ("probability", "reached")
    )
    if not len(reached):
        return None
    return float(((probability - reached) ** 2).mean()), float(probability.mean()), float(reached.mean())


def _scores(cases: Sequence[Judged], count: int, output: int) -> list[float] | None:
    errors, widths = (
        np.concatenate([getattr(case, name)[:, output] for case in cases if case.trials == count])
        for name in ("errors", "widths")
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
    settings: dict[str, list[Measurement]] = {}
    for row in corpus if not options.grids else (row for path in options.grids for row in read_measurements(path)):
        if row.metrics is not None:
            settings.setdefault(setting_key(row.setting), []).append(row)
    found = {
        name: list(judged(corpus, own, options.trials, options.draws))
        for name, own in settings.items()
        if len(own) >= _MIN_ROWS
    }
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
