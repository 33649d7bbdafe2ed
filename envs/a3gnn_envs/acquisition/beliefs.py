"""`Beliefs`: normal beliefs about candidates' costs, which measurements update."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from a3gnn_envs.acquisition.world import Floats

#: Variances are kept above this, because rounding may make the variance of an exactly known cost negative.
_LEAST_VARIANCE = 1e-12


class Beliefs:
    """A Gaussian process over the candidates per cost and study, updated by one candidate at a time.

    Args:
        mean: float64, shape (num_studies, 4, K); changed in place.
        covariance: float64, shape (num_studies, 4, K, K); changed in place.

    Attributes:
        mean: Means after all measurements, same shape.
        covariance: Covariances after all measurements, same shape.
    """

    def __init__(self, mean: Floats, covariance: Floats) -> None:
        self.mean, self.covariance = mean, covariance

    @property
    def variance(self) -> Floats:
        """Variances of the true costs, float64, shape (num_studies, 4, K)."""
        return np.maximum(np.diagonal(self.covariance, axis1=2, axis2=3), _LEAST_VARIANCE)

    def measure(
        self, at: NDArray[np.int64], cost: int, candidate: NDArray[np.int64], found: Floats, variance: Floats
    ) -> None:
        """Updates the beliefs with the measured costs `found`.

        Rasmussen and Williams, "Gaussian Processes for Machine Learning", Eqs. 2.25 and 2.26, one row at a time.

        Args:
            at: Studies, each once, int64, shape (n,).
            cost: The measured cost.
            candidate: The measured candidates, int64, shape (n,).
            found: The measured values, float64, shape (n,).
            variance: Variances of the measurements around the truth, > 0, float64, shape (n,).
        """
        before, own = self._own(at, cost, candidate)
        gain = own / (own + variance)
        self._become(at, cost, candidate, before + gain * (found - before), own * (1 - gain))

    def exceed(self, at: NDArray[np.int64], cost: int, candidate: NDArray[np.int64], bound: Floats) -> None:
        """Updates the beliefs with costs above `bound`, all that a trial killed at a limit reveals.

        The new belief is normal, with the mean and the variance of the old one cut off at the bound.
        """
        before, own = self._own(at, cost, candidate)
        deviation = np.sqrt(own)
        z = (bound - before) / deviation
        hazard = _hazard(z)
        left = np.maximum(1 - hazard * (hazard - z), _LEAST_VARIANCE)
        self._become(at, cost, candidate, before + deviation * hazard, own * left)

    def _own(self, at: NDArray[np.int64], cost: int, candidate: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Returns the mean and the variance of one candidate in each study, float64, shape (n,) each."""
        variance = self.covariance[at, cost, candidate, candidate]
        return self.mean[at, cost, candidate], np.maximum(variance, _LEAST_VARIANCE)

    def _become(
        self, at: NDArray[np.int64], cost: int, candidate: NDArray[np.int64], mean: Floats, variance: Floats
    ) -> None:
        """Sets mean and variance of one candidate in each study, and updates the others by their covariance."""
        before, own = self._own(at, cost, candidate)
        share = self.covariance[at, cost, candidate] / own[:, None]
        self.mean[at, cost] += share * (mean - before)[:, None]
        self.covariance[at, cost] -= (own - variance)[:, None, None] * share[:, :, None] * share[:, None, :]


def _hazard(z: Floats) -> Floats:
    """Returns the normal density at `z` over the probability of more, float64, shape (n,)."""
    return np.asarray(np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-z)))
