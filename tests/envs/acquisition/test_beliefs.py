from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from a3gnn_envs.acquisition.beliefs import Beliefs
from a3gnn_envs.acquisition.world import MEMORY, NUM_COSTS, SPEED
from tests.envs.acquisition.worlds import rbf

COUNT = 5


@pytest.fixture
def beliefs() -> Beliefs:
    """Of two studies, with other means."""
    points = np.random.default_rng(0).standard_normal((COUNT, 2))
    covariance = np.tile(0.3 + rbf(points, points), (2, NUM_COSTS, 1, 1))
    mean = np.random.default_rng(1).standard_normal((2, NUM_COSTS, COUNT))
    return Beliefs(mean, covariance)


def test_one_by_one_is_what_all_at_once_is(beliefs: Beliefs) -> None:
    """The textbook's posterior, from the definition, against three updates; the other study keeps its beliefs."""
    before, covariance = beliefs.mean.copy(), beliefs.covariance[1, SPEED].copy()
    rows, found, noise = np.array([3, 0, 1]), np.array([0.4, -1.2, 0.9]), np.array([0.1, 0.02, 0.5])
    for row, value, variance in zip(rows, found, noise, strict=True):
        beliefs.measure(np.array([1]), SPEED, np.array([row]), np.array([value]), np.array([variance]))
    gain = covariance[:, rows] @ np.linalg.inv(covariance[np.ix_(rows, rows)] + np.diag(noise))
    np.testing.assert_allclose(beliefs.mean[1, SPEED], before[1, SPEED] + gain @ (found - before[1, SPEED, rows]))
    np.testing.assert_allclose(beliefs.covariance[1, SPEED], covariance - gain @ covariance[rows], atol=1e-12)
    np.testing.assert_array_equal(beliefs.mean[0], before[0])
    np.testing.assert_array_equal(beliefs.mean[1, MEMORY], before[1, MEMORY])


@pytest.mark.parametrize("above", [-2.0, 0.0, 3.0])
def test_what_exceeds_a_bound_is_cut_off_there(beliefs: Beliefs, above: float) -> None:
    mean, deviation = beliefs.mean[0, MEMORY, 2], np.sqrt(beliefs.variance[0, MEMORY, 2])
    bound = mean + above * deviation
    before, share = beliefs.mean.copy(), beliefs.covariance[0, MEMORY, 2] / deviation**2
    beliefs.exceed(np.array([0]), MEMORY, np.array([2]), np.array([bound]))
    expected = stats.truncnorm(above, np.inf, loc=mean, scale=deviation)
    assert beliefs.mean[0, MEMORY, 2] == pytest.approx(expected.mean())
    assert beliefs.variance[0, MEMORY, 2] == pytest.approx(expected.var(), rel=1e-6)
    shift = expected.mean() - mean
    np.testing.assert_allclose(beliefs.mean[0, MEMORY], before[0, MEMORY] + share * shift)
    np.testing.assert_array_equal(beliefs.mean[1], before[1])


def test_what_is_known_exactly_stays_known(beliefs: Beliefs) -> None:
    at, candidate, exact = np.array([0, 1]), np.array([4, 4]), np.array([1e-12, 1e-12])
    for _ in range(3):
        beliefs.measure(at, SPEED, candidate, np.array([2.0, 3.0]), exact)
    np.testing.assert_allclose(beliefs.mean[:, SPEED, 4], [2.0, 3.0], atol=1e-6)
    assert (beliefs.variance > 0).all()
    assert np.isfinite(beliefs.mean).all()
