"""Partitions that could not be made, from this run and from stored rows, so that they are not tried in each trial."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

from a3gnn.config import Partitioner, TrainConfig
from a3gnn.measurement import Failure, Measurement
from a3gnn.profiling.executor import PARTITIONING

_TAKEN_OVER = " (taken over from an earlier trial)"


def failed_partitioning(measurement: Measurement) -> tuple[Partitioner, int] | None:
    """Returns the partitioner and the number of parts that could not be made, or None for any other outcome."""
    outcome = measurement.outcome
    if not (isinstance(outcome, Failure) and outcome.detail.startswith(PARTITIONING)):
        return None
    return measurement.config.partitioner, measurement.config.num_partitions


class PartitionFailures:
    """The known failures to partition one graph on one machine."""

    def __init__(self) -> None:
        self._known: defaultdict[tuple[Partitioner, int], list[Measurement]] = defaultdict(list)

    def learn(self, measurement: Measurement) -> None:
        """Records `measurement` if its partitions were tried and failed."""
        parts = failed_partitioning(measurement)
        if parts is not None and isinstance(measurement.outcome, Failure) and not measurement.outcome.taken_over_from:
            self._known[parts].append(measurement)

    def of(self, config: TrainConfig, holds: Callable[[Measurement], bool]) -> Failure | None:
        """Returns the known failure to make the partitions of `config`, marked as taken over, or None.

        Args:
            config: A canonical configuration.
            holds: Whether a measurement counts for a trial under the current limits.
        """
        for known in reversed(self._known[config.partitioner, config.num_partitions]):
            if isinstance(known.outcome, Failure) and holds(known):
                detail = known.outcome.detail + _TAKEN_OVER
                return dataclasses.replace(known.outcome, detail=detail, taken_over_from=known.id)
        return None
