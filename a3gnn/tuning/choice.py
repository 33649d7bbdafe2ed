"""The configuration that a tune chooses: measured twice, and within the limits both times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from a3gnn.measurement import Failure, Metrics
from a3gnn.objectives import Limits
from a3gnn.report.text import describe_breaches
from a3gnn.tuning.history import History
from a3gnn.tuning.infeasible import nothing_fits
from a3gnn.tuning.lines import describe_failure
from a3gnn.tuning.runner import Runner
from a3gnn.tuning.trial import Trial


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        trial: The trial that found it.
        measured: What its verification reached, with the larger peaks of both trials.
    """

    trial: Trial
    measured: Metrics


def choose(history: History, runner: Runner) -> Choice:
    """Returns the best measured configuration that keeps the limits in a second trial as well.

    Raises:
        InfeasibleError: None does.
    """
    objectives = history.objectives
    refused: dict[str, Metrics | Failure] = {}
    while kept := [one for one in history.eligible() if one.trial.measurement.config.key() not in refused]:
        trial, first = kept[objectives.best_index([one.metrics for one in kept])]
        second = runner.verify(trial)
        found = _worst_peaks(first, second) if isinstance(second, Metrics) else second
        if isinstance(found, Metrics) and not objectives.limits.broken_by(found):
            return Choice(trial, found)
        refused[trial.measurement.config.key()] = found
        broken = describe_failure(found) if isinstance(found, Failure) else _broken(objectives.limits, found)
        then = "the next best is verified instead" if len(kept) > 1 else "no other is left"
        runner.notify(f"    rejected after its second trial: {broken}; {then}")
    raise nothing_fits(history, refused)


def _broken(limits: Limits, metrics: Metrics) -> str:
    return describe_breaches(limits.broken_by(metrics))


def _worst_peaks(first: Metrics, second: Metrics) -> Metrics:
    peaks = ("peak_host_bytes", "peak_device_bytes", "resident_file_bytes")
    return dataclasses.replace(second, **{name: max(getattr(first, name), getattr(second, name)) for name in peaks})
