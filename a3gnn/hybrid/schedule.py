"""The stages that overlap: the depth of each hand-over in the pipeline of four stages (HyScale-GNN, section IV-B)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.hybrid.stage_times import PipelineStage

#: Whether mini-batches are sampled whole and then cut, or each share for itself.
TrainerSampling = Literal["whole", "independent"]
TRAINER_SAMPLINGS: tuple[TrainerSampling, ...] = get_args(TrainerSampling)
#: Seconds that a stage of a mini-batch may take: a hundred times the time of large ones. Guess.
STALL_S = 120.0


T = TypeVar("T", float, NDArray[np.float64])
STAGES: tuple[PipelineStage, ...] = get_args(PipelineStage)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many mini-batches each stage may be ahead of the next one.

    A depth of 0 fuses a stage with the next: both work on one mini-batch, one after the other. With 1, a stage begins a
    mini-batch once the next stage has begun the one before. In the steady state, tick t samples mini-batch t, loads
    t - 1, transfers t - 2 and propagates t - 3 (Fig. 7). A larger depth smooths variation between mini-batches, and
    takes memory for as many more mini-batches.

    Attributes:
        sampled: Mini-batches that may wait for loading.
        loaded: Mini-batches that may wait for transfer.
        transferred: Mini-batches that may wait for propagation, in the accelerators' memory.
    """

    sampled: int = 1
    loaded: int = 1
    transferred: int = 1

    def __post_init__(self) -> None:
        for name in ("sampled", "loaded", "transferred"):
            whole_number(name, getattr(self, name), 0, "0 runs the stage and the next one in turn")

    @property
    def depths(self) -> tuple[int, int, int]:
        """The depth after each stage but the last."""
        return self.sampled, self.loaded, self.transferred

    @property
    def groups(self) -> tuple[tuple[PipelineStage, ...], ...]:
        """Groups of stages that run one after the other; groups overlap."""
        found: list[tuple[PipelineStage, ...]] = [(STAGES[0],)]
        for stage, depth in zip(STAGES[1:], self.depths, strict=True):
            if depth:
                found.append((stage,))
            else:
                found[-1] = (*found[-1], stage)
        return tuple(found)

    def iteration_seconds(self, seconds: Mapping[PipelineStage, T]) -> T:
        """Returns the seconds from one mini-batch to the next if groups don't hinder each other (Eq. 6).

        Args:
            seconds: Seconds of each stage; numbers, or arrays that broadcast.
        """
        groups = [sum((seconds[stage] for stage in group[1:]), seconds[group[0]]) for group in self.groups]
        longest: T = reduce(np.maximum, groups)
        return longest


#: The paper's schedule.
TWO_STAGE_PREFETCHING = Schedule()
