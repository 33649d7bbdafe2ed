"""The configuration that a tune hands over: measured twice, and within the limits both times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from a3gnn.measurement import Failure, Metrics
from a3gnn.report.front import best_index
from a3gnn.report.text import describe_breaches
from a3gnn.tuning.infeasible import nothing_fits
from a3gnn.tuning.journal import Probe
from a3gnn.tuning.lines import describe_failure
from a3gnn.tuning.study import Study


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        probe: The trial that found it.
        measured: What its verification reached, with the larger peaks of both trials.
    """

    probe: Probe
    measured: Metrics


def choose(study: Study) -> Choice:
    """Returns the best measured configuration that keeps the limits in a second trial as well.

    Raises:
        InfeasibleError: None does.
    """
    refused: dict[str, Metrics | Failure] = {}
    while kept := [(p, m) for p, m in study.history.eligible() if p.measurement.config.key() not in refused]:
        metrics = [m for _, m in kept]
        probe, first = kept[best_index(metrics, study.request.priority, study.hardware.has_device)]
        second = study.verify(probe)
        found = _worst_peaks(first, second) if isinstance(second, Metrics) else second
        if isinstance(found, Metrics) and not study.history.limits.broken_by(found):
            return Choice(probe, found)
        refused[probe.measurement.config.key()] = found
        why = describe_failure(found) if isinstance(found, Failure) else _broken(study, found)
        then = "the next best is verified instead" if len(kept) > 1 else "no other is left"
        study.notify(f"    refused, for its second trial is out of the limits: {why}; {then}")
    raise nothing_fits(study, refused)


def _broken(study: Study, metrics: Metrics) -> str:
    return describe_breaches(study.history.limits.broken_by(metrics))


def _worst_peaks(first: Metrics, second: Metrics) -> Metrics:
    peaks = ("peak_host_bytes", "peak_device_bytes", "resident_file_bytes")
    return dataclasses.replace(second, **{name: max(getattr(first, name), getattr(second, name)) for name in peaks})
