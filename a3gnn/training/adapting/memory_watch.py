"""`CacheShrinker`: shrinks the cache when memory gets scarce, and restores it later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from a3gnn.pipeline.preparation import Preparation
from a3gnn.process.memory import RESERVE_SHARE
from a3gnn.units import format_size

#: A cache that shrinks loses this share at least: each change is a read of all its rows. Guess.
_STEP = 0.25
#: Seconds between two looks, and those for which there must be room before a cache grows again. Guesses.
_PERIOD_S, _CALM_S = 0.1, 5.0


class Room(NamedTuple):
    """Memory that is left of something.

    Attributes:
        left: Bytes.
        whole: Bytes of it in all.
        name: Of what, for people.
    """

    left: int
    whole: int
    name: str

    @property
    def reserve(self) -> int:
        """Bytes that are to be left; twice as many are after a change."""
        return int(RESERVE_SHARE * self.whole)

    @property
    def spare(self) -> int:
        """Bytes that are left beyond twice the reserve; below 0 where there are less."""
        return self.left - 2 * self.reserve


class Shrunk(NamedTuple):
    """A cache that the watch made smaller.

    Attributes:
        before: Its bytes before.
        now: Its bytes since the watch changed them last.
    """

    before: int
    now: int


class CacheShrinker:
    """Decides by the memory that is left, which it is told how to look up.

    The cache shrinks first, for it costs time and nothing else; then fewer mini-batches are prepared ahead. A cache
    that was shrunk so grows again once there was room for it for some seconds, to what it was before at most; a volume
    that somebody else chose stays.

    Args:
        start: The first preparation.
        rooms: Returns what is left of each limit.
        can_resize: Whether the cache's volume may change.
        map_bytes: What a cache takes whatever it holds; a smaller one is none.

    Attributes:
        batch_bytes: What a mini-batch takes at most; 0 until it is known.
        shrunk: What the watch made of the cache; None while that has its own volume.
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
        """Returns whether there is room to try `wanted` in place of `now`: it leaves twice the reserve."""
        more = self._more(wanted, self._seen_of)
        return self._more(wanted, now) <= 0 or all(more < room.spare for room in self._seen)

    def refuses(self, wanted: Preparation, now: Preparation) -> str | None:
        """Returns why `wanted` may not take the place of `now`; None where it leaves the reserve, and so stays."""
        more = self._more(wanted, self._seen_of)
        short = [room for room in self._seen if more > room.left - room.reserve]
        if not short or min(more, self._more(wanted, now)) <= 0:
            return None
        scarce = min(short, key=lambda room: room.left - room.reserve)
        return f"it takes {format_size(more)} more, and {format_size(max(scarce.left, 0))} are left {scarce.name}"

    def look(self, now: Preparation) -> tuple[Preparation, str] | None:
        """Returns what takes the place of `now`, and why; None where nothing does, or the last look was just now."""
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
        # What grows leaves a reserve more than what has shrunk: a little less room takes nothing back.
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
        """Returns the cache's bytes before the watch shrank it; those that it has where somebody else chose them."""
        shrunk = self.shrunk
        return now.cache_bytes if shrunk is None or shrunk.now != now.cache_bytes else shrunk.before

    def _more(self, wanted: Preparation, than: Preparation) -> int:
        """Returns how many bytes `wanted` takes more."""
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
