"""Trials served from stored rows: as real ones would have found them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError
from a3gnn.learning_curve import NO_CURVE, CurveEnd, LearningCurve
from a3gnn.measurement import Failure, FailureKind, Measurement, Metrics
from a3gnn.profiling.replay import Replay
from a3gnn.profiling.request import CurvePlan, Race, TrialPlan, TrialRequest
from a3gnn.task import Task

Make = Callable[..., Measurement]


def ask(row: Measurement, curve: CurvePlan | None, known: LearningCurve | None = None) -> TrialRequest:
    return TrialRequest(row.config, row.setting, "", TrialPlan(curve=curve), known)


def test_it_says_what_it_has(measurement: Make) -> None:
    rows = [measurement(TrainConfig(batch_size=64)), measurement(TrainConfig(), task=Task(model="gin"))]
    request = TrialRequest(TrainConfig().canonical(), rows[0].setting, "", TrialPlan())
    with pytest.raises(StoreError, match=r"none of 2 stored rows has .*; 1 of them are for this task"):
        Replay(rows).run(request)


@pytest.mark.parametrize(
    ("plan", "points", "ended"),
    [
        (CurvePlan(0.5 + 45 / 10), 3, CurveEnd.BUDGET),  # 10 mini-batches a second after half a second; the next is 60
        (CurvePlan(1e6, most_epochs=8), 3, CurveEnd.BUDGET),
        (CurvePlan(1e6, target=0.3), 6, CurveEnd.TARGET),  # at 30 mini-batches, and three points keep it
        (CurvePlan(1e6, race=Race(0.5, 2.0)), 1, CurveEnd.SLOWER),  # the second point is at 2.5 s
        (CurvePlan(1e6, least_throughput=3.0), 0, CurveEnd.SLOWER),
        (CurvePlan(1e6, until_plateau=True), 10, CurveEnd.BUDGET),  # it does not know any more of it
    ],
)
def test_a_curve_is_cut_to_what_the_plan_would_have_trained(
    measurement: Make, metrics: Metrics, plan: CurvePlan, points: int, ended: CurveEnd
) -> None:
    row = measurement(TrainConfig())
    assert metrics.curve is not None
    found = Replay([row]).run(ask(row, plan))
    cut = LearningCurve(metrics.curve.batches[:points], metrics.curve.val_accuracy[:points], ended)
    assert found == dataclasses.replace(metrics, curve=cut)


def test_what_is_known_stays_known(measurement: Make, metrics: Metrics) -> None:
    row = measurement(TrainConfig())
    assert metrics.curve is not None
    known = LearningCurve(metrics.curve.batches[:6], metrics.curve.val_accuracy[:6], CurveEnd.BUDGET)
    found = Replay([row]).run(ask(row, CurvePlan(1e6, target=0.3), known))
    assert isinstance(found, Metrics)
    assert found.curve == dataclasses.replace(known, ended=CurveEnd.TARGET)
    further = Replay([row]).run(ask(row, CurvePlan(1e6, target=0.8), known))
    assert isinstance(further, Metrics)
    assert further.curve is not None
    assert (further.curve.trained, further.curve.ended) == (100, CurveEnd.TARGET)  # at 70


def test_timing_alone_has_no_curve_and_a_whole_training_has_the_test_accuracy(
    measurement: Make, metrics: Metrics
) -> None:
    whole = dataclasses.replace(metrics, test_accuracy=0.7)
    row = measurement(TrainConfig(), whole)
    replay = Replay([row])
    timed = replay.run(ask(row, None))
    untrained = {"curve": None, "curve_train_seconds": 0.0, "curve_eval_seconds": 0.0, "curve_first": None}
    assert timed == dataclasses.replace(metrics, **untrained)
    extended = replay.run(ask(row, CurvePlan(1e6, target=0.3)))
    assert isinstance(extended, Metrics)
    assert extended.test_accuracy is None
    trained = replay.run(ask(row, CurvePlan(0.5 + 45 / 10, whole=True, tests=True), metrics.curve))
    assert isinstance(trained, Metrics)
    assert trained.curve is not None
    assert (trained.curve.trained, trained.test_accuracy) == (30, 0.7)


def test_failures_and_rows_without_a_curve_come_back_as_they_are(measurement: Make, metrics: Metrics) -> None:
    old = dataclasses.replace(metrics, curve=None, val_accuracy=0.8, test_accuracy=0.75, accuracy_epochs=3)
    failure = Failure(FailureKind.INVALID, "by itself")
    rows = [measurement(TrainConfig(), old), measurement(TrainConfig(batch_size=64), failure)]
    for row in rows:
        assert Replay(rows).run(ask(row, CurvePlan(1.0))) == row.outcome
    empty = measurement(TrainConfig(), dataclasses.replace(metrics, curve=NO_CURVE))
    assert Replay([empty]).run(ask(empty, CurvePlan(1.0))) == empty.outcome
