"""`StageTimes`: what each stage of an iteration took, as measured."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

#: What is changed while training runs.
Adjusted = TypeVar("Adjusted")


class Adjusts(Protocol[Adjusted]):
    """Changes how mini-batches are worked on by measured seconds."""

    def adjust(self, assignment: Adjusted, times: StageTimes) -> Adjusted:
        """Returns what holds for the mini-batches to come: `assignment` itself where nothing is to change.

        Args:
            assignment: What was measured.
            times: Means over mini-batches that were worked on so, in a pipeline that held no others.
        """


PipelineStage = Literal["sampling", "loading", "transfer", "propagation"]


#: What a trainer runs on; accelerators have memory of their own behind a link.
TrainerKind = Literal["processor", "accelerator"]


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds per mini-batch by stage, of work alone; 0 where a stage has none.

    Attributes:
        kinds: What each trainer runs on.
        sampling_processor: Sampling on the processors.
        sampling_accelerators: Sampling on the accelerators, the slowest one's.
        loading: Feature loading.
        transfer: Of each trainer; 0 on processors.
        training: Forward and backward propagation of each trainer.
        synchronisation: Reducing and broadcasting the gradients.
        iteration: From one mini-batch to the next; None where it is not known.
    """

    kinds: tuple[TrainerKind, ...]
    sampling_processor: float
    sampling_accelerators: float
    loading: float
    transfer: tuple[float, ...]
    training: tuple[float, ...]
    synchronisation: float
    iteration: float | None = None

    @property
    def by_stage(self) -> dict[PipelineStage, float]:
        """Of each stage of the pipeline: of its slowest part."""
        return {
            "sampling": max(self.sampling_processor, self.sampling_accelerators),
            "loading": self.loading,
            "transfer": max(self.transfer),
            "propagation": self.propagation,
        }

    def with_iteration(self, seconds: float) -> StageTimes:
        """Returns these with the seconds from one mini-batch to the next."""
        return dataclasses.replace(self, iteration=seconds)

    @property
    def propagation(self) -> float:
        """Of the whole stage: the slowest trainer, then synchronisation (Eq. 9)."""
        return max(self.training) + self.synchronisation

    @property
    def training_processor(self) -> float:
        """Of the slowest processor (T_TC)."""
        return self._slowest(self.training, "processor")

    @property
    def accelerators(self) -> float:
        """T_Accel of Algorithm 1: the larger of transfer and training on accelerators."""
        return max(self._slowest(self.transfer, "accelerator"), self.training_accelerators)

    @property
    def training_accelerators(self) -> float:
        """Of the slowest accelerator, without the transfer (T_TA)."""
        return self._slowest(self.training, "accelerator")

    def _slowest(self, seconds: Sequence[float], kind: TrainerKind) -> float:
        own = (value for value, other in zip(seconds, self.kinds, strict=True) if other == kind)
        return max(own, default=0.0)

    @classmethod
    def mean(cls, times: Sequence[StageTimes]) -> StageTimes:
        """Returns the mean of each field of `times`, which are of the same trainers."""
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
            mean("synchronisation"),
            statistics.fmean(known) if known else None,
        )
