"""The value of a trial, against integrals and cases by hand."""

import numpy as np
import pytest
from scipy import integrate, stats

from a3gnn.tuning.beliefs.beliefs import Belief
from a3gnn.tuning.engines.improvement import log_gain, log_improvement, log_value


def one(mean: float, deviation: float, best: float) -> float:
    return float(log_improvement(np.array([mean]), np.array([deviation]), best)[0])


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (1.5, 0.3), (-2.0, 0.7), (-0.9, 1.0), (0.2, 3.0)])
def test_the_improvement_is_the_integral_over_better_scores(mean: float, deviation: float) -> None:
    best = 0.25
    density = stats.norm(mean, deviation).pdf
    top = max(mean, best) + 12 * deviation
    expected, _ = integrate.quad(lambda score: (score - best) * density(score), best, top, epsabs=0)
    assert one(mean, deviation, best) == pytest.approx(np.log(expected), rel=1e-6)


def test_far_below_the_best_it_still_has_a_slope() -> None:
    means = -np.array([1.0, 5.0, 40.0, 1e3, 1e5, 1e6])
    values = log_improvement(means, np.ones(len(means)), 0.0)
    assert np.isfinite(values).all()
    assert (np.diff(values[:-1]) < 0).all()
    # The leading term of the asymptotic series: density / z^2.
    assert one(-40.0, 1.0, 0.0) == pytest.approx(stats.norm.logpdf(40) - 2 * np.log(40), abs=0.01)


def test_it_is_continuous_where_the_forms_change() -> None:
    for edge in (-1.0, -1e4):
        near = log_improvement(edge + np.array([-1e-9, 1e-9]) * abs(edge), np.ones(2), 0.0)
        assert near[0] == pytest.approx(near[1], rel=1e-6)


def test_what_is_certain_gains_its_difference_or_nothing() -> None:
    assert one(0.75, 0.0, 0.25) == pytest.approx(np.log(0.5))
    assert one(0.25, 0.0, 0.25) < -1e5


def test_a_gain_is_weighed_by_its_probability_and_its_seconds() -> None:
    belief = Belief(np.zeros(3), np.ones(3), np.array([1.0, 0.5, 0.0]), np.array([1.0, 2.0, 1.0]))
    gain, value = log_gain(belief, 0.0), log_value(belief, 0.0)
    assert gain[0] - gain[1] == pytest.approx(np.log(2))
    assert value[0] - value[1] == pytest.approx(np.log(4))
    assert value[2] < -500
