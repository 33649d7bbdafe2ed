"""The value of a trial: expected improvement, times the probability of feasibility, per second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from a3gnn.tuning.beliefs.beliefs import Belief

Floats = NDArray[np.float64]

#: Below this standardized gain, the logarithm of the improvement is computed by its asymptotic form (Ament et al.).
_FAR = -1.0
#: Stands for the logarithm of 0, so that sums stay finite.
_NEVER = -1e6


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Returns the logarithm of the expected improvement over `best`, float64, shape of `mean`.

    Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions" (1998), Eq. 15, for
    maximization; computed as in Ament et al., "Unexpected Improvements to Expected Improvement" (2023), Eq. 9, so that
    it has a slope where the improvement itself underflows. A deviation of 0 makes the gain certain.

    Args:
        mean: float64, any shape.
        deviation: Standard deviations, >= 0, float64, same shape.
        best: The value to improve upon.
    """
    gain = np.asarray(mean - best)
    scale = np.maximum(deviation, 1e-12)
    z = np.clip(gain / scale, -1e6, 1e6)
    near = np.maximum(z, _FAR)
    density = np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi)
    by_sum = np.log(density + near * ndtr(near))
    far = -np.minimum(z, _FAR)
    left = np.maximum(1 - np.sqrt(np.pi / 2) * far * erfcx(far / np.sqrt(2)), 1e-300)
    # Where that difference has lost its digits, it is about 1 / z^2.
    left = np.where(far > 1e4, 1 / far**2, left)
    by_tail = -0.5 * far**2 - 0.5 * np.log(2 * np.pi) + np.log(left)
    found = np.log(scale) + np.where(z > _FAR, by_sum, by_tail)
    certain = np.where(gain > 0, np.log(np.maximum(gain, 1e-300)), _NEVER)
    return np.asarray(np.maximum(np.where(deviation > 0, found, certain), _NEVER))


def log_gain(belief: Belief, best: float) -> Floats:
    """Returns the logarithm of the expected improvement times the probability of feasibility, float64, shape (n,).

    Gardner et al., "Bayesian Optimization with Inequality Constraints" (2014), Eq. 5.
    """
    return log_improvement(belief.mean, belief.deviation, best) + np.log(np.maximum(belief.probability, 1e-300))


def log_value(belief: Belief, best: float) -> Floats:
    """Returns the logarithm of the gain per second, by which trials are chosen, float64, shape (n,).

    Snoek, Larochelle and Adams, "Practical Bayesian Optimization of Machine Learning Algorithms" (2012), section 3.2.
    """
    return np.asarray(log_gain(belief, best) - np.log(belief.seconds))
