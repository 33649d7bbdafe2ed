"""What is expected of predictions that are normally distributed; a deviation of 0 makes them certain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Returns how much is expected to be gained over `best`, losses counted as 0, float64, shape (n,).

    Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions" (1998), Eq. 15, for
    what is maximised.

    Args:
        mean: float64, shape (n,).
        deviation: Standard deviations, >= 0, float64, shape (n,).
        best: What is to be improved upon.
    """
    gain = mean - best
    uncertain = deviation > 0
    z = gain / np.where(uncertain, deviation, 1.0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    expected = gain * ndtr(z) + deviation * density
    return np.asarray(np.maximum(np.where(uncertain, expected, gain), 0.0))


def probability_at_most(bound: float, mean: Floats, deviation: Floats) -> Floats:
    """Returns the probability of values up to `bound`, which counts, float64, shape (n,).

    Args:
        bound: The largest value that is allowed.
        mean: float64, shape (n,).
        deviation: Standard deviations, >= 0, float64, shape (n,).
    """
    uncertain = deviation > 0
    z = (bound - mean) / np.where(uncertain, deviation, 1.0)
    return np.asarray(np.where(uncertain, ndtr(z), mean <= bound), dtype=np.float64)
