"""What a prediction's interval says of its spread."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.measurement import METRICS
from a3gnn.prediction import Prediction


def test_the_spread_is_the_deviation_of_the_interval() -> None:
    mean = np.array([[2.0, 0.0, 1e9, 0.8, 5.0]])
    off = np.array([[0.1, 0.0, 0.2, 0.03, 0.4]])
    low, high = mean * np.exp(-1.645 * off), mean * np.exp(1.645 * off)
    accuracy = METRICS.index("val_accuracy")
    low[:, accuracy], high[:, accuracy] = (0.8 + sign * 1.645 * 0.03 for sign in (-1, 1))
    prediction = Prediction(mean, low, high)
    for column, metric in enumerate(METRICS):
        assert prediction.spread(metric)[0] == pytest.approx(off[0, column])
