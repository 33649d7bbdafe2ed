"""`Adaptation`: a controller that divides mini-batches among several trainers in a real training run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.controller import Controller
from a3gnn.training.adapting.drift import Drift, shown
from a3gnn.training.adapting.recorded import Change, Recorded
from a3gnn.training.adapting.stage_times import StageTimes

#: Fields of a division that change, and that a checkpoint keeps.
_KEPT = "shares", "weights", "trainer_threads"


@dataclass(slots=True, kw_only=True)
class DivisionChange(Change):
    """A division that replaced another one.

    Attributes:
        shares: Seeds of each trainer.
        threads: The host's threads of each trainer.
        shares_before: Seeds of each trainer before.
        threads_before: The host's threads of each trainer before.
    """

    shares: list[int]
    threads: list[int]
    shares_before: list[int]
    threads_before: list[int]

    @property
    def what(self) -> str:
        """The change, for people."""
        pairs = (("shares", self.shares_before, self.shares), ("threads", self.threads_before, self.threads))
        return "; ".join(f"{name} {_listed(was)} -> {_listed(now)}" for name, was, now in pairs if was != now)

    def takes_back(self, other: Change) -> bool:
        """Returns whether this is the division before `other`."""
        assert isinstance(other, DivisionChange), "trainers of one run have divisions"
        return (self.shares, self.threads) == (other.shares_before, other.threads_before)


class Adaptation(Recorded[Assignment]):
    """Lets a controller divide future mini-batches by the measured times of trained ones.

    Args:
        controller: Decides the division.
        start: The first division.
        names: Names of the trainers, for people.
        skipped: Mini-batches that fill the pipeline and do not count.
    """

    def __init__(self, controller: Controller, start: Assignment, names: Sequence[str], skipped: int) -> None:
        self._names, self._filling = names, skipped
        super().__init__(controller, start)

    @property
    def assignment(self) -> Assignment:
        """The division of future mini-batches."""
        return self.current

    @property
    def told(self) -> dict[str, Any]:
        """The fields for a training's result: the trainers' threads now, and the changes."""
        return {"threads": list(self.assignment.trainer_threads), "changes": self._told_changes()}

    def observe(self, epoch: int, batches: int, shares: Sequence[int], times: StageTimes) -> None:
        """Receives the times of a whole mini-batch.

        Args:
            epoch: Number of the epoch, from 1.
            batches: Mini-batches of the epoch trained so far.
            shares: Seeds that the trainers had.
            times: Measured stage times, with the iteration.
        """
        self._place = epoch, batches
        if tuple(shares) == self.assignment.shares:
            self._managed.measured(self.assignment, times)

    def state_dict(self) -> dict[str, Any]:
        """Returns the division and the changes as plain values."""
        division = {name: list(getattr(self.assignment, name)) for name in _KEPT}
        return {"division": division, "changes": self._told_changes()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with the division of `state`; the controller starts its measurements anew."""
        now = self.assignment
        shares, weights, threads = (tuple(state["division"][name]) for name in _KEPT)
        stages = dataclasses.replace(now.threads, training=sum(threads) or now.threads.training)
        changed = dataclasses.replace(now, shares=shares, weights=weights, trainer_threads=threads, threads=stages)
        self.changes = [DivisionChange(**change) for change in state["changes"]]
        self._begin(changed)

    def _skipped(self, current: Assignment) -> int:
        return self._filling

    def _changed(self, before: Assignment, now: Assignment) -> DivisionChange:
        return DivisionChange(
            shares=list(now.shares),
            threads=list(now.trainer_threads),
            shares_before=list(before.shares),
            threads_before=list(before.trainer_threads),
        )

    def _sought(self, before: Assignment, mean: StageTimes) -> str:
        took = [
            f"{shown(seconds)} for {share} seeds in trainer {place} ({name})"
            for place, (name, share, seconds) in enumerate(zip(self._names, before.shares, mean.training, strict=True))
        ]
        return f"propagation takes {', '.join(took)}"

    def _stage(self, drift: Drift) -> str:
        if drift.trainer is None:
            return drift.stage
        return f"{drift.stage} of trainer {drift.trainer} ({self._names[drift.trainer]})"


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
