"""`allocate`: divides cores among the pipeline's stages by fitted models of their times (BGL, section 3.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.config import ParallelMode
from a3gnn.errors import UsageError
from a3gnn.units import count

Stage = Literal["sampling", "gather", "training"]
STAGES: tuple[Stage, ...] = ("sampling", "gather", "training")

# Shorter times are below the clock's resolution; a caller that trains nothing gets this time for its training stage.
_MIN_SECONDS = 1e-9
# Predictions err, so isolation must be predicted to take a tenth less than `OverlapPolicy`, which measures. Guess.
_MAX_RELATIVE_SECONDS = 0.9


@dataclass(frozen=True, slots=True)
class StageModel:
    """`shared / threads + fixed` seconds per mini-batch (BGL, section 3.4: T / c, and a / c + d for the cache stage).

    Attributes:
        shared: Seconds of work that threads share, for one thread, >= 0.
        fixed: Seconds that threads do not reduce, >= 0.
        r2: Share of the measured times' variance that the model explains; 1 if constant times are matched exactly.
        worst: Largest error of a predicted time, relative to the measured one.
    """

    shared: float
    fixed: float = 0.0
    r2: float = 1.0
    worst: float = 0.0

    def seconds(self, threads: int) -> float:
        """Returns the seconds of a mini-batch with `threads` threads."""
        return self.shared / threads + self.fixed


Models = Mapping[Stage, StageModel]


@dataclass(frozen=True, slots=True)
class Allocation:
    """Threads of each stage.

    Stages that overlap have cores of their own. Stages that run one after the other on one thread share cores: gather
    and training in mode 2, all three in sequential mode.

    Attributes:
        sampling: Mini-batches that are sampled at once, one thread each.
        gather: Threads of a gather.
        training: Threads of the training step.
        pooled: Mode 1 only: whether each of the `sampling` workers also gathers its mini-batch, with `gather` threads.
            If not, mini-batches are gathered one at a time, on separate cores.
        isolated: Whether stages keep to these numbers. If not, they compete for cores as `OverlapPolicy` decides, and
            the numbers are upper bounds.
        seconds: Predicted seconds from one mini-batch to the next; None without a prediction.
        why: The reason, as a phrase for people.

    Raises:
        UsageError: A stage has no thread.
    """

    sampling: int
    gather: int
    training: int
    pooled: bool = False
    isolated: bool = True
    seconds: float | None = None
    why: str = "requested"

    def __post_init__(self) -> None:
        for stage in STAGES:
            whole_number(stage, getattr(self, stage), 1, "each stage needs a thread", kind=int)

    def groups(self, mode: ParallelMode) -> tuple[tuple[tuple[Stage, ...], int], ...]:
        """Returns each group of stages that share cores, with its number of cores; training's group is first."""
        if mode == "sequential":
            return ((STAGES, max(self.gather, self.training)),)
        if mode == "mode2":
            return (("training", "gather"), max(self.gather, self.training)), (("sampling",), self.sampling)
        if self.pooled:
            return (("training",), self.training), (("gather", "sampling"), self.gather * self.sampling)
        return (("training",), self.training), (("gather",), self.gather), (("sampling",), self.sampling)

    def cores(self, mode: ParallelMode) -> int:
        """Returns the total number of cores that the allocation needs."""
        return sum(count for _, count in self.groups(mode))

    def places(self, mode: ParallelMode, available: frozenset[int]) -> dict[Stage, frozenset[int]]:
        """Assigns `available` cores to each stage; assigns none to any stage if there are too few."""
        rest = sorted(available)
        if self.cores(mode) > len(rest):
            return dict.fromkeys(STAGES, frozenset())
        found: dict[Stage, frozenset[int]] = {}
        for stages, cores in self.groups(mode):
            found |= dict.fromkeys(stages, frozenset(rest[:cores]))
            rest = rest[cores:]
        return found


def allocate(models: Models, mode: ParallelMode, workers: int, cores: int, floor: float = 0.0) -> Allocation:
    """Returns the fastest allocation by the models, with at most `cores` threads at once.

    Stages that overlap get cores of their own, if this is predicted to take a tenth less than one stage after the
    other, each on all cores. Between equally fast allocations, it takes the one with fewer cores. Otherwise, or with
    too few cores, the result is not `isolated`.

    Args:
        models: The model of each stage.
        mode: Decides what overlaps with training: nothing, sampling and gather (mode1), or only sampling (mode2).
        workers: Mini-batches that may be under way besides the one in training.
        cores: Number of cores to divide.
        floor: Lower bound of the seconds per mini-batch, by the memory's bandwidth.
    """
    if mode == "sequential":
        return competing(1, cores, "stages do not overlap in sequential mode, so each has all cores")
    if cores < 2:
        return competing(workers, cores, f"overlapping stages need at least 2 cores, got {cores}, so they compete")
    best = isolate(models, mode, workers, cores, floor)
    assert best.seconds is not None
    serial = models["sampling"].seconds(1) + models["gather"].seconds(cores) + models["training"].seconds(cores)
    serial = max(floor, serial)
    times = f"predicted {best.seconds * 1e3:.3g} ms per mini-batch, {serial * 1e3:.3g} with one stage after the other"
    if best.seconds >= _MAX_RELATIVE_SECONDS * serial:
        return competing(
            workers,
            cores,
            f"stages compete for {count(cores, 'core')}, because cores of their own would gain too little: {times}",
            serial,
        )
    return dataclasses.replace(
        best, why=f"stages use {best.cores(mode)} of {count(cores, 'core')}, each its own: {times}"
    )


def isolate(models: Models, mode: ParallelMode, workers: int, cores: int, floor: float = 0.0) -> Allocation:
    """Returns the fastest allocation that gives overlapping stages cores of their own, even if that does not pay.

    Args:
        models: The model of each stage.
        mode: mode1 or mode2.
        workers: See `allocate`.
        cores: Number of cores to divide, at least 2.
        floor: See `allocate`.

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


def fit(threads: Sequence[int], seconds: Sequence[float], *, fixed: bool) -> StageModel:
    """Fits a model by least squares of errors relative to the measured times.

    Errors are relative, because a time with many threads is short, and yet as likely to belong to the slowest stage as
    a time with few threads.

    Args:
        threads: Number of threads in each measurement, >= 1.
        seconds: Time of each measurement.
        fixed: Whether the model has a `fixed` part; if not, time is proportional to 1 / threads.

    Raises:
        UsageError: There is no measurement, or the lengths differ.
    """
    if not len(threads) or len(threads) != len(seconds):
        raise UsageError(f"a fit needs one time per thread count, got {len(threads)} counts and {len(seconds)} times")
    from scipy.optimize import nnls  # here, because most trials fit nothing, and it is a tenth of their imports

    inverse = 1.0 / np.asarray(threads, dtype=np.float64)
    times = np.maximum(np.asarray(seconds, dtype=np.float64), _MIN_SECONDS)
    terms = np.column_stack([inverse, np.ones_like(inverse)]) if fixed else inverse[:, None]
    weights, _ = nnls(terms / times[:, None], np.ones_like(times))
    predicted = terms @ weights
    rest = float(weights[1]) if fixed else 0.0
    worst = float(np.abs(predicted / times - 1).max())
    return StageModel(float(weights[0]), rest, _explained(times, predicted), worst)


class Solution(NamedTuple):
    """Cores of each stage, and the seconds from one mini-batch to the next."""

    cores: tuple[int, ...]
    seconds: float


def solve(seconds: Sequence[NDArray[np.float64]], cores: int, floor: float = 0.0) -> Solution:
    """Divides `cores` among stages, at least one each, so that the slowest stage is as fast as possible (section 3.4).

    The optimum is one of the stages' times, or the floor. For each of these values, every stage gets the fewest cores
    that keep it. The result is the least value that fits, with the fewest cores that reach it. The search is
    exhaustive, even if times rise with cores. It examines `stages * cores` values, instead of the `cores ** stages`
    combinations of cores.

    Args:
        seconds: Each stage's time with 1, 2, ... cores. A stage can't use more cores than it has times; a stage that
            cores don't speed up has a single time.
        cores: Total number of cores.
        floor: Lower bound of the seconds per mini-batch, such as its bytes divided by the memory bandwidth.

    Raises:
        UsageError: There are fewer cores than stages.
    """
    if not seconds or cores < len(seconds):
        raise UsageError(f"each stage needs a core, got {count(len(seconds), 'stage')} and {count(cores, 'core')}")
    tables = [np.maximum(times[:cores], floor) for times in seconds]
    periods = np.unique(np.concatenate(tables))
    kept = [table[None, :] <= periods[:, None] for table in tables]
    fewest = np.stack([table.argmax(axis=1) + 1 for table in kept], axis=1)
    fits = np.stack([table.any(axis=1) for table in kept]).all(axis=0) & (fewest.sum(axis=1) <= cores)
    best = int(fits.argmax())  # one always fits: with one core per stage, the slowest stage's time
    return Solution(tuple(fewest[best].tolist()), float(periods[best]))


class _Groupings:
    """The fastest allocation by the models for each grouping of the stages on cores."""

    def __init__(self, models: Models, workers: int, cores: int, floor: float) -> None:
        threads = np.arange(1, cores + 1)
        times = {stage: model.shared / threads + model.fixed for stage, model in models.items()}
        self._sampling, self._gather, self._training = (times[stage] for stage in ("sampling", "gather", "training"))
        self._workers, self._cores, self._floor = workers, cores, floor

    def sampling_apart(self) -> Allocation:
        """Returns the allocation of mode 2: workers sample; the caller gathers and trains on the same cores."""
        groups = (self._sampling[: self._workers], self._gather + self._training)
        (sampling, rest), seconds = solve(groups, self._cores, self._floor)
        return Allocation(sampling, rest, rest, seconds=seconds)

    def all_apart(self) -> Allocation:
        """Returns the paper's allocation: each stage has its own cores; one worker gathers while the others sample."""
        stages = (self._sampling[: self._workers - 1], self._gather, self._training)
        (sampling, gather, training), seconds = solve(stages, self._cores, self._floor)
        return Allocation(sampling, gather, training, seconds=seconds)

    def pooled(self) -> Allocation:
        """Returns the allocation of workers that sample and gather: some workers at once, with some threads each."""
        counts = np.arange(1, min(self._workers, self._cores) + 1)
        threads = np.arange(1, self._cores + 1)[:, None] // counts
        each = np.where(threads > 0, self._gather[threads - 1] + self._sampling[0], np.inf) / counts
        (workers, training), seconds = solve((each.min(axis=1), self._training), self._cores, self._floor)
        at_once = int(counts[each[workers - 1].argmin()])
        return Allocation(at_once, workers // at_once, training, pooled=True, seconds=seconds)


def _explained(times: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Returns the coefficient of determination."""
    missed = float(((times - predicted) ** 2).sum())
    spread = float(((times - times.mean()) ** 2).sum())
    if spread > 0:
        return 1 - missed / spread
    return 1.0 if np.allclose(times, predicted) else 0.0
