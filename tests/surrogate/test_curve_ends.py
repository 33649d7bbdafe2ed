"""Predicting how a learning curve ends, from curves of other graphs."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn_surrogate.curve_ends import CurveEnds
from benchmarks.curve_fits import Sample, fitted_ends

POINTS = 24


def batches(points: int = POINTS) -> list[int]:
    found = [0]
    while len(found) <= points:
        found.append(next_point(found[-1], 5))
    return found[1:]


def curve(final: float, steps: float, noise: np.random.Generator | None = None, points: int = POINTS) -> LearningCurve:
    """Returns a curve that has made all but 1/e of its way to `final` after `steps` mini-batches."""
    counts = np.array(batches(points))
    quality = final * (1 - np.exp(-counts / steps))
    if noise is not None:
        quality = np.clip(quality + 0.002 * noise.standard_normal(len(counts)), 0, 1)
    return LearningCurve(tuple(counts.tolist()), tuple(quality.tolist()), CurveEnd.BUDGET)


def family(graphs: int, seed: int, each: int = 6) -> list[Sample]:
    """Returns curves of graphs that learn to different levels, at different paces."""
    draw, found = np.random.default_rng(seed), []
    for graph in range(graphs):
        level, pace = draw.uniform(0.3, 0.9), draw.uniform(20, 150)
        default = curve(level, pace, draw)
        found.append(Sample(f"{seed}-{graph}", default))
        found += [
            Sample(f"{seed}-{graph}", curve(level, pace * draw.uniform(0.5, 2), draw), default) for _ in range(each)
        ]
    return found


def part(whole: LearningCurve, count: int) -> LearningCurve:
    return LearningCurve(whole.batches[:count], whole.val_accuracy[:count], whole.ended)


@pytest.fixture(scope="module")
def fit() -> CurveEnds:
    return fitted_ends(family(20, seed=1))


@pytest.fixture(scope="module")
def unseen() -> list[Sample]:
    return [sample for sample in family(15, seed=2) if sample.default is not None]


def errors(fit: CurveEnds, unseen: list[Sample], *, beside: bool) -> np.ndarray:
    found = []
    for sample in unseen:
        known, whole = part(sample.curve, 7), sample.curve
        predicted = fit.predict(known, whole.trained, sample.default if beside else None)
        found.append(abs(predicted.median - max(whole.val_accuracy)))
    return np.array(found)


def test_it_is_closer_than_no_gain_and_than_the_others_mean_gain(fit: CurveEnds, unseen: list[Sample]) -> None:
    gains = np.array([max(one.curve.val_accuracy) - max(one.curve.val_accuracy[:7]) for one in unseen])
    others = [max(one.curve.val_accuracy) - max(one.curve.val_accuracy[:7]) for one in family(20, seed=1)]
    found = np.median(errors(fit, unseen, beside=False))
    assert found < 0.5 * np.median(gains)
    assert found < 0.9 * np.median(np.abs(gains - np.mean(others)))


def test_the_baselines_curve_helps(fit: CurveEnds, unseen: list[Sample]) -> None:
    assert errors(fit, unseen, beside=True).mean() < 0.8 * errors(fit, unseen, beside=False).mean()


def test_nine_in_ten_intervals_hold(fit: CurveEnds, unseen: list[Sample]) -> None:
    held = []
    for sample in unseen:
        for count in (5, 8, 12):
            found = fit.predict(part(sample.curve, count), sample.curve.trained, sample.default)
            assert max(sample.curve.val_accuracy[:count]) <= found.low <= found.median <= found.high <= 1
            held.append(found.low - 1e-9 <= max(sample.curve.val_accuracy) <= found.high + 1e-9)
    assert 0.8 <= np.mean(held) <= 0.99


def test_a_curve_that_has_levelled_off_is_surer_than_one_that_rises(fit: CurveEnds) -> None:
    flat, rising = curve(0.6, 20, points=16), curve(0.6, 150, points=8)
    level, rise = (fit.predict(one, 3 * one.trained) for one in (flat, rising))
    assert level.median - 0.6 < 0.01
    assert rise.median - max(rising.val_accuracy) > 0.05
    assert level.high - level.low < 0.3 * (rise.high - rise.low)


def test_more_mini_batches_gain_more(fit: CurveEnds) -> None:
    known = curve(0.8, 150, points=8)
    gains = [fit.predict(known, multiple * known.trained).median for multiple in (1.3, 2, 4)]
    assert gains == sorted(gains)
    assert gains[0] < gains[-1]


def test_what_cannot_be_extrapolated_is_refused(fit: CurveEnds) -> None:
    known = curve(0.8, 100, points=8)
    with pytest.raises(UsageError, match="a curve of at least 3 points, got 2"):
        fit.predict(part(known, 2), 1000)
    with pytest.raises(UsageError, match=f"beyond the curve's {known.trained} mini-batches, got {known.trained}"):
        fit.predict(known, known.trained)
    with pytest.raises(UsageError, match="curves of at least 2 graphs to learn from, got 1"):
        fitted_ends(family(1, seed=3))
    with pytest.raises(UsageError, match="got 0"):
        fitted_ends([])
