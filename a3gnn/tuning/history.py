"""What the probes of a tune say: which keep the limits, which is best, what the front is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.objectives import Limits, memory_metric, minimised_metrics
from a3gnn.pareto import hypervolume
from a3gnn.profiling.partition_failures import failed_partitioning
from a3gnn.report.front import Front, best_index
from a3gnn.space import SearchSpace
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.journal import Probe
from a3gnn.tuning.request import TuneRequest

#: The hypervolume's reference lies this far behind the first measurement: doublings, doublings, accuracy.
_REFERENCE_MARGIN = np.array([3.0, 3.0, 0.1])


class History:
    """The probes of one tune, judged by its request.

    Args:
        request: What was asked for.
        hardware: The machine.
        space: What may be chosen.
        probes: In the order in which they were made; later ones are added to the list.
    """

    def __init__(self, request: TuneRequest, hardware: Hardware, space: SearchSpace, probes: list[Probe]) -> None:
        self.probes = probes
        self.memory = memory_metric(hardware.has_device)
        self.space = space
        self._request, self._hardware = request, hardware

    @property
    def limits(self) -> Limits:
        """The limits, with the least accuracy once there is one to compare with.

        That is the default's; where the default does not fit, the best that was measured stands in for it.
        """
        best = max((metrics.test_accuracy for _, metrics in self.measured()), default=None)
        reference = self.reference_accuracy
        return self._request.limits(self._hardware, best if reference is None else reference)

    @property
    def default(self) -> Probe | None:
        """The probe of the default configuration."""
        return next((p for p in self.probes if p.measurement.config == TrainConfig().canonical()), None)

    @property
    def reference_accuracy(self) -> float | None:
        """Test accuracy of the default configuration, or of one that trains bit-identically to it."""
        same = TrainConfig().learning_key()
        found = (p.measurement.metrics for p in self.probes if p.measurement.config.learning_key() == same)
        return next((metrics.test_accuracy for metrics in found if metrics), None)

    def measured(self) -> list[tuple[Probe, Metrics]]:
        """Returns the probes that succeeded, with their metrics."""
        return [(p, p.measurement.outcome) for p in self.probes if isinstance(p.measurement.outcome, Metrics)]

    def failures(self) -> list[Failure]:
        """Returns what went wrong in the probes that did not."""
        return [p.measurement.outcome for p in self.probes if isinstance(p.measurement.outcome, Failure)]

    def partitioning_failures(self) -> list[TrainConfig]:
        """Returns the configurations whose partitions could not be made."""
        return [p.measurement.config for p in self.probes if failed_partitioning(p.measurement) is not None]

    def feasible(self) -> list[tuple[Probe, Metrics]]:
        """Returns the probes that keep every limit as measured."""
        limits = self.limits
        return [(probe, metrics) for probe, metrics in self.measured() if not limits.broken_by(metrics)]

    def inside(self) -> list[tuple[Probe, Metrics]]:
        """Returns the measured probes inside the space: the default may lie outside, where knobs are fixed or cut."""
        return [(p, metrics) for p, metrics in self.measured() if self.row(p.measurement.config) is not None]

    def eligible(self) -> list[tuple[Probe, Metrics]]:
        """Returns the probes inside the space that keep every limit as measured: what may be chosen."""
        limits = self.limits
        return [(probe, metrics) for probe, metrics in self.inside() if not limits.broken_by(metrics)]

    def fits_memory(self) -> bool:
        """Returns whether anything inside the space kept the memory limits as measured, whatever its accuracy."""
        limits = dataclasses.replace(self.limits, least_accuracy=None)
        return any(not limits.broken_by(metrics) for _, metrics in self.inside())

    def best(self) -> tuple[Probe, Metrics] | None:
        """Returns the eligible probe that the priority prefers."""
        kept = self.eligible()
        if not kept:
            return None
        return kept[best_index([m for _, m in kept], self._request.priority, self._hardware.has_device)]

    def front(self, chosen: TrainConfig | None = None) -> Front:
        """Returns the front of everything that was measured."""
        rows = [(p.measurement.config, metrics, p.predicted) for p, metrics in self.measured()]
        return Front.of(rows, self.limits, self._hardware.has_device, chosen)

    def hypervolume(self) -> float:
        """Returns the volume that the feasible probes dominate, up to a reference behind the first measured one."""
        kept = [metrics for _, metrics in self.feasible()]
        if not kept:
            return 0.0
        first = minimised_metrics([self.measured()[0][1]], self._hardware.has_device)[0]
        return hypervolume(minimised_metrics(kept, self._hardware.has_device), first + _REFERENCE_MARGIN)

    def row(self, config: TrainConfig) -> Rows | None:
        """Returns the row of `config`, which is canonical, or None where it lies outside the space."""
        try:
            return self.space.encode(config)
        except ConfigError:
            return None

    def seen(self) -> set[bytes]:
        """Returns the rows that were tried, as bytes."""
        return self._rows(self.probes)

    def settled(self) -> set[bytes]:
        """Returns the rows of which another trial could find no more: all that were tried and had memory enough."""
        return self._rows(p for p in self.probes if not _ran_out_of_memory(p.measurement.outcome))

    def _rows(self, probes: Iterable[Probe]) -> set[bytes]:
        rows = (self.row(probe.measurement.config) for probe in probes)
        return {row.tobytes() for row in rows if row is not None}


def _ran_out_of_memory(outcome: Metrics | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY
