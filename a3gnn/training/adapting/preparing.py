"""`Preparing`: a controller that changes how one trainer's mini-batches are prepared in a real training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a3gnn.pipeline.preparation import Preparation
from a3gnn.training.adapting.memory_watch import CacheShrinker, Shrunk
from a3gnn.training.adapting.recorded import Change, Recorded
from a3gnn.training.adapting.searching import Searching
from a3gnn.training.adapting.stage_times import Adjusts, StageTimes
from a3gnn.units import format_size

_NAMES = {"mode": "mode", "workers": "workers", "depth": "depth", "cache_bytes": "cache"}


@dataclass(slots=True, kw_only=True)
class PreparationChange(Change):
    """A change from one preparation to another.

    Attributes:
        now: `Preparation.to_dict` of the new preparation.
        before: `Preparation.to_dict` of the former preparation.
    """

    now: dict[str, Any]
    before: dict[str, Any]

    @property
    def what(self) -> str:
        """A description of the change for messages."""
        pairs = ((name, self.before[name], self.now[name]) for name in self.now)
        return "; ".join(f"{_NAMES[name]} {_said(was)} -> {_said(now)}" for name, was, now in pairs if was != now)

    def takes_back(self, other: Change) -> bool:
        """Returns whether this change restores the preparation before `other`."""
        assert isinstance(other, PreparationChange), "one trainer has preparations"
        return self.now == other.before


class Preparing(Recorded[Preparation]):
    """Lets a controller choose the preparation of future mini-batches by measurements of trained ones.

    Args:
        controller: Chooses the preparation.
        start: The first preparation.
        watch: Refuses preparations without enough memory; a message reports them.
    """

    def __init__(self, controller: Adjusts[Preparation], start: Preparation, watch: CacheShrinker) -> None:
        self._start, self._watch = start, watch
        self._refused: Preparation | None = None
        super().__init__(controller, start)

    @property
    def told(self) -> dict[str, Any]:
        """The current preparation and the changes, for a result."""
        return {"preparation": self.current.to_dict(), "changes": self._told_changes()}

    def observe(self, epoch: int, batches: int, preparation: Preparation, times: StageTimes) -> None:
        """Records the times of a mini-batch of full size.

        Args:
            epoch: From 1.
            batches: Trained mini-batches of the epoch.
            preparation: The mini-batch's preparation.
            times: Measured times, with the iteration.
        """
        self.at(epoch, batches)
        if preparation == self.current:
            self._managed.measured(self.current, times)

    def at(self, epoch: int, batches: int) -> None:
        """Records the number of trained mini-batches, of any size."""
        self._place = epoch, batches

    def state_dict(self) -> dict[str, Any]:
        """Returns the first and current preparation, the changes, and the shrunk cache, as plain values."""
        shrunk = self._watch.shrunk
        state: dict[str, Any] = {"shrunk": None if shrunk is None else list(shrunk)}
        state |= {"start": self._start.to_dict(), "preparation": self.current.to_dict()}
        return state | {"changes": self._told_changes()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with the preparation of `state` if both had the same start; measurements start anew.

        A resumed run may request another mode or other workers, which then apply.
        """
        self.changes = [PreparationChange(**change) for change in state["changes"]]
        begun_alike = Preparation.from_dict(state["start"]) == self._start
        self._begin(Preparation.from_dict(state["preparation"]) if begun_alike else self._start)
        if begun_alike and state["shrunk"] is not None:
            self._watch.shrunk = Shrunk(*state["shrunk"])

    def _allowed(self, before: Preparation, wanted: Preparation) -> Preparation:
        why = self._watch.refuses(wanted, before)
        if why is None:
            return wanted
        if wanted != self._refused:
            self._refused = wanted
            what = self._changed(before, wanted).what
            self.lines.append(f"adapt: {what} is asked for and not done: {why}")
        return before

    def _skipped(self, current: Preparation) -> int:
        return current.depth + 1

    def _changed(self, before: Preparation, now: Preparation) -> PreparationChange:
        return PreparationChange(now=now.to_dict(), before=before.to_dict())

    def _sought(self, before: Preparation, mean: StageTimes) -> str:
        return "the controller asked for it"

    def _reason(self, before: Preparation, now: Preparation) -> str:
        # During a search, stage times belong to several preparations, so drifts say nothing.
        return self._controller.why if isinstance(self._controller, Searching) else super()._reason(before, now)


def _said(value: Any) -> str:
    return format_size(value) if isinstance(value, int) and value >= 1024 else str(value)
