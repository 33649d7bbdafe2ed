"""`CurveEnds`: what a learning curve will have reached after more mini-batches, with an interval, learned from others.

The logarithm of the gain is linear in the logarithms of the last gains, the scatter, the multiple of the mini-batches
and other features of the known part, by ridge regression over parts of known curves. The interval has the quantiles of
the errors on graphs that a fit has not seen, at gains predicted alike. `benchmarks/curve_fits.py` makes the fits that
ship, and `python -m benchmarks.curve_ends` judges them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from a3gnn._fields import Stored
from a3gnn.errors import UsageError
from a3gnn.learning_curve import LearningCurve
from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.known_curves import expected_accuracy

#: A curve needs so many points to be extrapolated: fewer show no change of its slope.
LEAST_POINTS = 3
#: Added to gains before their logarithm: validation's scatter hides smaller ones. Guess.
SMALLEST = 0.003
#: Scatter is the mean step between so many last points. Guess.
_SCATTER_POINTS = 6


class Extrapolated(NamedTuple):
    """A prediction: median, and bounds of a 90 % interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CurveEnds(Stored):
    """A fit to known curves.

    Attributes:
        coefficients: Of the `gain_features`, n_features.
        intercept: The logarithm of the gain where all features are 0.
        centers: Predicted logarithms of gains, ascending, n_bins.
        errors: The .05, .5 and .95 quantiles of the errors there, on graphs held out: a row of n_bins for each.
    """

    coefficients: tuple[float, ...]
    intercept: float
    centers: tuple[float, ...]
    errors: tuple[tuple[float, ...], ...]

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the fit of the fields from `dataclasses.asdict`."""
        errors = tuple(tuple(quantile) for quantile in fields["errors"])
        return cls(tuple(fields["coefficients"]), fields["intercept"], tuple(fields["centers"]), errors)

    def predict(self, curve: LearningCurve, batches: float, default: LearningCurve | None = None) -> Extrapolated:
        """Returns the best quality that `curve` will have had after `batches` mini-batches.

        Args:
            curve: The known part of a curve.
            batches: More mini-batches than it has.
            default: The default configuration's curve in the same setting, unless `curve` is its own; it makes the
                prediction better.

        Raises:
            UsageError: The curve has too few points, or `batches` too.
        """
        if len(curve.batches) < LEAST_POINTS:
            raise UsageError(f"extrapolation needs a curve of at least {LEAST_POINTS} points, got {len(curve.batches)}")
        if batches <= curve.trained:
            raise UsageError(f"extrapolation must go beyond the curve's {curve.trained} mini-batches, got {batches}")
        gain = float(gain_features(curve, batches, default) @ self.coefficients + self.intercept)
        best = max(curve.val_accuracy)
        low, median, high = (
            min(max(float(np.exp(gain + np.interp(gain, self.centers, error)) - SMALLEST), 0.0), 1.0 - best)
            for error in self.errors
        )
        return Extrapolated(best + median, best + low, best + high)


def gain_features(curve: LearningCurve, batches: float, default: LearningCurve | None) -> Array:
    """Returns what the gain of `curve` up to `batches` depends on, float64, shape (n_features,)."""
    counts, quality = np.array(curve.batches, np.float64), np.array(curve.val_accuracy)
    trained, best, earlier = curve.trained, float(quality.max()), curve.best_within(curve.trained / 4)
    half = curve.best_within(curve.trained / 2)
    half = quality[0] if half is None else half
    late = quality[counts > trained / 2]
    expected = 0.0 if default is None else expected_accuracy(curve, default, batches) - best
    known = [best - half, 0.0 if earlier is None else half - earlier, best - late.mean(), best - quality[-1]]
    return np.array(
        [
            *log_gains(np.array([*known, scatter(curve)])),
            earlier is None,
            np.log2(batches / trained),
            np.log2(trained / counts[quality.argmax()]),
            np.log(1.01 - best),
            np.log(len(counts)),
            np.log(trained),
            0.0 if default is None else log_gains(np.array(expected)),
            default is not None,
        ],
        dtype=np.float64,
    )


def scatter(curve: LearningCurve) -> float:
    """Returns the mean step between the last points of `curve`."""
    return float(np.abs(np.diff(curve.val_accuracy[-_SCATTER_POINTS:])).mean())


def log_gains(gains: Array) -> Array:
    """Returns the logarithms of `gains`, float64; those below 0 count as 0."""
    return np.asarray(np.log(np.maximum(gains, 0.0) + SMALLEST))


@dataclass(frozen=True, slots=True)
class CurveStops:
    """A fit to known curves.

    Attributes:
        coefficients: Of the `stop_features`, and the mean where these are 0, n_features + 1.
        deviation: Standard deviation of the logarithm.
        longest: Largest multiple of the soonest stop that was seen.
    """

    coefficients: tuple[float, ...]
    deviation: float
    longest: float

    def predict(self, curve: LearningCurve) -> float:
        """Returns the mini-batches after which `curve`, which still improves, stops improving with probability .5.

        A curve with too few points is expected to stop as soon as it can.
        """
        from scipy.special import ndtr, ndtri  # a page of a study, and the server, need none of SciPy

        if len(curve.batches) < LEAST_POINTS:
            return curve.soonest_stop()
        mean = float(np.append(stop_features(curve), 1.0) @ self.coefficients)
        later = ndtr(mean / self.deviation)  # the share of such curves that pass the soonest stop
        multiple = float(np.exp(mean - self.deviation * ndtri(later / 2)))
        return curve.soonest_stop() * min(max(multiple, 1.0), self.longest)


def stop_features(curve: LearningCurve) -> Array:
    """Returns the logarithms of the gain over the last half, the scatter and the error left, float64, shape (3,)."""
    best = max(curve.val_accuracy)
    half = curve.best_within(curve.trained / 2)
    gain = best - (curve.val_accuracy[0] if half is None else half)
    return np.log([gain + SMALLEST, scatter(curve) + SMALLEST, 1.01 - best])
