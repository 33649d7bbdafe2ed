"""`StageTimes`: the measured seconds of each stage of an iteration."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

PipelineStage = Literal["sampling", "loading", "transfer", "propagation"]
#: Kind of a trainer's device; accelerators have memory of their own behind a link.
TrainerKind = Literal["processor", "accelerator"]


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of work per mini-batch by stage, without waiting; 0 for a stage without work.

    Attributes:
        kinds: The kind of each trainer's device.
        sampling_processor: Sampling on the processors.
        sampling_accelerators: Sampling on the slowest accelerator.
        loading: Feature loading.
        transfer: Transfer to each trainer; 0 on processors.
        training: Forward and backward propagation of each trainer.
        synchronization: Reducing and broadcasting the gradients.
        iteration: From one mini-batch to the next; None if unknown.
    """

    kinds: tuple[TrainerKind, ...]
    sampling_processor: float
    sampling_accelerators: float
    loading: float
    transfer: tuple[float, ...]
    training: tuple[float, ...]
    synchronization: float
    iteration: float | None = None

    @property
    def by_stage(self) -> dict[PipelineStage, float]:
        """Seconds of each pipeline stage's slowest part."""
        return {
            "sampling": max(self.sampling_processor, self.sampling_accelerators),
            "loading": self.loading,
            "transfer": max(self.transfer),
            "propagation": self.propagation,
        }

    def with_iteration(self, seconds: float) -> StageTimes:
        """Returns a copy with `seconds` from one mini-batch to the next."""
        return dataclasses.replace(self, iteration=seconds)

    @property
    def propagation(self) -> float:
        """Seconds of the whole propagation stage: the slowest trainer, then synchronization (Eq. 9)."""
        return max(self.training) + self.synchronization

    @property
    def training_processor(self) -> float:
        """Training seconds of the slowest processor (T_TC)."""
        return self._slowest(self.training, "processor")

    @property
    def accelerators(self) -> float:
        """T_Accel of Algorithm 1: the larger of transfer and training on accelerators."""
        return max(self._slowest(self.transfer, "accelerator"), self.training_accelerators)

    @property
    def training_accelerators(self) -> float:
        """Training seconds of the slowest accelerator, without the transfer (T_TA)."""
        return self._slowest(self.training, "accelerator")

    def _slowest(self, seconds: Sequence[float], kind: TrainerKind) -> float:
        own = (value for value, other in zip(seconds, self.kinds, strict=True) if other == kind)
        return max(own, default=0.0)

    @classmethod
    def mean(cls, times: Sequence[StageTimes]) -> StageTimes:
        """Returns the mean of each field of `times`, which must have the same trainers."""
        first = times[0]

        def mean(name: str) -> float:
            return statistics.fmean(getattr(one, name) for one in times)

        def means(name: str) -> tuple[float, ...]:
            return tuple(map(statistics.fmean, zip(*(getattr(one, name) for one in times), strict=True)))

        known = [one.iteration for one in times if one.iteration is not None]
        return cls(
            first.kinds,
            mean("sampling_processor"),
            mean("sampling_accelerators"),
            mean("loading"),
            means("transfer"),
            means("training"),
            mean("synchronization"),
            statistics.fmean(known) if known else None,
        )
