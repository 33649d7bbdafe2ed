"""`Allocation`: how many threads each stage has, and why."""

from __future__ import annotations

from dataclasses import dataclass

from a3gnn.checks import whole_number
from a3gnn.config import ParallelMode
from a3gnn.runtime.allocation.stage_model import STAGES, Stage


@dataclass(frozen=True, slots=True)
class Allocation:
    """Threads of each stage.

    Stages that overlap have cores of their own; stages that run one after the other on one thread share theirs: gather
    and training in mode 2, all three in sequential mode.

    Attributes:
        sampling: Mini-batches that are sampled at once, a thread each.
        gather: Threads of a gather.
        training: Threads of the training step.
        pooled: Mode 1 only: whether each of the `sampling` workers gathers, with `gather` threads, what it sampled. If
            not, mini-batches are gathered one at a time, on cores apart.
        isolated: Whether the numbers are kept. If not, stages compete for the cores as `OverlapPolicy` finds best, and
            the numbers are the most that each stage then has.
        seconds: Predicted from one mini-batch to the next; None where nobody predicted it.
        why: A sentence.

    Raises:
        UsageError: A stage has no thread.
    """

    sampling: int
    gather: int
    training: int
    pooled: bool = False
    isolated: bool = True
    seconds: float | None = None
    why: str = "asked for"

    def __post_init__(self) -> None:
        for stage in STAGES:
            whole_number(stage, getattr(self, stage), 1, "each stage needs a thread", kind=int)

    def groups(self, mode: ParallelMode) -> tuple[tuple[tuple[Stage, ...], int], ...]:
        """Returns the stages that share cores, training's first, and how many cores each group has."""
        if mode == "sequential":
            return ((STAGES, max(self.gather, self.training)),)
        if mode == "mode2":
            return (("training", "gather"), max(self.gather, self.training)), (("sampling",), self.sampling)
        if self.pooled:
            return (("training",), self.training), (("gather", "sampling"), self.gather * self.sampling)
        return (("training",), self.training), (("gather",), self.gather), (("sampling",), self.sampling)

    def cores(self, mode: ParallelMode) -> int:
        """Returns the cores that it takes in all."""
        return sum(count for _, count in self.groups(mode))

    def places(self, mode: ParallelMode, available: frozenset[int]) -> dict[Stage, frozenset[int]]:
        """Returns the cores of each stage, of those `available`; no cores for any where they don't suffice."""
        rest = sorted(available)
        if self.cores(mode) > len(rest):
            return dict.fromkeys(STAGES, frozenset())
        found: dict[Stage, frozenset[int]] = {}
        for stages, count in self.groups(mode):
            found |= dict.fromkeys(stages, frozenset(rest[:count]))
            rest = rest[count:]
        return found
