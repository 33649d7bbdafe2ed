"""How well the end of a learning curve is predicted from its first part, on graphs that the prediction has not seen.

    python -m benchmarks.curve_ends [--profiles FILE.jsonl.gz] [--grids FILE.jsonl.gz ...] [--share 0.25]

The curves are those of the profiles and of the measured grids, one per learning key; each graph is held out in turn.
From the points up to the share of a curve's mini-batches its best validation accuracy at the end is predicted.

Then curves are given up at the first of their points, from `--points` on, at which the predicted interval is below the
target, the baseline's best accuracy less a point: how many that miss the target, what share of their mini-batches that
saves, and how many that reach it.

Columns: median error in points, and mean error; share of the 90 % intervals that have the true value, and their mean
width in points. Each is the mean over graphs, with the standard error. Then the errors of the prediction less those of
each other rule, the medians' means over graphs.

With `--rules` it prints what curves gain that are trained on after they have stopped improving, for rules that ask for
more or fewer mini-batches without a better point (`a3gnn.learning_curve`).

With `--stops` it judges when a curve is expected to stop improving (`a3gnn_surrogate.curve_ends`), on parts of curves
of graphs held out in six groups: the share of curves that stop before that (Kaplan and Meier, 1958, because most curves
end before they stop), best .5; and for those that stop the factor by which it is off, the median over parts.

With `--late` it judges when curves reach a target that they have missed: the baseline's best accuracy after the same
share of its mini-batches, less a point. It does so for the curves of the profiles, then for those of the grids, and
prints the factor of `a3gnn_surrogate.known_curves.LATER` by maximum likelihood for both.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import norm

from a3gnn.learning_curve import LEAST_POINTS as TWENTY
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn_surrogate.curve_ends import LEAST_POINTS, CurveEnds, Extrapolated
from a3gnn_surrogate.known_curves import LATER, expected_accuracy, expected_batches
from benchmarks.curve_fits import Sample, fitted_ends, fitted_stops, parts, samples
from benchmarks.report import add_profiles, profiles

Floats = NDArray[np.float64]
GRIDS = Path(__file__).parent / "results" / "grids"
#: Exponents of a power law.
_EXPONENTS = np.arange(0.05, 2.01, 0.05)
#: Accuracy that a curve may lose against the baseline's best. Curves of the profiles ended at such targets.
_DROP = 0.01
#: Points of a curve are at least this share of its mini-batches apart, so no stop is known more exactly.
_STEP = 1 / 16
#: Shares of a curve's mini-batches after which a target is missed.
_SHARES = (1 / 8, 1 / 4, 1 / 2)
#: Groups of graphs that are held out in turn to judge stops.
_GROUPS = 6
#: No curve counts as expected later, in mini-batches at the miss: some have learned nothing yet.
_MOST = 20.0
#: The rule that is judged.
_OURS = "by other curves and the baseline's"


class Case(NamedTuple):
    """A curve to predict.

    Attributes:
        known: Its first part.
        sample: The whole curve.
    """

    known: LearningCurve
    sample: Sample

    @property
    def gain(self) -> float:
        """What it gained after the first part."""
        return max(self.sample.curve.val_accuracy) - max(self.known.val_accuracy)


def begun(curve: LearningCurve, share: float) -> LearningCurve:
    """Returns the points of `curve` within `share` of its mini-batches."""
    return curve.first(sum(batches <= share * curve.trained * (1 + 1e-9) for batches in curve.batches))


def cases(curves: Iterable[Sample], share: float) -> list[Case]:
    """Returns the curves with enough points within `share` of their mini-batches."""
    found = (Case(begun(sample.curve, share), sample) for sample in curves)
    return [case for case in found if LEAST_POINTS <= len(case.known.batches) < len(case.sample.curve.batches)]


def power_law(curve: LearningCurve, batches: float) -> float:
    """Returns the quality after `batches` of the law a - b n^-c with the least squares to the best so far."""
    counts, best = np.array(curve.batches, np.float64), np.array(curve.running_best())
    least, found = np.inf, float(best[-1])
    for exponent in _EXPONENTS:
        columns = np.stack([np.ones(len(counts)), -((counts / counts[-1]) ** -exponent)], axis=1)
        solution = np.linalg.lstsq(columns, best, rcond=None)[0]
        error = float(np.square(columns @ solution - best).sum())
        if error < least and solution[1] >= 0:
            least = error
            found = float(solution[0] - solution[1] * (batches / counts[-1]) ** -exponent)
    return float(np.clip(found, best[-1], 1.0))


def as_baseline(case: Case) -> float:
    """Returns the quality if the curve goes on as the baseline's does, and stays as it is without one."""
    if case.sample.default is None:
        return max(case.known.val_accuracy)
    return expected_accuracy(case.known, case.sample.default, case.sample.curve.trained)


def judged(curves: Sequence[Sample], share: float) -> dict[str, list[tuple[Floats, Floats, Floats]]]:
    """Returns per rule, for each graph: absolute errors, whether intervals hold, and their widths; in points.

    Rules without intervals have empty arrays for the last two.
    """
    every = cases(curves, share)
    graphs = list(dict.fromkeys(case.sample.graph for case in every))
    gains = {graph: np.mean([one.gain for one in every if one.sample.graph == graph]) for graph in graphs}
    found: dict[str, list[tuple[Floats, Floats, Floats]]] = {}
    for graph in graphs:
        fit = fitted_ends(sample for sample in curves if sample.graph != graph)
        own = [case for case in every if case.sample.graph == graph]
        mean_gain = float(np.mean([gains[other] for other in graphs if other != graph]))
        rules: Mapping[str, Callable[[Case], float | Extrapolated]] = {
            "stays as it is": lambda case: max(case.known.val_accuracy),
            "gains as others do": lambda case, gain=mean_gain: max(case.known.val_accuracy) + gain,  # type: ignore[misc]
            "power law": lambda case: power_law(case.known, case.sample.curve.trained),
            "as the baseline": as_baseline,
            "by other curves": lambda case, fit=fit: fit.predict(case.known, case.sample.curve.trained),  # type: ignore[misc]
            _OURS: lambda case, fit=fit: fit.predict(case.known, case.sample.curve.trained, case.sample.default),  # type: ignore[misc]
        }
        for rule, predict in rules.items():
            found.setdefault(rule, []).append(_errors(own, predict))
    return found


def _errors(own: Sequence[Case], predict: Callable[[Case], float | Extrapolated]) -> tuple[Floats, Floats, Floats]:
    errors, held, widths = [], [], []
    for case in own:
        true, found = max(case.sample.curve.val_accuracy), predict(case)
        if isinstance(found, Extrapolated):
            held.append(found.low - 1e-9 <= true <= found.high + 1e-9)
            widths.append(100 * (found.high - found.low))
            found = found.median
        errors.append(100 * abs(found - true))
    return np.array(errors), np.array(held, np.float64), np.array(widths)


def given_up(curves: Sequence[Sample], points: int) -> str:
    """Returns how many curves are given up that miss or reach their target, and what share of the training is saved.

    A curve that ends at its target has reached it. Curves that ended as lost or slower are left out.
    """
    wanted = (CurveEnd.BUDGET, CurveEnd.PLATEAU, CurveEnd.TARGET)
    fits: dict[str, CurveEnds] = {}
    saved, false, reaching = [], 0, 0
    for sample in curves:
        curve, default = sample.curve, sample.default
        if default is None or curve.ended not in wanted or len(curve.batches) < points:
            continue
        if sample.graph not in fits:
            fits[sample.graph] = fitted_ends(other for other in curves if other.graph != sample.graph)
        target = max(default.val_accuracy) - _DROP
        reached = curve.trained if curve.ended is CurveEnd.TARGET else curve.first_reaching(target)
        parts_of = (curve.first(count) for count in range(points, len(curve.batches)))
        going = (one for one in parts_of if reached is None or one.trained < reached)
        fit = fits[sample.graph]
        cut = next((one.trained for one in going if fit.predict(one, curve.trained, default).high < target), None)
        if reached is None:
            saved.append(0.0 if cut is None else 1 - cut / curve.trained)
        else:
            reaching, false = reaching + 1, false + (cut is not None)
    return (
        f"from {points} points on: of {len(saved)} curves that miss the target {np.count_nonzero(saved)} are given up, "
        f"which saves {np.mean(saved):.0%} of their mini-batches; of {reaching} that reach it, {false}"
    )


def later_gains(curves: Iterable[Sample], batches: int) -> list[float]:
    """Returns what curves gained, in points, that were trained on after they were no better over so many mini-batches.

    They were no better over their last third either, had twenty points, and were trained on by a fifth at least.
    """
    found = []
    for curve in (sample.curve for sample in curves):
        parts_of = (curve.first(points) for points in range(TWENTY, len(curve.batches) + 1))
        stale = (one for one in parts_of if one.improved_at() <= min(one.trained * 2 / 3, one.trained - batches))
        stop = next(stale, None)
        if stop is not None and curve.trained >= 1.2 * stop.trained:
            found.append(100 * (max(curve.val_accuracy) - max(stop.val_accuracy)))
    return found


class Stop(NamedTuple):
    """When a curve stopped improving, and when it was predicted to.

    Attributes:
        late: Logarithm of the mini-batches over those of the soonest stop, over the predicted logarithm.
        error: Logarithm of the mini-batches over the predicted ones.
        stopped: Whether it stopped then, or was trained so far only.
        weight: Of the part.
    """

    late: float
    error: float
    stopped: bool
    weight: float


def stops(curves: Sequence[Sample]) -> dict[str, list[Stop]]:
    """Returns when curves stop, and the prediction by each rule, for parts of curves of graphs held out."""
    found: dict[str, list[Stop]] = {}
    every = parts(curves)
    graphs = list(dict.fromkeys(part.graph for part in every))
    for group in range(_GROUPS):
        held = set(graphs[group::_GROUPS])
        fit = fitted_stops(part for part in every if part.graph not in held)
        for part in (one for one in every if one.graph in held):
            soonest = part.curve.soonest_stop()
            rules = {f"{times:g} times the mini-batches": times * part.curve.trained for times in (2.0, 2.5)}
            rules |= {f"{times:g} times the soonest stop": times * soonest for times in (1.5, 2.0)}
            rules["by other curves"] = fit.predict(part.curve)
            for rule, at in rules.items():
                predicted, true = (np.log(max(value / soonest, 1 + _STEP)) for value in (at, part.trained))
                stop = Stop(true / predicted, true - predicted, part.stopped, part.weight)
                found.setdefault(rule, []).append(stop)
    return found


def stopped_before(found: Sequence[Stop]) -> float:
    """Returns the share of curves that stop before the predicted mini-batches, by Kaplan and Meier."""
    late, weights = (np.array([one[i] for one in found]) for i in (0, 3))
    going = 1.0
    for one in sorted((one for one in found if one.stopped and one.late <= 1), key=lambda one: one.late):
        going *= 1 - one.weight / weights[late >= one.late].sum()
    return 1 - going


class Miss(NamedTuple):
    """A curve that has missed a target.

    Attributes:
        ratio: Mini-batches to the target over those at the miss; those of the whole curve if it never reaches it.
        reached: Whether it reaches the target.
        expected: The ratio if it goes on as the baseline's does.
        graph: The graph's fingerprint.
    """

    ratio: float
    reached: bool
    expected: float
    graph: str


def misses(curves: Iterable[Sample]) -> list[Miss]:
    """Returns the parts of curves that are below what the baseline's reaches in the same share of its mini-batches."""
    found = []
    for sample in (one for one in curves if one.default is not None):
        for share in _SHARES:
            part, default = begun(sample.curve, share), begun(sample.default, share)
            if min(len(part.batches), len(default.batches)) < 2:
                continue
            target = max(default.val_accuracy) - _DROP
            if max(part.val_accuracy) < target:
                at = sample.curve.first_reaching(target)
                ratio = (sample.curve.trained if at is None else at) / part.trained
                expected = expected_batches(part, default, target) / part.trained
                found.append(Miss(ratio, at is not None, expected, sample.graph))
    return found


def _weights(found: Sequence[Miss]) -> Floats:
    """Returns the weights of curves: equal for those of a graph; a graph's is the square root of its curves."""
    graphs = [one.graph for one in found]
    return np.array([graphs.count(graph) ** -0.5 for graph in graphs])


def factor(found: Sequence[Miss]) -> float:
    """Returns how much later than expected curves reach their target: the median of a log-normal factor."""
    logs = np.log([one.ratio / min(one.expected, _MOST) for one in found])
    reached, weights = np.array([one.reached for one in found]), _weights(found)

    def loss(values: Floats) -> float:
        z = (logs - values[0]) / np.exp(values[1])
        return -float((weights * np.where(reached, norm.logpdf(z) - values[1], norm.logsf(z))).sum())

    return float(np.exp(minimize(loss, np.zeros(2), method="Nelder-Mead").x[0]))


def late(found: Sequence[Miss]) -> dict[str, list[Stop]]:
    """Returns when curves reach their targets, and the prediction by each rule."""
    rules: Mapping[str, Callable[[float], float]] = {
        "as the baseline": lambda expected: expected,
        "at least 1.5 times the mini-batches": lambda expected: max(expected, 1.5),
        f"{LATER:g} times as late as the baseline": lambda expected: LATER * expected,
    }
    judged_by: dict[str, list[Stop]] = {rule: [] for rule in rules}
    for one, weight in zip(found, _weights(found), strict=True):
        for rule, predict in rules.items():
            predicted = np.log(predict(min(one.expected, _MOST)))
            error = float(np.log(one.ratio) - predicted)
            judged_by[rule].append(Stop(np.log(one.ratio) / predicted, error, one.reached, float(weight)))
    return judged_by


def late_lines(found: Sequence[Miss]) -> list[str]:
    """Returns the table of `late`."""
    lines = ["| rule | curves that reach the target before |", "|---|---:|"]
    return lines + [f"| {rule} | {stopped_before(of_parts):.2f} |" for rule, of_parts in late(found).items()]


def stop_lines(found: Mapping[str, Sequence[Stop]]) -> list[str]:
    """Returns the table of `stops`."""
    lines = ["| rule | curves that stop before | off by a factor of |", "|---|---:|---:|"]
    for rule, of_parts in found.items():
        off = np.median([abs(one.error) for one in of_parts if one.stopped])
        lines.append(f"| {rule} | {stopped_before(of_parts):.2f} | {np.exp(off):.2f} |")
    return lines


def _with_error(values: Sequence[float], digits: int = 2) -> str:
    error = np.std(values, ddof=1) / len(values) ** 0.5
    return f"{np.mean(values):.{digits}f} ({error:.{digits}f})"


def report(found: Mapping[str, Sequence[tuple[Floats, Floats, Floats]]]) -> list[str]:
    """Returns the lines of the tables."""
    lines = ["| rule | median error | mean error | in the interval | width |", "|---|---:|---:|---:|---:|"]
    for rule, of_graphs in found.items():
        columns = [
            _with_error([float(function(errors)) for errors, _, _ in of_graphs]) for function in (np.median, np.mean)
        ]
        if len(of_graphs[0][1]):
            columns += [_with_error([float(part[i].mean()) for part in of_graphs]) for i in (1, 2)]
        lines.append(f"| {rule} | " + " | ".join([*columns, *["-"] * (4 - len(columns))]) + " |")
    medians = {rule: np.array([np.median(errors) for errors, _, _ in of_graphs]) for rule, of_graphs in found.items()}
    lines += [
        "",
        *(f"less {rule}: {_with_error(medians[_OURS] - own)}" for rule, own in medians.items() if rule != _OURS),
    ]
    return lines


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_profiles(parser)
    parser.add_argument(
        "--grids", type=Path, nargs="*", default=sorted(GRIDS.glob("*.jsonl.gz")), help="files of measured grids"
    )
    parser.add_argument("--share", type=float, default=0.25, help="known share of a curve's mini-batches")
    parser.add_argument("--points", type=int, default=6, help="points before a curve is given up")
    parser.add_argument("--rules", action="store_true", help="judge rules that end a training")
    parser.add_argument("--stops", action="store_true", help="judge when curves stop improving")
    parser.add_argument("--late", action="store_true", help="judge when curves reach targets that they missed")
    options = parser.parse_args()
    shipped, measured = profiles(options), [row for path in options.grids for row in read_measurements(path)]
    if options.late:
        for name, rows in (("profiles", shipped), ("grids", measured)):
            found = misses(samples(rows))
            graphs = len({one.graph for one in found})
            print(f"{name}: {len(found)} parts of {graphs} graphs, factor {factor(found):.2f}\n")
            print("\n".join(late_lines(found)), "\n")
        return
    curves = samples([*shipped, *measured])
    if options.rules:
        print("| mini-batches without a better point | curves trained on | gain later, points |\n|---:|---:|---:|")
        for batches in (0, 50, 100, 150, 200, 300, 400):
            gains = later_gains(curves, batches)
            print(f"| {batches} | {len(gains)} | {_with_error(gains)} |")
        return
    if options.stops:
        print("\n".join(stop_lines(stops(curves))))
        return
    known = cases(curves, options.share)
    print(f"{len(known)} curves of {len({case.sample.graph for case in known})} graphs, {options.share:.0%} known\n")
    print("\n".join(report(judged(curves, options.share))))
    print(f"\n{given_up(curves, options.points)}")


if __name__ == "__main__":
    main()
