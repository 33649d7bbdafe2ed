"""Fits the kernel's length scales over the knobs (`a3gnn_surrogate.features.SHARED_SCALES`) to the shipped profiles.

    python -m benchmarks.length_scales [--profiles FILE.jsonl.gz]

The errors are those of predictions that did not see a row's graph. The scales maximize the log density of the errors of
a setting around their level by the Student-t process (Shah, Wilson and Ghahramani, 2014), summed over outputs and
settings, with a log-normal prior around 2. Variances follow from the scales by the method of moments, as in a fit.

Prints the scales. Then the log density per output and setting of graphs held out of the fit, less that with scales of
2: with a scale per group of inputs, with one scale, and with a Matern-5/2 kernel; and standard errors over settings.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln

from a3gnn_surrogate import residual
from a3gnn_surrogate.corrections import one_per_curve
from a3gnn_surrogate.features import LENGTH_SCALES, POINT_NAMES, SHARED_SCALES
from a3gnn_surrogate.local import PRIOR_ROWS, rbf_kernel
from a3gnn_surrogate.residual import group_folds
from a3gnn_surrogate.rows import OUTPUTS, RELEVANT, RowSource
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.report import add_profiles, profiles

Floats = NDArray[np.float64]
Kernel = Callable[[Floats, Floats], Floats]
#: Standard deviation and center of the prior of a scale's logarithm. The center was the scale of all inputs before.
_PRIOR_DEVIATION, _CENTER = 1.0, 2.0
_SHARE = np.array([next(i for i, (names, _) in enumerate(SHARED_SCALES) if name in names) for name in POINT_NAMES])


class Errors(NamedTuple):
    """Held-out errors of one output, in rows of `settings` at `points`, which are in the knobs' units."""

    output: int
    errors: Floats
    points: Floats
    settings: NDArray[np.str_]
    graphs: NDArray[np.str_]

    def take(self, rows: NDArray[np.bool_]) -> Errors:
        """Returns only `rows`."""
        return Errors(self.output, *(part[rows] for part in self[1:]))


def held_out(source: RowSource, surrogate: Surrogate) -> list[Errors]:
    """Returns the errors of all outputs that were measured, each graph held out."""
    found = []
    for output in range(len(OUTPUTS)):
        rows = source.rows().take(np.isfinite(source.rows().measured[:, output]))
        if not len(rows):
            continue
        learner = copy.deepcopy(surrogate.residual_models_[output].learner)
        errors = residual.held_out_errors(source, output, np.ones(len(rows)), learner, surrogate.seed)
        for setting in np.unique(rows.settings):
            own, every = np.flatnonzero(rows.settings == setting), np.tile(errors[:, None], len(OUTPUTS))
            errors[own] = one_per_curve(rows.points[own], every[own])[:, output]
        one = Errors(output, errors, rows.points * LENGTH_SCALES, rows.settings, rows.graphs)
        found.append(one.take(np.isfinite(errors)))
    return found


def densities(fitted: Errors, judged: Errors, scales: Floats, kernel: Kernel = rbf_kernel) -> Floats:
    """Returns the log density of the errors of each setting of `judged`, with the variances of `fitted`."""
    relevant = RELEVANT[fitted.output]
    prior = residual.prior_model(OUTPUTS[fitted.output], 0.9).variances
    points, at = ((one.points / scales)[:, relevant] for one in (fitted, judged))
    variances = residual.variance_components(fitted.errors, points, fitted.settings, prior)
    found = []
    for key in np.unique(judged.settings):
        own = judged.settings == key
        errors, count = judged.errors[own], int(own.sum())
        within = variances.within_setting * kernel(at[own], at[own]) + variances.noise * np.eye(count)
        solved = np.linalg.solve(within, np.stack([errors, np.ones(count)], axis=1))
        precision, free = solved[:, 1].sum(), count - 1
        level = solved[:, 0].sum() / precision
        distance = max(errors @ solved[:, 0] - level**2 * precision, 0.0)
        shape = gammaln((PRIOR_ROWS + free) / 2) - gammaln(PRIOR_ROWS / 2) - free / 2 * np.log(PRIOR_ROWS * np.pi)
        volume = np.linalg.slogdet(within)[1] + np.log(precision)
        around = shape - volume / 2 - (PRIOR_ROWS + free) / 2 * np.log1p(distance / PRIOR_ROWS)
        spread = variances.between_settings + 1 / precision
        found.append(around - level**2 / (2 * spread) - np.log(2 * np.pi * spread) / 2)
    return np.array(found)


def fit(every: Sequence[Errors], shared: bool = False, kernel: Kernel = rbf_kernel) -> Floats:
    """Returns the length scale of each input, float64, (n_points,); one for all if `shared`."""

    def scales(logs: Floats) -> Floats:
        return np.asarray(_CENTER * np.exp(logs[np.zeros_like(_SHARE) if shared else _SHARE]))

    def loss(logs: Floats) -> float:
        evidence = sum(densities(one, one, scales(logs), kernel).sum() for one in every)
        return float(logs @ logs / (2 * _PRIOR_DEVIATION**2) - evidence)

    return scales(minimize(loss, np.zeros(1 if shared else len(SHARED_SCALES)), method="L-BFGS-B").x)


def matern(left: Floats, right: Floats) -> Floats:
    """Returns the Matern-5/2 kernel."""
    distance = np.sqrt(5 * ((left[:, None] - right) ** 2).sum(axis=2))
    return np.asarray((1 + distance + distance**2 / 3) * np.exp(-distance))


def main() -> None:
    """Prints the scales and what they gain on held-out graphs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_profiles(parser)
    rows = profiles(parser.parse_args())
    every = held_out(RowSource(rows), Surrogate(seed=0).fit(rows, target=""))
    found = fit(every)
    for names, _ in SHARED_SCALES:
        print(f"{found[POINT_NAMES.index(names[0])]:6.2f} {', '.join(names)}")
    guess, gains = np.full(len(POINT_NAMES), _CENTER), dict[str, list[Floats]]()
    for held in group_folds(np.unique(every[0].graphs), 0):
        names = np.unique(every[0].graphs)[held]
        kept = [one.take(~np.isin(one.graphs, names)) for one in every]
        own = [one.take(np.isin(one.graphs, names)) for one in every]
        tried = {"per group": (fit(kept), rbf_kernel), "one scale": (fit(kept, shared=True), rbf_kernel)}
        tried |= {"Matern-5/2, per group": (fit(kept, kernel=matern), matern), "Matern-5/2": (guess, matern)}
        for name, (scales, kernel) in tried.items():
            for fitted, judged in zip(kept, own, strict=True):
                more = densities(fitted, judged, scales, kernel) - densities(fitted, judged, guess)
                gains.setdefault(name, []).append(more)
    for name, parts in gains.items():
        more = np.concatenate(parts)
        print(f"{name:24}{more.mean():+.3f} ({more.std(ddof=1) / np.sqrt(len(more)):.3f})")


if __name__ == "__main__":
    main()
