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


@dataclass(slots=True, kw_only=True)
class PreparationChange(Change):
    """A preparation that took the place of another one.

    Attributes:
        now: `Preparation.to_dict` of it.
        before: Likewise, of the one before.
    """

    now: dict[str, Any]
    before: dict[str, Any]

    @property
    def what(self) -> str:
        """What changed, for people."""
        pairs = ((name, self.before[name], self.now[name]) for name in self.now)
        return "; ".join(f"{_NAMES[name]} {_said(was)} -> {_said(now)}" for name, was, now in pairs if was != now)

    def takes_back(self, other: Change) -> bool:
        """Returns whether this is the preparation before `other`."""
        assert isinstance(other, PreparationChange), "one trainer has preparations"
        return self.now == other.before


_NAMES = {"mode": "mode", "workers": "workers", "depth": "depth", "cache_bytes": "cache"}


class Preparing(Recorded[Preparation]):
    """Lets a controller prepare the mini-batches to come by what was measured of those that were trained.

    Args:
        controller: Who decides.
        start: The first preparation.
        watch: Says what there is no memory for: that is not done, and a line says so.
    """

    def __init__(self, controller: Adjusts[Preparation], start: Preparation, watch: CacheShrinker) -> None:
        self._start, self._watch = start, watch
        self._refused: Preparation | None = None
        super().__init__(controller, start)

    @property
    def told(self) -> dict[str, Any]:
        """What a result says: the preparation now, and the changes."""
        return {"preparation": self.current.to_dict(), "changes": self._told_changes()}

    def observe(self, epoch: int, batches: int, preparation: Preparation, times: StageTimes) -> None:
        """Is told what a whole mini-batch took.

        Args:
            epoch: From 1.
            batches: Of it, trained so far.
            preparation: Of the mini-batch.
            times: Measured, with the iteration.
        """
        self.at(epoch, batches)
        if preparation == self.current:
            self._managed.measured(self.current, times)

    def at(self, epoch: int, batches: int) -> None:
        """Is told which mini-batches were trained, of whatever size."""
        self._place = epoch, batches

    def state_dict(self) -> dict[str, Any]:
        """Returns the first preparation, the current one, the changes, and what the watch did, as plain values."""
        shrunk = self._watch.shrunk
        state: dict[str, Any] = {"shrunk": None if shrunk is None else list(shrunk)}
        state |= {"start": self._start.to_dict(), "preparation": self.current.to_dict()}
        return state | {"changes": self._told_changes()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with the preparation of `state`, if that began as this one; what was measured, it measures anew.

        Modes and workers may be asked for anew where a run goes on, and then that holds.
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
        # What stages took is of one preparation after the other while several are tried.
        return self._controller.why if isinstance(self._controller, Searching) else super()._reason(before, now)


def _said(value: Any) -> str:
    return format_size(value) if isinstance(value, int) and value >= 1024 else str(value)
