"""`allocate`: the allocation that fitted stage models recommend on so many cores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from a3gnn.config import ParallelMode
from a3gnn.runtime.allocation.allocation import Allocation
from a3gnn.runtime.allocation.solver import solve
from a3gnn.runtime.allocation.stage_model import Stage, StageModel
from a3gnn.units import count

Models = Mapping[Stage, StageModel]

# Predictions err: isolation is preferred to what `OverlapPolicy` finds by measuring only if predicted to take a tenth
# less. Guess.
_MAX_RELATIVE_SECONDS = 0.9


def allocate(models: Models, mode: ParallelMode, workers: int, cores: int, floor: float = 0.0) -> Allocation:
    """Returns the fastest allocation by the models, never of more threads at once than `cores`.

    Stages that overlap get cores of their own where that is predicted to take a tenth less than one stage after the
    other, each on all cores; of equally fast ones the allocation with fewer cores. Else, and where there are too few
    cores for that, it is not `isolated`.

    Args:
        models: Of each stage.
        mode: What overlaps: nothing, sampling and gather with training (mode1), or sampling alone (mode2).
        workers: Mini-batches that may be under way beside the one in training.
        cores: To be shared out.
        floor: Least seconds of a mini-batch, by the memory's bandwidth.
    """
    if mode == "sequential":
        return competing(1, cores, "in sequential mode no stages overlap: each has all cores")
    if cores < 2:
        return competing(workers, cores, f"stages that overlap need 2 cores at least, got {cores}: they compete")
    best = isolate(models, mode, workers, cores, floor)
    assert best.seconds is not None
    serial = models["sampling"].seconds(1) + models["gather"].seconds(cores) + models["training"].seconds(cores)
    serial = max(floor, serial)
    times = f"{best.seconds * 1e3:.3g} ms per mini-batch predicted, {serial * 1e3:.3g} with one stage after the other"
    if best.seconds >= _MAX_RELATIVE_SECONDS * serial:
        return competing(
            workers, cores, f"cores of their own don't pay for stages on {count(cores, 'core')}: {times}", serial
        )
    return dataclasses.replace(best, why=f"{best.cores(mode)} of {count(cores, 'core')} in isolation: {times}")


def isolate(models: Models, mode: ParallelMode, workers: int, cores: int, floor: float = 0.0) -> Allocation:
    """Returns the fastest allocation that gives stages which overlap cores of their own, whether or not that pays.

    Args:
        models: Of each stage.
        mode: mode1 or mode2.
        workers: As in `allocate`.
        cores: To be shared out, at least 2.
        floor: As in `allocate`.

    Raises:
        UsageError: There are fewer than 2 cores.
    """
    groupings = _Groupings(models, workers, cores, floor)
    if mode == "mode2":
        return groupings.sampling_apart()
    if workers == 1 or cores < 3:
        return groupings.pooled()
    return min(groupings.pooled(), groupings.all_apart(), key=lambda found: (found.seconds, found.cores(mode)))


def competing(workers: int, cores: int, why: str, seconds: float | None = None) -> Allocation:
    """Returns the allocation that leaves the stages to `OverlapPolicy`."""
    return Allocation(workers, cores, cores, isolated=False, seconds=seconds, why=why)


class _Groupings:
    """The fastest allocation by the models for each grouping of the stages on cores."""

    def __init__(self, models: Models, workers: int, cores: int, floor: float) -> None:
        threads = np.arange(1, cores + 1)
        times = {stage: model.shared / threads + model.fixed for stage, model in models.items()}
        self._sampling, self._gather, self._training = (times[stage] for stage in ("sampling", "gather", "training"))
        self._workers, self._cores, self._floor = workers, cores, floor

    def sampling_apart(self) -> Allocation:
        """Returns mode 2's: workers sample, and the caller gathers, then trains, on the same cores."""
        groups = (self._sampling[: self._workers], self._gather + self._training)
        (sampling, rest), seconds = solve(groups, self._cores, self._floor)
        return Allocation(sampling, rest, rest, seconds=seconds)

    def all_apart(self) -> Allocation:
        """Returns the paper's: each stage on cores of its own; one worker gathers while the others sample."""
        stages = (self._sampling[: self._workers - 1], self._gather, self._training)
        (sampling, gather, training), seconds = solve(stages, self._cores, self._floor)
        return Allocation(sampling, gather, training, seconds=seconds)

    def pooled(self) -> Allocation:
        """Returns that of workers which gather what they sampled: some workers at once, some threads each."""
        counts = np.arange(1, min(self._workers, self._cores) + 1)
        threads = np.arange(1, self._cores + 1)[:, None] // counts
        each = np.where(threads > 0, self._gather[threads - 1] + self._sampling[0], np.inf) / counts
        (workers, training), seconds = solve((each.min(axis=1), self._training), self._cores, self._floor)
        at_once = int(counts[each[workers - 1].argmin()])
        return Allocation(at_once, workers // at_once, training, pooled=True, seconds=seconds)
