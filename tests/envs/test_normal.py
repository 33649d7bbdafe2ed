import numpy as np
import pytest
from scipy import integrate, stats

from a3gnn_envs.normal import expected_improvement, probability_at_most

CASES = [(0.0, 1.0, 0.0), (1.3, 0.4, 1.0), (-2.0, 0.7, 0.5), (3.0, 0.05, 1.0), (-0.1, 2.5, 3.0)]


@pytest.mark.parametrize(("mean", "deviation", "best"), CASES)
def test_expected_improvement_is_the_integral_of_the_gains(mean: float, deviation: float, best: float) -> None:
    density = stats.norm(mean, deviation).pdf
    upper = max(best, mean) + 10 * deviation
    gains, _ = integrate.quad(lambda x: (x - best) * density(x), best, upper, points=[max(best, mean)])
    found = expected_improvement(np.array([mean]), np.array([deviation]), best)
    assert found[0] == pytest.approx(gains, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("mean", "deviation", "bound"), CASES)
def test_the_probability_is_the_integral_of_the_density(mean: float, deviation: float, bound: float) -> None:
    density = stats.norm(mean, deviation).pdf
    below, _ = integrate.quad(density, mean - 12 * deviation, bound, points=[min(mean, bound)])
    assert probability_at_most(bound, np.array([mean]), np.array([deviation]))[0] == pytest.approx(below, abs=1e-7)


def test_what_is_certain_gains_the_difference_and_keeps_its_bound_or_not() -> None:
    mean, certain = np.array([-1.0, 0.0, 2.0]), np.zeros(3)
    assert expected_improvement(mean, certain, 0.0).tolist() == [0.0, 0.0, 2.0]
    assert probability_at_most(0.0, mean, certain).tolist() == [1.0, 1.0, 0.0]


def test_what_is_far_off_gains_nothing_and_never_less() -> None:
    far = expected_improvement(np.array([-1e6, -50.0, -8.0]), np.ones(3), 0.0)
    assert (far >= 0).all()
    assert far[0] == 0
    assert far[1] <= far[2] < 1e-10
