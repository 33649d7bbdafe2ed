"""Where the time of a training step goes, and which knobs would save most of it, by the calibrated analytic model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from a3gnn.knobs import Knob
from a3gnn.measurement import Metrics
from a3gnn.page.stored_study import Measured
from a3gnn.report.text import describe_knob
from a3gnn_surrogate.analytic import analytic_metrics, expected_work
from a3gnn_surrogate.calibrate import own_calibration
from a3gnn_surrogate.calibration import UNCALIBRATED, Calibration
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.measured_setting import MeasuredSetting
from a3gnn_surrogate.stage_seconds import train_terms
from a3gnn_surrogate.training_rows import OUTPUTS

#: What people call the parts of a step: three measured stages, and what training is split into.
PARTS = (
    *("sampling neighbours", "gathering rows", "copying to the device"),
    *("matrix products", "sums over neighbours", "activations", "the optimiser", "starting operations"),
)
#: A knob that is predicted to gain less is not named, and no more than so many are. Guesses.
_LEAST_GAIN, _MOST_NAMED = 1.05, 4


class _Step(NamedTuple):
    """A trial by its index, with its measured seconds per mini-batch of sampling, gathering, copying and training."""

    trial: int
    stages: tuple[float, ...]


def step_views(measured: Measured) -> dict[str, Any]:
    """Returns the seconds per mini-batch of `parts`, by trial, and what would help the default and the best.

    What sampling, gathering, copying and training take was measured; training is split in proportion to the terms of
    the analytic model, whose factors are fitted to the study's own trials. Where stages overlap, their sum exceeds what
    a step takes.
    """
    steps = [_Step(i, _stages(one.metrics)) for i, one in measured.judged.items()]
    if not steps:
        return {"parts": list(PARTS), "trials": [], "helps": []}
    setting = measured.history.study.setting
    columns = as_columns([measured.trials[one.trial].measurement.config for one in steps])
    stages = np.array([one.stages for one in steps])[:, [0, 1, 3]]
    nothing_else = np.full((len(steps), len(OUTPUTS)), np.nan)
    rows = MeasuredSetting(setting, columns, expected_work(columns, setting), nothing_else, stages)
    # The factors that suit the trials best; those of the equations where the trials are few.
    calibration = own_calibration([rows], UNCALIBRATED) or UNCALIBRATED
    split = _split(rows, calibration)
    trials = [
        {
            "index": one.trial,
            "seconds": [*one.stages[:3], *(one.stages[3] * shares).tolist()],
            "batches_per_epoch": measured.judged[one.trial].metrics.batches_per_epoch,
        }
        for one, shares in zip(steps, split, strict=True)
    ]
    named = dict.fromkeys(index for index in (measured.default, measured.best) if index is not None)
    return {"parts": list(PARTS), "trials": trials, "helps": [_helps(measured, index, calibration) for index in named]}


def _stages(metrics: Metrics) -> tuple[float, ...]:
    found = metrics.stage_seconds
    return found.sample, found.gather, found.transfer, found.train


def _split(rows: MeasuredSetting, calibration: Calibration) -> np.ndarray:
    """Returns the shares of training's parts, float64, shape (n_configs, 5), each row's sum 1."""
    terms = train_terms(rows.work.cost, rows.setting.hardware) * np.array(calibration.train)
    return np.asarray(terms / terms.sum(axis=1, keepdims=True))


def _helps(measured: Measured, index: int, calibration: Calibration) -> dict[str, Any]:
    """Returns by what single knobs a trial's epochs per second would gain most, as the analytic model has it."""
    config = measured.trials[index].measurement.config
    changes = [
        (knob, value)
        for knob in measured.history.space.knobs
        for value in knob.values
        if value != getattr(config, knob.name)
    ]
    others = [config.replace(**{knob.name: value}).canonical() for knob, value in changes]
    found = analytic_metrics(as_columns([config, *others]), measured.history.study.setting, calibration)
    gains = found["throughput_epochs_per_s"][1:] / found["throughput_epochs_per_s"][0]
    best: dict[str, dict[str, Any]] = {}
    for (knob, value), gain in zip(changes, gains.tolist(), strict=True):
        if gain >= max(_LEAST_GAIN, best.get(knob.name, {"gain": 0.0})["gain"]):
            best[knob.name] = {"knob": knob.name, "words": _words(knob, value), "gain": gain}
    ranked = sorted(best.values(), key=lambda one: -one["gain"])
    return {"index": index, "knobs": ranked[:_MOST_NAMED]}


def _words(knob: Knob, value: Any) -> str:
    """Returns what the change is called; the words of text are for values that are not the default."""
    return f"{knob.name} {value}" if value == knob.default else describe_knob(knob, value).strip()
