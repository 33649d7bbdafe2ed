"""Expectations over normally distributed predictions; a deviation of 0 makes them certain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]


def expected_improvement(mean: Floats, deviation: Floats, best: float | Floats) -> Floats:
    """Returns the expected improvement over `best`, losses counted as 0, float64, shape of `mean`.

    Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions" (1998), Eq. 15, for
    maximization.

    Args:
        mean: float64, any shape.
        deviation: Standard deviations, >= 0, float64, same shape.
        best: The value to improve upon; a number, or an array that broadcasts.
    """
    gain = mean - best
    uncertain = deviation > 0
    z = gain / np.where(uncertain, deviation, 1.0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    expected = gain * ndtr(z) + deviation * density
    return np.asarray(np.maximum(np.where(uncertain, expected, gain), 0.0))


def probability_at_most(bound: float | Floats, mean: Floats, deviation: Floats) -> Floats:
    """Returns the probability of values up to and including `bound`, float64, shape of `mean`.

    Args:
        bound: The largest allowed value; a number, or an array that broadcasts.
        mean: float64, any shape.
        deviation: Standard deviations, >= 0, float64, same shape.
    """
    uncertain = deviation > 0
    z = (bound - mean) / np.where(uncertain, deviation, 1.0)
    return np.asarray(np.where(uncertain, ndtr(z), mean <= bound), dtype=np.float64)


def gain_per_second(
    mean: Floats, deviation: Floats, best: float | Floats, probability: Floats, seconds: Floats
) -> Floats:
    """Returns the expected gain per second of each trial, by which trials are chosen.

    It is the expected improvement times the probability of feasibility (Gardner et al., "Bayesian Optimization with
    Inequality Constraints", 2014, Eq. 5), per second (Snoek, Larochelle and Adams, "Practical Bayesian Optimization of
    Machine Learning Algorithms", 2012, section 3.2).

    Args:
        mean: Means of the maximized value, float64, any shape.
        deviation: Standard deviations of the true value, without the noise of a measurement, float64, same shape.
        best: The value to improve upon, also without that noise.
        probability: Probability of keeping the limits, in [0, 1], float64, same shape.
        seconds: Predicted duration of the trial, > 0, float64, same shape.
    """
    return np.asarray(expected_improvement(mean, deviation, best) * probability / seconds)
