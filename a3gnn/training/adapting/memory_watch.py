"""`CacheShrinker`: shrinks the cache when memory gets scarce, and restores it later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from a3gnn.pipeline.preparation import Preparation
from a3gnn.process.memory import RESERVE_SHARE
from a3gnn.units import format_size

#: Least share that a cache shrinks by, because each change reads all its rows. Guess.
_STEP = 0.25
#: Seconds between two checks, and seconds of enough room before a cache grows again. Guesses.
_PERIOD_S, _CALM_S = 0.1, 5.0


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
        return f"it takes {format_size(more)} more, and {format_size(max(scarce.left, 0))} are left {scarce.name}"

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
            return None if smaller is None else (smaller, f"{format_size(max(scarce.left, 0))} are left {scarce.name}")
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
        return larger, f"{format_size(scarce.left)} are left {scarce.name} again"

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
