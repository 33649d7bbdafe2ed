"""What a run on the virtual clock shows: who did what when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from a3gnn.checks import whole_number
from a3gnn.hybrid.assignment import Assignment
from a3gnn.nvtps import mteps
from a3gnn.training.adapting.stage_times import StageTimes

#: What is measured: each stage, and the part of propagation in which gradients are exchanged.
MeasuredStage = Literal["sampling", "loading", "transfer", "propagation", "synchronisation"]


class Span(NamedTuple):
    """Some work of one stage for one mini-batch.

    Attributes:
        stage: Whose work it is.
        batch: Number of the mini-batch, from 0.
        trainer: Place of the trainer for which or on which it is; None for all.
        begin: Seconds on the virtual clock.
        end: Likewise.
    """

    stage: MeasuredStage
    batch: int
    trainer: int | None
    begin: float
    end: float


@dataclass(slots=True)
class Trace:
    """A run on the virtual clock.

    Attributes:
        spans: In the order in which they ended.
        ends: When each mini-batch was trained, in seconds.
        edges: Edges that all trainers traversed for each mini-batch, as in Eq. 5.
        times: Stage times of each mini-batch.
        assignments: Of each mini-batch.
    """

    spans: list[Span] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    times: list[StageTimes] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)

    def seconds_per_batch(self, skipped: int, drained: int = 0) -> float:
        """Returns the seconds from one mini-batch to the next while the pipeline is full.

        Args:
            skipped: The first mini-batches, which fill it.
            drained: The last ones, which have it to themselves.

        Raises:
            UsageError: None is skipped, or nothing is left.
        """
        ends = self._full(skipped, drained)
        return (ends[-1] - ends[0]) / (len(ends) - 1)

    def mteps(self, skipped: int, drained: int = 0) -> float:
        """Returns millions of traversed edges per second (Eq. 5); arguments and errors are `seconds_per_batch`'s."""
        ends = self._full(skipped, drained)
        return mteps(sum(self.edges[skipped : skipped + len(ends) - 1]), ends[-1] - ends[0])

    def _full(self, skipped: int, drained: int) -> list[float]:
        """Returns the ends that count, after that of the last mini-batch that is skipped."""
        whole_number("skipped", skipped, 1, "the first one fills the pipeline")
        whole_number("drained", drained, 0)
        whole_number("mini-batches", len(self.ends), skipped + drained + 1, f"{skipped} and {drained} do not count")
        return self.ends[skipped - 1 : len(self.ends) - drained]
