"""`History`: the trials of a tune, and what they say: which keep the limits, which is best, what the front is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.objectives import Objectives
from a3gnn.pareto import hypervolume
from a3gnn.profiling.partition_failures import failed_partitioning
from a3gnn.report.front import Front, MeasuredConfig
from a3gnn.space import SearchSpace
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.study import Study
from a3gnn.tuning.trial import MeasuredTrial, Trial

#: The hypervolume's reference point is the first measurement's costs (-log2 throughput, log2 memory, -accuracy) plus
#: this. Guess.
_REFERENCE_MARGIN = np.array([3.0, 3.0, 0.1])


@dataclass(frozen=True)
class History:
    """The trials of one tune, judged by its study; immutable, so `with_trial` returns a new one.

    Attributes:
        study: What is fixed.
        trials: In the order in which they were made.
    """

    study: Study
    trials: tuple[Trial, ...] = ()

    def with_trial(self, trial: Trial) -> Self:
        """Returns the history with `trial` at its end."""
        return dataclasses.replace(self, trials=(*self.trials, trial))

    @cached_property
    def space(self) -> SearchSpace:
        """What may still be chosen: the study's space, without the partitions that could not be made.

        A partitioner that failed to make so many parts is assumed to fail at more; others are not.
        """
        space = self.study.space
        for trial in self.trials:
            config = trial.measurement.config
            if failed_partitioning(trial.measurement) is not None and space.can_make(config):
                space = space.without_parts(config.partitioner, config.num_partitions)
        return space

    @cached_property
    def objectives(self) -> Objectives:
        """What is wanted, with the least accuracy once there is one to compare with.

        That is the default's; where the default does not fit, the best that was measured.
        """
        best = max((metrics.test_accuracy for _, metrics in self.measured()), default=None)
        reference = self.reference_accuracy
        return self.study.objectives(best if reference is None else reference)

    @property
    def default(self) -> Trial | None:
        """The trial of the default configuration."""
        return next((t for t in self.trials if t.measurement.config == TrainConfig().canonical()), None)

    @property
    def reference_accuracy(self) -> float | None:
        """Test accuracy of the default configuration, or of one that trains bit-identically to it."""
        same = TrainConfig().learning_key()
        found = (t.measurement.metrics for t in self.trials if t.measurement.config.learning_key() == same)
        return next((metrics.test_accuracy for metrics in found if metrics), None)

    def measured(self) -> list[MeasuredTrial]:
        """Returns the trials that succeeded, with their metrics."""
        outcomes = ((trial, trial.measurement.outcome) for trial in self.trials)
        return [MeasuredTrial(trial, outcome) for trial, outcome in outcomes if isinstance(outcome, Metrics)]

    def failures(self) -> list[Failure]:
        """Returns what went wrong in the trials that did not."""
        return [t.measurement.outcome for t in self.trials if isinstance(t.measurement.outcome, Failure)]

    def feasible(self) -> list[MeasuredTrial]:
        """Returns the trials that keep every limit as measured."""
        return [one for one in self.measured() if not self.objectives.limits.broken_by(one.metrics)]

    def inside(self) -> list[MeasuredTrial]:
        """Returns the measured trials inside the space; fixed or restricted knobs may leave the default outside."""
        return [one for one in self.measured() if self.row(one.trial.measurement.config) is not None]

    def eligible(self) -> list[MeasuredTrial]:
        """Returns the trials inside the space that keep every limit as measured: what may be chosen."""
        return [one for one in self.inside() if not self.objectives.limits.broken_by(one.metrics)]

    def fits_memory(self) -> bool:
        """Returns whether anything inside the space kept the memory limits as measured, whatever its accuracy."""
        limits = dataclasses.replace(self.objectives.limits, least_accuracy=None)
        return any(not limits.broken_by(metrics) for _, metrics in self.inside())

    def best(self) -> MeasuredTrial | None:
        """Returns the eligible trial that the priority prefers."""
        kept = self.eligible()
        return kept[self.objectives.best_index([one.metrics for one in kept])] if kept else None

    def front(self, chosen: TrainConfig | None = None) -> Front:
        """Returns the front of everything that was measured."""
        found = [MeasuredConfig(t.measurement.config, metrics, t.predicted) for t, metrics in self.measured()]
        return Front.of(found, self.objectives, chosen)

    def hypervolume(self) -> float:
        """Returns the volume that the feasible trials dominate, up to a reference point behind the first one."""
        kept = [metrics for _, metrics in self.feasible()]
        if not kept:
            return 0.0
        first = self.objectives.measured_costs([self.measured()[0].metrics])[0]
        return hypervolume(self.objectives.measured_costs(kept), first + _REFERENCE_MARGIN)

    def row(self, config: TrainConfig) -> Rows | None:
        """Returns the row of `config`, which is canonical, or None where it lies outside the space."""
        try:
            return self.space.encode(config)
        except ConfigError:
            return None

    def seen(self) -> set[bytes]:
        """Returns the rows that were tried, as bytes."""
        return self._rows(self.trials)

    def settled(self) -> set[bytes]:
        """Returns the rows that were tried and did not run out of memory, as bytes."""
        return self._rows(t for t in self.trials if not _ran_out_of_memory(t.measurement.outcome))

    def _rows(self, trials: Iterable[Trial]) -> set[bytes]:
        rows = (self.row(trial.measurement.config) for trial in trials)
        return {row.tobytes() for row in rows if row is not None}


def _ran_out_of_memory(outcome: Metrics | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY
