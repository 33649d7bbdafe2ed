"""False touches of a target, in curves that are made up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import MEASUREMENT_VERSION, Measurement, Metrics
from a3gnn.setting import Setting
from a3gnn.task import Task
from benchmarks.touches import found_by, touches

DEFAULT = TrainConfig().canonical()


def test_a_touch_is_false_if_the_later_points_are_lower_and_the_next_ones_find_it(
    make_metrics: Callable[..., Metrics], tiny_graph: Graph, hardware: Hardware
) -> None:
    setting = Setting(Task(), tiny_graph.characteristics(), hardware)

    def row(config: TrainConfig, *accuracies: float) -> Measurement:
        curve = LearningCurve(tuple(range(1, len(accuracies) + 1)), accuracies, CurveEnd.BUDGET)
        metrics = dataclasses.replace(make_metrics(1.0, 2**28, 0.0), curve=curve)
        return Measurement(
            config,
            setting,
            metrics,
            0,
            1.0,
            MEASUREMENT_VERSION,
            "2026-01-01T00:00:00+00:00",
            id=str(accuracies),
        )

    rows = [
        row(DEFAULT, 0.5, 0.7, 0.9, 0.9, 0.9, 0.9, 0.9),
        row(DEFAULT.replace(batch_size=256), 0.9, 0.9, 0.6, 0.6, 0.6, 0.6),  # false, but the next point keeps it
        row(DEFAULT.replace(batch_size=512), 0.9, 0.7, 0.9, 0.9, 0.9, 0.9),  # true, but the next point is low
        row(DEFAULT.replace(batch_size=2048), 0.9, 0.9, 0.9),  # too few points
        row(DEFAULT.replace(batch_size=4096), 0.5, 0.6, 0.7, 0.7, 0.7, 0.7),  # no touch
    ]
    found = list(touches(rows, 0.05))
    assert [target for target, _ in found] == pytest.approx([0.85] * 3)
    assert found_by(found, 1) == (0, 1)
    assert found_by(found, 3) == (1, 1)
    assert found_by(found, 4) == (1, 0)
