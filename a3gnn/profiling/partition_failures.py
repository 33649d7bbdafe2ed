"""Partitions that could not be made: known from a run and from stored rows, so that none is tried for each trial."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

from a3gnn.config import Partitioner, TrainConfig
from a3gnn.measurement import Failure, Measurement
from a3gnn.profiling.executor import PARTITIONING

_TAKEN_OVER = " (taken over from an earlier trial)"


def failed_partitioning(measurement: Measurement) -> tuple[Partitioner, int] | None:
    """Returns the partitioner and the number of parts that could not be made, or None where it was not for that."""
    outcome = measurement.outcome
    if not (isinstance(outcome, Failure) and outcome.detail.startswith(PARTITIONING)):
        return None
    return measurement.config.partitioner, measurement.config.num_partitions


class PartitionFailures:
    """What is known of partitions of one graph on one machine that failed."""

    def __init__(self) -> None:
        self._known: defaultdict[tuple[Partitioner, int], list[Measurement]] = defaultdict(list)

    def learn(self, measurement: Measurement) -> None:
        """Takes note of `measurement` if its partitions failed, and were tried for it."""
        parts = failed_partitioning(measurement)
        if parts is not None and isinstance(measurement.outcome, Failure) and not measurement.outcome.taken_over_from:
            self._known[parts].append(measurement)

    def of(self, config: TrainConfig, holds: Callable[[Measurement], bool]) -> Failure | None:
        """Returns the failure that making the partitions of `config` would end with, marked as taken over, or None.

        Args:
            config: A canonical configuration.
            holds: Whether a measurement stands for a trial under the limits that apply now.
        """
        for known in reversed(self._known[config.partitioner, config.num_partitions]):
            if isinstance(known.outcome, Failure) and holds(known):
                detail = known.outcome.detail + _TAKEN_OVER
                return dataclasses.replace(known.outcome, detail=detail, taken_over_from=known.id)
        return None
