"""What a limit on memory admits, on the shipped rows of one setting."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.measurement import METRICS
from a3gnn.prediction import Prediction
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn_surrogate.evaluate import HeldOut
from a3gnn_surrogate.references import by_setting
from benchmarks.admission import RULES, decisions, limits_of, line

PEAK = METRICS.index("peak_host_bytes")


@pytest.fixture(scope="module")
def held() -> HeldOut:
    """The first setting's rows, predicted as they were measured."""
    key, rows = next(iter(by_setting(row for row in shipped_measurements() if row.metrics is not None).items()))
    truth = np.ones((len(rows), len(METRICS)))
    truth[:, PEAK] = [row.metrics.peak_host_bytes for row in rows if row.metrics is not None]
    return HeldOut(tuple(rows), np.full(len(rows), key), truth, Prediction(truth, truth, truth))


def test_limits_are_deciles_and_what_the_default_may_take(held: HeldOut) -> None:
    (limits,) = limits_of(held.rows).values()
    assert len(limits) == 10
    assert limits[:9] == sorted(limits[:9])
    default = [row.metrics.peak_host_bytes for row in held.rows if row.metrics and row.config == TrainConfig()]
    assert limits[-1] == pytest.approx(1.05 * max(default))


@pytest.mark.parametrize("rule", RULES)
def test_who_knows_admits_what_fits_and_nothing_else(held: HeldOut, rule: str) -> None:
    for one in decisions(held, limits_of(held.rows), RULES[rule]):
        np.testing.assert_array_equal(one.admitted, one.over <= 1)


def test_who_believes_half_admits_what_breaks_the_limit(held: HeldOut) -> None:
    half = held._replace(prediction=Prediction(held.truth / 2, held.truth / 2, held.truth / 2))
    found = list(decisions(half, limits_of(held.rows), RULES["probability of 0.95"]))
    over, admitted = (np.concatenate(part) for part in zip(*found, strict=True))
    assert (over[admitted] > 1).any()
    assert f"{(over[admitted] > 1).mean():.1%}" in line("probability of 0.95", found)
