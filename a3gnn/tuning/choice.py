"""The configuration that a tune hands over: measured twice, and within the limits both times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from a3gnn.measurement import Failure, Metrics
from a3gnn.report.front import best_index
from a3gnn.report.text import describe_breaches
from a3gnn.tuning.campaign import Campaign
from a3gnn.tuning.infeasible import nothing_fits
from a3gnn.tuning.journal import Probe
from a3gnn.tuning.lines import describe_failure


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        probe: The trial that found it.
        measured: What its verification reached, with the larger peaks of both trials.
    """

    probe: Probe
    measured: Metrics


def choose(campaign: Campaign) -> Choice:
    """Returns the best measured configuration that keeps the limits in a second trial as well.

    Raises:
        InfeasibleError: None does.
    """
    refused: dict[str, Metrics | Failure] = {}
    while kept := [(p, m) for p, m in campaign.findings.eligible() if p.measurement.config.key() not in refused]:
        metrics = [m for _, m in kept]
        probe, first = kept[best_index(metrics, campaign.request.priority, campaign.hardware.has_device)]
        second = campaign.verify(probe)
        found = _worst_peaks(first, second) if isinstance(second, Metrics) else second
        if isinstance(found, Metrics) and not campaign.findings.limits.broken_by(found):
            return Choice(probe, found)
        refused[probe.measurement.config.key()] = found
        why = describe_failure(found) if isinstance(found, Failure) else _broken(campaign, found)
        then = "the next best is verified instead" if len(kept) > 1 else "no other is left"
        campaign.notify(f"    refused, for its second trial is out of the limits: {why}; {then}")
    raise nothing_fits(campaign, refused)


def _broken(campaign: Campaign, metrics: Metrics) -> str:
    return describe_breaches(campaign.findings.limits.broken_by(metrics))


def _worst_peaks(first: Metrics, second: Metrics) -> Metrics:
    peaks = ("peak_host_bytes", "peak_device_bytes", "resident_file_bytes")
    return dataclasses.replace(second, **{name: max(getattr(first, name), getattr(second, name)) for name in peaks})
