from __future__ import annotations

import numpy as np
import pytest

from a3gnn.measurement import METRICS
from a3gnn.prediction import Prediction
from a3gnn_envs.context import UtilityScale, scalarise


def prediction(throughput: list[float], host: list[float], device: list[float], accuracy: list[float]) -> Prediction:
    columns = {
        "throughput_epochs_per_s": throughput,
        "peak_host_bytes": host,
        "peak_device_bytes": device,
        "val_accuracy": accuracy,
        "seconds_to_accuracy": [1 / value if value else 1e3 for value in throughput],
    }
    mean = np.array([columns[name] for name in METRICS], dtype=np.float64).T
    return Prediction(mean, mean, mean)


def test_utilities_run_from_the_five_percent_quantile_to_the_best() -> None:
    steps = list(range(101))
    sample = prediction(steps, steps, [0] * 101, [s / 100 for s in steps])
    scale = UtilityScale.fit(sample, has_device=False)
    asked = prediction([5, 100, 52.5], [95, 0, 47.5], [0, 0, 0], [0.05, 1, 0.525])
    np.testing.assert_allclose(scale.utilities(asked), [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5]])


def test_utilities_are_clipped() -> None:
    scale = UtilityScale.fit(prediction([1, 2], [1, 2], [0, 0], [0.1, 0.2]), has_device=False)
    utilities = scale.utilities(prediction([1e9, -1e9], [0, 1e9], [0, 0], [0.15, 0.15]))
    np.testing.assert_allclose(utilities[:, 0], [1.6, -0.5])


def test_a_metric_that_never_varies_has_finite_utilities() -> None:
    same = prediction([1, 1], [5, 5], [0, 0], [0.5, 0.5])
    np.testing.assert_allclose(UtilityScale.fit(same, has_device=False).utilities(same), 0)


def test_speed_is_one_over_the_seconds_where_those_count() -> None:
    sample = prediction([1, 2, 4], [1, 1, 1], [0, 0, 0], [0.5, 0.5, 0.5])
    by_seconds = UtilityScale.fit(sample, has_device=False, speed="seconds_to_accuracy")
    np.testing.assert_allclose(
        by_seconds.utilities(sample), UtilityScale.fit(sample, has_device=False).utilities(sample)
    )
    slower = Prediction(*(np.where(np.arange(5) == 4, 2 * sample.mean, sample.mean) for _ in range(3)))
    assert (by_seconds.utilities(slower)[:, 0] < by_seconds.utilities(sample)[:, 0]).all()


def test_memory_is_the_devices_where_there_is_one() -> None:
    sample = prediction([1, 2], [7, 7], [10, 20], [0.1, 0.2])
    utilities = UtilityScale.fit(sample, has_device=True).utilities(sample)
    assert utilities[0, 1] > utilities[1, 1]


def test_scores_by_hand() -> None:
    utilities = np.array([[0.7, 1.0, 0.2], [0.7, 1.0, 0.2], [0.7, 1.0, 0.2]])
    weights = np.array([0.5, 0.3, 0.2])
    score = scalarise(utilities, weights, np.array([0.0, 0.25, 7.0]))
    # weighted distances .25, .06, .2: minus the largest and a twentieth of their sum
    np.testing.assert_allclose(score, [-0.25 - 0.05 * 0.51, -1.25, -2.0])


@pytest.mark.parametrize("better", [0, 1, 2])
def test_the_score_grows_with_every_utility(better: int) -> None:
    low = np.full((1, 3), 0.4)
    high = low.copy()
    high[0, better] += 0.1
    weights = np.array([0.2, 0.5, 0.3])
    assert scalarise(high, weights, np.zeros(1)) > scalarise(low, weights, np.zeros(1))
