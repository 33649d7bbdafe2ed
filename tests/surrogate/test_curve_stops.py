"""Predicting when a learning curve stops improving, from curves of other graphs, most of which end before they do."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.learning_curve import NO_CURVE, LearningCurve, next_point
from a3gnn.profiling.store.jsonl import shipped_measurements, shipped_profiles
from a3gnn.tuning.study.foresight import CURVES, expected_end, expected_stop
from a3gnn_surrogate.curve_ends import CurveStops
from benchmarks.curve_fits import Sample, curve_fits, fitted_stops, parts


def curve(draw: np.random.Generator, points: int = 70) -> LearningCurve:
    """Returns a curve that comes within its noise of its level after a random number of mini-batches."""
    level, pace, noise = draw.uniform(0.4, 0.9), draw.uniform(50, 600), draw.uniform(0.001, 0.01)
    found = NO_CURVE
    for _ in range(points):
        count = next_point(found.trained, 5)
        quality = level * (1 - np.exp(-count / pace)) + noise * draw.standard_normal()
        found = found.with_point(count, float(np.clip(quality, 0, 1)))
    return found


def stop_of(whole: LearningCurve) -> int | None:
    ends = (whole.first(points) for points in range(1, len(whole.batches) + 1))
    return next((one.trained for one in ends if one.has_stopped_improving()), None)


@pytest.fixture(scope="module")
def fit() -> CurveStops:
    """Fitted to curves of which most end before they stop."""
    draw, found = np.random.default_rng(1), []
    for graph in range(80):
        whole = curve(draw)
        found.append(Sample(str(graph), whole.first(int(draw.integers(20, 70)))))
    stopped = [stop_of(sample.curve) is not None for sample in found]
    assert 10 < sum(stopped) < 60
    return fitted_stops(parts(found))


def test_half_of_the_curves_stop_before_the_prediction_though_most_known_ones_were_cut(fit: CurveStops) -> None:
    draw, before = np.random.default_rng(2), []
    for _ in range(120):
        whole = curve(draw)
        known, stop = whole.first(12), stop_of(whole)
        predicted = fit.predict(known)
        assert known.soonest_stop() <= predicted <= fit.longest * known.soonest_stop()
        before.append(stop is not None and stop <= predicted)
    assert 0.35 <= np.mean(before) <= 0.65


def test_what_gains_more_is_expected_to_stop_later(fit: CurveStops) -> None:
    flat = NO_CURVE
    for place in range(12):
        flat = flat.with_point(next_point(flat.trained, 5), 0.7 + 0.002 * (place % 2) + 1e-3 * place)
    steep = LearningCurve(flat.batches, tuple(0.2 + 0.04 * place for place in range(12)), flat.ended)
    assert flat.soonest_stop() == steep.soonest_stop()
    assert fit.predict(steep) > fit.predict(flat)


def test_curves_are_cut_before_they_stop_and_weigh_alike() -> None:
    draw = np.random.default_rng(4)
    curves = [Sample("a", curve(draw)), Sample("b", curve(draw).first(30))]
    found = parts(curves)
    for sample in curves:
        own = [one for one in found if one.graph == sample.graph]
        assert sum(one.weight for one in own) == pytest.approx(1.0)
        stop = stop_of(sample.curve)
        assert {(one.trained, one.stopped) for one in own} == {(stop or sample.curve.trained, stop is not None)}
        assert all(not one.curve.has_stopped_improving() and one.curve.soonest_stop() <= one.trained for one in own)


def test_few_points_stop_as_soon_as_they_can_and_nothing_is_learned_from_curves_that_go_on(fit: CurveStops) -> None:
    short = NO_CURVE.with_point(5, 0.3).with_point(10, 0.4)
    assert fit.predict(short) == expected_stop(short) == short.soonest_stop()
    with pytest.raises(UsageError, match="learned from curves that did, got none"):
        fitted_stops([])


def test_the_shipped_curves_foresee_a_stop_and_the_quality_there() -> None:
    known = curve(np.random.default_rng(5)).first(14)
    stop = expected_stop(known)
    assert stop > known.soonest_stop() > known.trained
    low = dataclasses.replace(known, val_accuracy=tuple(one / 2 for one in known.val_accuracy))
    end = expected_end(low, stop)
    assert max(low.val_accuracy) <= end.low <= end.median <= end.high < 1
    assert expected_end(low.first(2), stop) is None
    assert expected_end(known, stop) is None  # its interval reaches 1


def test_the_shipped_fits_are_those_of_the_shipped_curves() -> None:
    """Else `curve_fits` has to be written again, as `python -m benchmarks.corpus --export` does."""
    shipped = json.loads((shipped_profiles() / CURVES).read_text(encoding="utf-8"))
    fitted = curve_fits(shipped_measurements())
    assert {name: list(fit) for name, fit in shipped.items()} == {name: list(fit) for name, fit in fitted.items()}
    for name, fit in shipped.items():
        for field, values in fit.items():
            np.testing.assert_allclose(values, fitted[name][field], rtol=1e-3, atol=1e-6, err_msg=f"{name}.{field}")
