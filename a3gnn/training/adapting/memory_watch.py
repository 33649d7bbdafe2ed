"""`MemoryWatch`: shrinks one trainer's cache while it trains when memory gets scarce, and lets it grow later."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

from a3gnn.process.memory import RESERVE_SHARE
from a3gnn.units import format_size

#: Least share that a cache shrinks by, because each change reads all its rows. Guess.
_STEP = 0.25


class Room(NamedTuple):
    """Free memory below a limit."""

    left: int  # free bytes
    whole: int  # bytes of the limit
    name: str  # the limit's name for messages

    @property
    def reserve(self) -> int:
        """Bytes that must stay free; a change must leave twice as many."""
        return int(RESERVE_SHARE * self.whole)

    @property
    def spare(self) -> int:
        """Free bytes beyond twice the reserve; negative if there are fewer."""
        return self.left - 2 * self.reserve


@dataclass(frozen=True, slots=True)
class CacheChange:
    """A change of the cache's size during training."""

    epoch: int  # the epoch, from 1
    batches: int  # mini-batches of the epoch that were trained before the change
    before: int  # former upper limit of the cache in bytes
    now: int  # new upper limit in bytes
    reason: str  # the reason for messages

    @property
    def line(self) -> str:
        """A message with the change and its reason."""
        sizes = f"{format_size(self.before)} -> {format_size(self.now)}"
        return f"adapt: epoch {self.epoch}, mini-batch {self.batches}: cache {sizes}: {self.reason}"


class MemoryWatch:
    """Chooses the size of a trainer's cache by the free memory.

    The cache shrinks if memory gets scarce, because that costs only time. Once there was room for some seconds, it
    grows again, at most to its first size.

    Args:
        start: The cache's first upper limit in bytes.
        rooms: Returns the free memory below each limit.
        can_resize: Whether the cache's size may change.
        map_bytes: Fixed bytes of a cache; one that is not larger is dropped.
        period_s: Least seconds between two checks.
        calm_s: Seconds of enough room before the cache grows again.

    Attributes:
        cache_bytes: Upper limit of the cache from now on.
        changes: The changes of the whole run.
        lines: A message per change since this object was made.
    """

    def __init__(
        self,
        start: int,
        rooms: Callable[[], list[Room]],
        *,
        can_resize: bool,
        map_bytes: int,
        period_s: float = 0.1,
        calm_s: float = 5.0,
    ) -> None:
        self._start, self._rooms = start, rooms
        self._can_resize, self._map_bytes = can_resize, map_bytes
        self.period_s, self.calm_s = period_s, calm_s
        self._looked, self._calm_since = 0.0, monotonic()
        self.cache_bytes = start
        self.changes: list[CacheChange] = []
        why = "is on a device or read ahead, or sampling prefers its nodes" if start else "has no bytes"
        self.lines = [] if can_resize else [f"adapt: nothing can change, because the cache {why}"]

    @property
    def told(self) -> dict[str, Any]:
        """The cache's upper limit and the changes, for a result."""
        return {"cache_bytes": self.cache_bytes, "changes": list(map(dataclasses.asdict, self.changes))}

    def look(self, epoch: int, batches: int) -> None:
        """Changes `cache_bytes` if the free memory requires or allows it, at most once per period.

        Args:
            epoch: From 1.
            batches: Trained mini-batches of the epoch.
        """
        time = monotonic()
        if not self._can_resize or time - self._looked < self.period_s:
            return
        self._looked, rooms = time, self._rooms()
        if not rooms:
            return
        scarce = min(rooms, key=lambda room: room.left - room.reserve)
        free = f"{format_size(max(scarce.left, 0))} {scarce.name} are free"
        if scarce.left < scarce.reserve:
            self._calm_since = time
            if self.cache_bytes:
                left = self.cache_bytes - max(-scarce.spare, int(_STEP * self._start))
                self._change(left if left > self._map_bytes else 0, epoch, batches, f"only {free}")
            return
        # Growth leaves one reserve more than a shrink does, so that slightly less room doesn't undo it.
        growth = min(room.spare - room.reserve for room in rooms)
        missing = self._start - self.cache_bytes
        if missing <= 0 or growth < _STEP * missing:
            self._calm_since = time
        elif time - self._calm_since >= self.calm_s:
            self._calm_since = time
            self._change(self.cache_bytes + min(missing, growth), epoch, batches, f"{free} again")

    def state_dict(self) -> dict[str, Any]:
        """Returns the first and the present limit of the cache, and the changes, as plain values."""
        return {"start": self._start} | self.told

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with the cache of `state` if both had the same first one."""
        if "preparation" in state:
            state = _without_search(state)
            self.lines.append(
                "adapt: the checkpoint is of a version that also changed mode, workers and depth; these are as "
                "configured from now on"
            )
        self.changes = [CacheChange(**change) for change in state["changes"]]
        if self._can_resize and state["start"] == self._start:
            self.cache_bytes = state["cache_bytes"]

    def _change(self, now: int, epoch: int, batches: int, reason: str) -> None:
        change = CacheChange(epoch, batches, self.cache_bytes, now, reason)
        self.cache_bytes = now
        self.changes.append(change)
        self.lines.append(change.line)


def _without_search(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the state of a version that also searched for another mode, with the cache's sizes alone."""
    sizes = [change | {name: change[name]["cache_bytes"] for name in ("before", "now")} for change in state["changes"]]
    names = [field.name for field in dataclasses.fields(CacheChange)]
    return {
        "start": state["start"]["cache_bytes"],
        "cache_bytes": state["preparation"]["cache_bytes"],
        "changes": [{name: size[name] for name in names} for size in sizes if size["before"] != size["now"]],
    }
