"""The configuration that a tune hands over: measured twice, and within the limits both times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from a3gnn.errors import InfeasibleError
from a3gnn.measurement import Metrics
from a3gnn.report.front import best_index
from a3gnn.tuning.campaign import Campaign
from a3gnn.tuning.journal import Probe
from a3gnn.units import format_size


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        probe: The probe that found it.
        measured: What its verification reached, with the larger peaks of both trials.
    """

    probe: Probe
    measured: Metrics


def choose(campaign: Campaign) -> Choice:
    """Returns the best measured configuration that keeps the limits in a second trial as well.

    Raises:
        InfeasibleError: None does.
    """
    refused: set[str] = set()
    while True:
        kept = [
            (probe, m) for probe, m in campaign.findings.eligible() if probe.measurement.config.key() not in refused
        ]
        if not kept:
            raise nothing_fits(campaign)
        metrics = [m for _, m in kept]
        probe, first = kept[best_index(metrics, campaign.request.priority, campaign.hardware.has_device)]
        second = campaign.verify(probe)
        if isinstance(second, Metrics):
            both = _worst_peaks(first, second)
            if not campaign.findings.limits.broken_by(both):
                return Choice(probe, both)
        refused.add(probe.measurement.config.key())
        campaign.notify("    it broke a limit when it was measured again: the next best is verified instead")


def nothing_fits(campaign: Campaign) -> InfeasibleError:
    """Returns the error that says which limit nothing keeps, and the smallest one that a measured trial would."""
    findings = campaign.findings
    limits, memory = findings.limits, findings.memory
    limit = limits.device_bytes if campaign.hardware.has_device else limits.host_bytes
    peaks = [getattr(metrics, memory) for _, metrics in campaign.findings.measured()]
    known = f"the smallest limit that would: {format_size(min(peaks))}" if peaks else "nothing ran at all"
    if limit is None or (peaks and min(peaks) <= limit):
        return InfeasibleError(
            "no measured configuration keeps every limit at once: "
            f"--max-accuracy-drop {campaign.request.max_accuracy_drop:g} points leave an accuracy of at least "
            f"{limits.least_accuracy or 0:.2%}; allow a larger drop, more memory or a longer --budget",
            min(peaks) if peaks else None,
        )
    failed = campaign.findings.failures()
    return InfeasibleError(
        f"no configuration keeps the memory limit of {format_size(limit)} "
        f"({len(peaks)} measured, {len(failed)} failed); {known}",
        min(peaks) if peaks else None,
    )


def _worst_peaks(first: Metrics, second: Metrics) -> Metrics:
    peaks = ("peak_host_bytes", "peak_device_bytes", "resident_file_bytes")
    return dataclasses.replace(second, **{name: max(getattr(first, name), getattr(second, name)) for name in peaks})
