"""`Assignment`: the seeds of each trainer in a mini-batch, and the threads of each stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.hybrid.stage_times import TrainerKind
from a3gnn.units import count


@dataclass(frozen=True, slots=True)
class Threads:
    """The host's threads by stage; a stage that has work needs at least one.

    Attributes:
        sampling: Threads that sample on the processors.
        loading: Threads that load features.
        training: Threads of the trainers on processors.
    """

    sampling: int
    loading: int
    training: int

    @property
    def total(self) -> int:
        """Threads in all."""
        return self.sampling + self.loading + self.training


@dataclass(frozen=True, slots=True)
class Assignment:
    """The division of one mini-batch, for real and simulated trainers.

    Attributes:
        shares: Seeds of each trainer, in the same order; 0 leaves a trainer out.
        sampled_on_accelerators: Seeds whose neighbors accelerators sample, equally many each. Processors sample for the
            other seeds. Where a seed is sampled does not depend on where it is trained.
        threads: The host's threads by stage.
        weights: The trainers of a kind share a new total of their kind in proportion to these, such as their speeds.
            Equal if empty.
        trainer_threads: The host's threads by trainer, which sum to `threads.training`. Empty if trainers have no
            threads of their own.

    Raises:
        UsageError: Numbers do not fit together, or a stage that has work has no thread.
    """

    kinds: tuple[TrainerKind, ...]
    shares: tuple[int, ...]
    sampled_on_accelerators: int
    threads: Threads
    weights: tuple[float, ...] = ()
    trainer_threads: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.kinds) != len(self.shares):
            raise UsageError(
                f"shares must have one number per trainer, got {len(self.shares)} for "
                f"{count(len(self.kinds), 'trainer')}"
            )
        if self.weights and (len(self.weights) != len(self.kinds) or min(self.weights) <= 0):
            raise UsageError(
                f"weights must have one number above 0 per trainer, got {self.weights}; leave them out for equal "
                "weights"
            )
        own = self.trainer_threads
        if own and (len(own) != len(self.kinds) or sum(own) != self.threads.training):
            raise UsageError(
                "trainer_threads must have one number per trainer and sum to threads.training "
                f"{self.threads.training}, got {own}; leave them out if threads change between stages"
            )
        for share in self.shares:
            whole_number("shares", share, 0, "0 leaves a trainer out")
        batch, sampled = self.batch_size, self.sampled_on_accelerators
        if batch < 1 or not 0 <= sampled <= batch:
            raise UsageError(
                f"sampled_on_accelerators must be in [0, seeds], and seeds must be >= 1, got {sampled} of {batch} seeds"
            )
        if sampled and "accelerator" not in self.kinds:
            raise UsageError(f"sampled_on_accelerators must be 0 without an accelerator, got {sampled}")
        work = (("sampling", batch - sampled), ("loading", batch), ("training", self.seeds_of("processor")))
        for stage, seeds in work:
            threads = getattr(self.threads, stage)
            whole_number(f"threads.{stage}", threads, 1 if seeds else 0, "a stage with work needs a thread")

    @property
    def batch_size(self) -> int:
        """Seeds of the mini-batch."""
        return sum(self.shares)

    def seeds_of(self, kind: TrainerKind) -> int:
        """Returns the seeds of all trainers of `kind`."""
        return sum(share for share, own in zip(self.shares, self.kinds, strict=True) if own == kind)

    def divided(self, on_processors: int, sampled_on_accelerators: int, threads: Threads) -> Assignment:
        """Returns the division of the same mini-batch in which processors train `on_processors` seeds."""
        shares = list(self.shares)
        parts: tuple[tuple[TrainerKind, int], ...] = (
            ("processor", on_processors),
            ("accelerator", self.batch_size - on_processors),
        )
        for kind, seeds in parts:
            places = [place for place, other in enumerate(self.kinds) if other == kind]
            weights = [self.weights[place] if self.weights else 1.0 for place in places]
            for place, share in zip(places, divide(seeds, weights), strict=True):
                shares[place] = share
        return dataclasses.replace(
            self, shares=tuple(shares), sampled_on_accelerators=sampled_on_accelerators, threads=threads
        )


def trainer_kinds(num_accelerators: int) -> tuple[TrainerKind, ...]:
    """Returns the kinds of the usual trainers: the processors, then each accelerator."""
    accelerator: TrainerKind = "accelerator"
    return ("processor", *(accelerator for _ in range(num_accelerators)))


def divide(total: int, weights: Sequence[float]) -> list[int]:
    """Splits `total` into whole numbers in proportion to `weights`, all above 0, by largest remainders.

    Raises:
        UsageError: `total` is not 0, and there are no weights.
    """
    if not weights:
        if total:
            raise UsageError(f"{total} seeds need a trainer, but none of their kind exists")
        return []
    whole = sum(weights)
    exact = [total * weight / whole for weight in weights]
    parts = [int(part) for part in exact]
    by_remainder = sorted(range(len(parts)), key=lambda place: parts[place] - exact[place])
    for place in by_remainder[: total - sum(parts)]:
        parts[place] += 1
    return parts
