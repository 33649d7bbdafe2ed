"""Trials of a tiny graph by formulas."""

from __future__ import annotations

from collections.abc import Callable

from a3gnn.config import TrainConfig
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, Measurement, Metrics
from a3gnn.profiling.request import TrialPlan, TrialRequest
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Trial
from tests.tuning.formulas import Formulas

MiB = 2**20


def made(history: History, config: TrainConfig, formulas: Callable[..., Formulas]) -> Trial:
    setting, curve = history.study.setting, history.study.reference_curve
    outcome: Metrics | Failure = formulas().run(TrialRequest(config.canonical(), setting, "", TrialPlan(curve=curve)))
    return Trial("best", {}, measured(history, config, outcome))


def measured(history: History, config: TrainConfig, outcome: Metrics | Failure) -> Measurement:
    created = "2026-01-01T00:00:00+00:00"
    return Measurement(config.canonical(), history.study.setting, outcome, 0, 1.0, MEASUREMENT_VERSION, created)
