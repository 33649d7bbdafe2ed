"""What a prediction's interval says of its spread."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.measurement import METRICS
from a3gnn.prediction import Prediction, from_log_points, log_points


def test_the_spread_is_the_deviation_of_the_interval() -> None:
    mean = np.array([[2.0, 0.0, 1e9, 0.8, 5.0]])
    off = np.array([[0.1, 0.0, 0.2, 0.03, 0.4]])
    low, high = mean * np.exp(-1.645 * off), mean * np.exp(1.645 * off)
    accuracy = METRICS.index("val_accuracy")
    low[:, accuracy], high[:, accuracy] = (0.8 + sign * 1.645 * 0.03 for sign in (-1, 1))
    prediction = Prediction(mean, low, high)
    for column, metric in enumerate(METRICS):
        assert prediction.spread(metric)[0] == pytest.approx(off[0, column])


def test_losses_count_by_points_below_one_and_by_their_logarithm_beyond() -> None:
    lost = np.array([-0.3, -0.01, -1e-4, 0.0, 1e-4, 0.01, 0.1, 0.8])
    scaled = log_points(lost)
    np.testing.assert_allclose(from_log_points(scaled), lost, rtol=1e-12, atol=1e-15)
    assert scaled[4] == pytest.approx(0.01, rel=1e-3)
    assert scaled[7] - scaled[6] == pytest.approx(np.log(8), rel=1e-2)
    np.testing.assert_array_equal(scaled[:3], -log_points(-lost[:3]))


def of_losses(lost: float, off: float, default_accuracy: float | None = 0.7) -> Prediction:
    """Returns a prediction of a loss with an interval of 90 % that is normal on the scale of losses."""
    bounds = np.zeros((3, 1, len(METRICS)))
    scaled = log_points(lost) + 1.645 * off * np.array([0.0, 1.0, -1.0])
    bounds[:, 0, METRICS.index("val_accuracy")] = 0.7 - from_log_points(scaled)
    return Prediction(*bounds, default_accuracy=default_accuracy)


def test_what_is_lost_scatters_on_its_own_scale_where_it_is_known_what_it_is_lost_from() -> None:
    prediction = of_losses(0.002, 1.5)
    assert prediction.lost(0.7) == 0.0
    assert prediction.lost(0.65) == pytest.approx(log_points(0.05))
    for bound in ("low", "high"):
        assert prediction.one_sided("val_accuracy", bound)[0] == pytest.approx(1.5)
    small = of_losses(0.002, 0.01)  # where the scale is straight, both deviations are of one size
    ends = small.column("val_accuracy", "high") - small.column("val_accuracy", "low")
    assert small.spread("val_accuracy")[0] == pytest.approx(ends[0] / (2 * 1.645), rel=1e-3)
    assert small.take(np.array([0])).default_accuracy == 0.7
    plain = of_losses(0.002, 1.5, default_accuracy=None)
    assert plain.lost(0.65) == -0.65
    low, mean = plain.column("val_accuracy", "low")[0], plain.column("val_accuracy")[0]
    assert plain.one_sided("val_accuracy", "low")[0] == pytest.approx((mean - low) / 1.645)


@pytest.mark.parametrize("lost", [-0.04, 0.0, 1e-6, 0.005, 0.2])
@pytest.mark.parametrize("gain", [-0.01, 0.0, 0.03])
def test_the_chance_to_reach_an_accuracy_is_that_on_the_scale_of_losses(lost: float, gain: float) -> None:
    """An interval that widens with the loss says nothing of a gain: a score's deviation must not either."""
    found = of_losses(lost, 0.5)
    spread = found.spread("val_accuracy", 0.7 + gain)[0]
    assert spread > 0
    assert (lost + gain) / spread == pytest.approx((log_points(lost) - log_points(-gain)) / 0.5, abs=1e-9)
    if lost == -gain:
        assert spread == found.spread("val_accuracy")[0]
