"""`Adaptation`: a controller at work in a real training run, and a record of what it changed, why, and what for."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a3gnn.training.hybrid.assignment import Assignment
from a3gnn.training.hybrid.control.controller import Controller
from a3gnn.training.hybrid.control.drift import Drift, drifts
from a3gnn.training.hybrid.control.managed import Managed
from a3gnn.training.hybrid.stage_times import StageTimes

#: Measurements whose mean is told of a division. Guess.
_TOLD = 3
#: Share of a mini-batch's seconds less than which a change has not gained anything. Guess, as controllers have it.
_GAINED = 0.02
#: What changes of a division, and a checkpoint keeps.
_KEPT = "shares", "weights", "trainer_threads"


@dataclass(slots=True)
class Change:
    """A division that took the place of another one.

    Attributes:
        epoch: In which, from 1.
        batches: Mini-batches of the epoch that were trained before it.
        shares: Seeds of each trainer.
        threads: Of the host, of each trainer.
        shares_before: Before.
        threads_before: Likewise.
        reason: What was measured, for people.
        before_s: Seconds per mini-batch before.
        after_s: Likewise after; None while nothing was measured.
    """

    epoch: int
    batches: int
    shares: list[int]
    threads: list[int]
    shares_before: list[int]
    threads_before: list[int]
    reason: str
    before_s: float
    after_s: float | None = None

    @property
    def line(self) -> str:
        """What changed, and why, for people."""
        pairs = (("shares", self.shares_before, self.shares), ("threads", self.threads_before, self.threads))
        what = "; ".join(f"{name} {_listed(was)} -> {_listed(now)}" for name, was, now in pairs if was != now)
        return f"adapt: epoch {self.epoch}, mini-batch {self.batches}: {what}: {self.reason}"

    @property
    def gain(self) -> str:
        """What was measured before and after, for people."""
        assert self.after_s is not None, "something was measured"
        return (
            f"adapt: the change at epoch {self.epoch}, mini-batch {self.batches}: {_shown(self.before_s)} per "
            f"mini-batch before, {_shown(self.after_s)} after ({self.before_s / self.after_s:.2f} x as fast)"
        )


class Adaptation:
    """Lets a controller divide the mini-batches to come by what was measured of those that were trained.

    Args:
        controller: Who decides.
        start: The first division.
        names: Of the trainers, for people.
        skipped: Mini-batches that fill the pipeline, and are not counted.

    Attributes:
        changes: What the controller changed, of the whole run.
        lines: The same since this object was made, for people, with what was gained as soon as that is measured.
    """

    def __init__(self, controller: Controller, start: Assignment, names: Sequence[str], skipped: int) -> None:
        self._controller, self._names, self._skipped = controller, names, skipped
        self._place = 1, 0
        self.changes: list[Change] = []
        self.lines: list[str] = []
        self._begin(start)

    def _begin(self, start: Assignment) -> None:
        self._managed = Managed(self, start, None, skipped=self._skipped)
        self._first: list[StageTimes] = []
        self._last: list[StageTimes] = []

    @property
    def assignment(self) -> Assignment:
        """The division of mini-batches to come."""
        return self._managed.current

    @property
    def told(self) -> dict[str, Any]:
        """What a result says: the threads of the trainers now, and the changes."""
        changes = list(map(dataclasses.asdict, self.changes))
        return {"threads": list(self.assignment.trainer_threads), "changes": changes}

    def drained(self) -> None:
        """Is told that the pipeline is empty, at the begin of an epoch."""
        self._managed.drained()

    def observe(self, epoch: int, batches: int, shares: Sequence[int], times: StageTimes) -> None:
        """Is told what a whole mini-batch took.

        Args:
            epoch: From 1.
            batches: Of it, trained so far.
            shares: The seeds that the trainers had.
            times: Measured, with the iteration.
        """
        self._place = epoch, batches
        if tuple(shares) == self.assignment.shares:
            self._managed.measured(self.assignment, times)

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Has the controller decide by the mean of a few mini-batches, and keeps what is to be told of it."""
        self._first = [*self._first, times][:_TOLD]
        self._last = [*self._last, times][-_TOLD:]
        latest = self.changes[-1] if self.changes else None
        adjusted = self._controller.adjust(assignment, times)
        is_last = adjusted != assignment or len(self._first) == _TOLD
        if latest is not None and latest.after_s is None and is_last:
            latest.after_s = _mean(self._first)
            self.lines.append(latest.gain)
        if adjusted != assignment:
            self._change(assignment, adjusted)
        return adjusted

    def state_dict(self) -> dict[str, Any]:
        """Returns the division and the changes as plain values."""
        division = {name: list(getattr(self.assignment, name)) for name in _KEPT}
        return {"division": division, "changes": list(map(dataclasses.asdict, self.changes))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with the division of `state`; what the controller had measured by then, it measures anew."""
        now = self.assignment
        shares, weights, threads = (tuple(state["division"][name]) for name in _KEPT)
        stages = dataclasses.replace(now.threads, training=sum(threads) or now.threads.training)
        changed = dataclasses.replace(now, shares=shares, weights=weights, trainer_threads=threads, threads=stages)
        self.changes = [Change(**change) for change in state["changes"]]
        self._begin(changed)

    def _change(self, before: Assignment, now: Assignment) -> None:
        epoch, batches = self._place
        change = Change(
            epoch=epoch,
            batches=batches,
            shares=list(now.shares),
            threads=list(now.trainer_threads),
            shares_before=list(before.shares),
            threads_before=list(before.trainer_threads),
            reason=self._reason(before, now),
            before_s=_mean(self._last),
        )
        self.changes.append(change)
        self.lines.append(change.line)
        self._first, self._last = [], []

    def _reason(self, before: Assignment, now: Assignment) -> str:
        """Returns what drifted since `before` was new; or, where nothing did, what there is to balance."""
        latest = self.changes[-1] if self.changes else None
        numbers = list(now.shares), list(now.trainer_threads)
        was = None if latest is None else (latest.shares_before, latest.threads_before)
        slower = 0.0 if latest is None or latest.after_s is None else latest.after_s / latest.before_s - 1
        if numbers == was and slower > -_GAINED:
            return f"back again, for a mini-batch took {abs(slower):.0%} {'more' if slower > 0 else 'less'} than before"
        mean = StageTimes.mean(self._last)
        drifted = drifts(StageTimes.mean(self._first), mean)
        if drifted:
            return f"{self._stage(drifted[0])} takes {_shown(drifted[0].now_s)}, and took {_shown(drifted[0].before_s)}"
        took = [
            f"{_shown(seconds)} for {share} seeds in trainer {place} ({name})"
            for place, (name, share, seconds) in enumerate(zip(self._names, before.shares, mean.training, strict=True))
        ]
        return f"propagation takes {', '.join(took)}"

    def _stage(self, drift: Drift) -> str:
        if drift.trainer is None:
            return drift.stage
        return f"{drift.stage} of trainer {drift.trainer} ({self._names[drift.trainer]})"


def _mean(times: Sequence[StageTimes]) -> float:
    return statistics.fmean(one.iteration for one in times if one.iteration is not None)


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _shown(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
