"""`Preparing`: a controller that changes how one trainer's mini-batches are prepared in a real training run.

`CacheShrinker` shrinks the cache when memory gets scarce, and restores it later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, NamedTuple

from a3gnn.pipeline.preparation import Preparation
from a3gnn.process.memory import RESERVE_SHARE
from a3gnn.training.adapting.recorded import Change, Recorded
from a3gnn.training.adapting.searching import Searching
from a3gnn.training.adapting.stage_times import Adjusts, StageTimes
from a3gnn.units import format_size

_NAMES = {"mode": "mode", "workers": "workers", "depth": "depth", "cache_bytes": "cache"}
#: Least share that a cache shrinks by, because each change reads all its rows. Guess.
_STEP = 0.25
#: Seconds between two checks, and seconds of enough room before a cache grows again. Guesses.
_PERIOD_S, _CALM_S = 0.1, 5.0


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
            self.lines.append(f"adapt: {what} was refused: {why}")
        return before

    def _skipped(self, current: Preparation) -> int:
        return current.depth + 1

    def _changed(self, before: Preparation, now: Preparation) -> PreparationChange:
        return PreparationChange(now=now.to_dict(), before=before.to_dict())

    def _sought(self, before: Preparation, mean: StageTimes) -> str:
        return "requested by the controller"

    def _reason(self, before: Preparation, now: Preparation) -> str:
        # During a search, stage times belong to several preparations, so drifts say nothing.
        return self._controller.why if isinstance(self._controller, Searching) else super()._reason(before, now)


def _said(value: Any) -> str:
    return format_size(value) if isinstance(value, int) and value >= 1024 else str(value)


class Room(NamedTuple):
    """Free memory below a limit.

    Attributes:
        left: Free bytes.
        whole: Bytes of the limit.
        name: The limit's name for messages.
    """

    left: int
    whole: int
    name: str

    @property
    def reserve(self) -> int:
        """Bytes that must stay free; a change must leave twice as many."""
        return int(RESERVE_SHARE * self.whole)

    @property
    def spare(self) -> int:
        """Free bytes beyond twice the reserve; negative if there are fewer."""
        return self.left - 2 * self.reserve


class Shrunk(NamedTuple):
    """A cache that the watch made smaller.

    Attributes:
        before: Bytes before it shrank.
        now: Bytes since the watch's last change.
    """

    before: int
    now: int


class CacheShrinker:
    """Changes a preparation if memory gets scarce.

    The cache shrinks first, because that costs only time. Then fewer mini-batches are prepared ahead. Once there was
    room for some seconds, a shrunk cache grows again, at most to its former volume. A volume that something else has
    chosen stays.

    Args:
        start: The first preparation.
        rooms: Returns the free memory below each limit.
        can_resize: Whether the cache's volume may change.
        map_bytes: Fixed bytes of a cache; one that is not larger is dropped.

    Attributes:
        batch_bytes: Most bytes of a mini-batch; 0 until they are known.
        shrunk: The shrunk cache; None if the watch hasn't changed it.
    """

    def __init__(
        self, start: Preparation, rooms: Callable[[], list[Room]], *, can_resize: bool, map_bytes: int
    ) -> None:
        self._start, self._rooms = start, rooms
        self._can_resize, self._map_bytes = can_resize, map_bytes
        self._looked, self._calm_since = 0.0, monotonic()
        self._seen: list[Room] = []
        self._seen_of = start
        self.batch_bytes = 0
        self.shrunk: Shrunk | None = None

    def fits(self, wanted: Preparation, now: Preparation) -> bool:
        """Returns whether there is room to try `wanted` instead of `now`, so that twice the reserve stays free."""
        more = self._more(wanted, self._seen_of)
        return self._more(wanted, now) <= 0 or all(more < room.spare for room in self._seen)

    def refuses(self, wanted: Preparation, now: Preparation) -> str | None:
        """Returns why `wanted` may not replace `now`; None if it may, because the reserve stays free."""
        more = self._more(wanted, self._seen_of)
        short = [room for room in self._seen if more > room.left - room.reserve]
        if not short or min(more, self._more(wanted, now)) <= 0:
            return None
        scarce = min(short, key=lambda room: room.left - room.reserve)
        return f"it needs {format_size(more)} more, but only {format_size(max(scarce.left, 0))} {scarce.name} are free"

    def look(self, now: Preparation) -> tuple[Preparation, str] | None:
        """Returns the preparation that replaces `now`, and why; None for no change, or if the last check is recent."""
        time = monotonic()
        if time - self._looked < _PERIOD_S:
            return None
        self._looked, self._seen, self._seen_of = time, self._rooms(), now
        if not self._seen:
            return None
        scarce = min(self._seen, key=lambda room: room.left - room.reserve)
        if scarce.left < scarce.reserve:
            self._calm_since = time
            smaller = self._smaller(now, -scarce.spare)
            return (
                None
                if smaller is None
                else (smaller, f"only {format_size(max(scarce.left, 0))} {scarce.name} are free")
            )
        # Growth leaves one reserve more than a shrink does, so that slightly less room doesn't undo it.
        growth = min(room.spare - room.reserve for room in self._seen)
        before = self._before(now)
        missing = before - now.cache_bytes
        if missing <= 0 or growth < _STEP * missing:
            self._calm_since = time
            return None
        if time - self._calm_since < _CALM_S:
            return None
        self._calm_since = time
        larger = replace(now, cache_bytes=now.cache_bytes + min(missing, growth))
        self.shrunk = Shrunk(before, larger.cache_bytes)
        return larger, f"{format_size(scarce.left)} {scarce.name} are free again"

    def _before(self, now: Preparation) -> int:
        """Returns the cache's bytes before the watch shrank it, or its present bytes if something else chose them."""
        shrunk = self.shrunk
        return now.cache_bytes if shrunk is None or shrunk.now != now.cache_bytes else shrunk.before

    def _more(self, wanted: Preparation, than: Preparation) -> int:
        """Returns how many more bytes `wanted` takes than `than`."""
        return (wanted.depth - than.depth) * self.batch_bytes + wanted.cache_bytes - than.cache_bytes

    def _smaller(self, now: Preparation, needed: int) -> Preparation | None:
        if now.cache_bytes and self._can_resize:
            left = now.cache_bytes - max(needed, int(_STEP * self._start.cache_bytes))
            self.shrunk = Shrunk(self._before(now), left if left > self._map_bytes else 0)
            return replace(now, cache_bytes=self.shrunk.now)
        if now.depth > now.workers:
            return replace(now, depth=now.workers)
        if now.workers > 1:
            return replace(now, workers=now.workers - 1, depth=now.workers - 1)
        return None if now.mode == "sequential" else replace(now, mode="sequential", workers=0, depth=0)
