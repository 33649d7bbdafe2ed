"""`MemoryModel` predicts the bytes of a pass over a mini-batch."""

from __future__ import annotations

import gc
import itertools
import math
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.process.heap import can_trim, heap_bytes, kept_pages, map_blocks, trim_heap
from a3gnn.process.memory import spare_bytes
from a3gnn.process.memory_guard import MemoryGuard, host_bytes

# Numbers that name no evidence of their own were tested together: 960 unseen cases of `python -m
# benchmarks.memory_contract`, whose results docs/design/engine.md lists.
# Measured passes that are remembered.
_REMEMBERED = 32
# Passes from which a line is fitted; fewer give bounds alone. One is fitted anew after as many passes more as this
# part of them: a fit takes .6 ms.
_FITTED_FROM, _FITTED_AGAIN = 6, 1 / 4
# The margin over a prediction: this share, one that falls with the root of the measured passes, the largest error so
# far, and a few pages. By 224 measured passes of 25 cases of `python -m benchmarks.memory_contract`, of which 3 were
# above it.
_LEAST_MARGIN, _EARLY_MARGIN, _PAGES_BYTES = 0.05, 0.3, 1 << 20
# Sizes are alike up to this ratio.
_ALIKE = 1.25
# Passes of about one size that are measured before they count as known; passes that keep the limit before an excess is
# forgotten, and passes after that in which another one shows that it was no spike.
_ENOUGH_ALIKE, _FORGOTTEN_AFTER, _ON_TRIAL = 4, 4, 2
# Part of a pass that may be constant, for predictions of smaller ones.
_CONSTANT = 0.25
# By how much a pass may be larger than any measured one: small passes take memory in steps of pages.
MOST_GROWTH = 4.0


class Size(NamedTuple):
    """The size of a mini-batch, or of a share: its nodes, its edges, and the bytes of its features."""

    nodes: int
    edges: int
    inputs: int = 0

    def over(self, other: Size) -> float:
        """Returns the largest of the ratios to `other`."""
        return max(one / max(of_other, 1) for one, of_other in zip(self, other, strict=True))


class _Pass(NamedTuple):
    """A measured pass: its size, and its bytes, or the error of their prediction as a share of it."""

    size: Size
    taken: float


class MemoryModel:
    """Predicts the bytes of a pass above what was in use before it.

    The peak of a pass is the largest of many sums over its nodes, edges and features, besides a constant for the
    weights' gradients. So it grows at most in proportion to the largest ratio of sizes, which bounds it from any
    measured pass. A line in nodes and edges, fitted with coefficients >= 0, is closer, and applies within the bounds.
    The margin on top falls with the number of measured passes, and has the largest error of the remembered predictions.
    """

    def __init__(self) -> None:
        self._passes: deque[_Pass] = deque(maxlen=_REMEMBERED)
        self._errors: deque[_Pass] = deque(maxlen=_REMEMBERED)
        self._excess: list[_Pass] = []
        self._kept = _FORGOTTEN_AFTER + _ON_TRIAL
        self._line: NDArray[np.float64] | None = None
        self._unfitted = 0

    def __len__(self) -> int:
        return len(self._passes)

    def add(self, size: Size, taken: float) -> None:
        """Records that a pass over `size` took `taken` bytes."""
        if self._passes:
            self._errors.append(_Pass(size, taken / max(self._middle(size), _PAGES_BYTES) - 1))
        self._passes.append(_Pass(size, taken))
        self._unfitted += 1
        if len(self._passes) >= _FITTED_FROM and self._unfitted >= _FITTED_AGAIN * len(self._passes):
            self._line, self._unfitted = _fitted(self._passes), 0

    def within_reach(self, size: Size) -> bool:
        """Returns whether `size` is near enough to the measured passes to be predicted."""
        return any(size.over(known.size) <= MOST_GROWTH for known in self._passes)

    def knows(self, size: Size) -> bool:
        """Returns whether enough passes of about `size` were measured."""
        alike = [one for one in self._passes if size.over(one.size) <= _ALIKE and one.size.over(size) <= _ALIKE]
        return len(alike) >= _ENOUGH_ALIKE

    def lacks(self, size: Size) -> bool:
        """Returns whether too few passes were measured, or none that is nearly as large as `size`."""
        return len(self._passes) < _ENOUGH_ALIKE or all(size.over(known.size) > _ALIKE for known in self._passes)

    def exceed(self, size: Size, over: float) -> None:
        """Records that a pass over `size`, whose memory is not known, took `over` bytes more than it could.

        It may be a spike beside the pass, such as an evaluation. So it counts until some passes in a row kept the
        limit (`keep`). If the next ones pass it again without this margin, it counts as other errors do.
        """
        found = _Pass(size, self._largest_error(size) + over / max(self._middle(size), _PAGES_BYTES))
        if _FORGOTTEN_AFTER <= self._kept < _FORGOTTEN_AFTER + _ON_TRIAL:
            self._errors.append(found)
        else:
            self._excess.append(found)
        self._kept = 0

    def keep(self) -> None:
        """Records that a pass, whose memory is not known, kept the limit."""
        self._kept += 1
        if self._kept >= _FORGOTTEN_AFTER:
            self._excess.clear()

    def predict(self, size: Size) -> float:
        """Returns the most bytes that a pass over `size` is expected to take; needs at least one measured pass."""
        return self._middle(size) * (1 + self.margin(size)) + _PAGES_BYTES

    def margin(self, size: Size) -> float:
        """Returns the margin as a share of the prediction, by the largest error for sizes that are not far smaller."""
        return _LEAST_MARGIN + _EARLY_MARGIN / math.sqrt(len(self._passes)) + self._largest_error(size)

    def _largest_error(self, size: Size) -> float:
        known = (*self._errors, *self._excess)
        return max([0.0, *(one.taken for one in known if size.over(one.size) <= MOST_GROWTH)])

    def _middle(self, size: Size) -> float:
        most = min(_scaled(known, size) for known in self._passes)
        if self._line is None:
            return most
        smaller = [known.taken for known in self._passes if known.size.over(size) <= 1]
        least = float(np.median(smaller)) if smaller else 0.0
        return max(min(float(self._line @ (1.0, size.nodes, size.edges)), most), min(least, most))


def _scaled(known: _Pass, size: Size) -> float:
    """Returns the most bytes of a pass over `size` by a measured one: in proportion, besides a constant if smaller."""
    ratio = size.over(known.size)
    return known.taken * (ratio if ratio >= 1 else _CONSTANT + (1 - _CONSTANT) * ratio)


def _fitted(passes: deque[_Pass]) -> NDArray[np.float64]:
    """Returns a constant and the bytes per node and edge, all >= 0, with the smallest squared relative errors."""
    known = np.array([(1.0, one.size.nodes, one.size.edges, one.taken) for one in passes])
    weights = 1 / np.maximum(known[:, 3], _PAGES_BYTES)
    left, right = known[:, :3] * weights[:, None], known[:, 3] * weights
    scale = np.maximum(np.abs(left).max(axis=0), np.finfo(float).tiny)
    best, least = np.zeros(3), float(right @ right)
    for count in (1, 2, 3):  # every set of coefficients that may be above 0
        for chosen in map(list, itertools.combinations(range(3), count)):
            found = np.linalg.lstsq(left[:, chosen] / scale[chosen], right, rcond=None)[0]
            error = right - left[:, chosen] / scale[chosen] @ found
            if (found >= 0).all() and float(error @ error) < least:
                least, best = float(error @ error), np.zeros(3)
                best[chosen] = found / scale[chosen]
    return best


# Numbers that name no evidence of their own were tested together: 960 unseen cases of `python -m
# benchmarks.memory_contract`, whose results docs/design/engine.md lists.
# The heap's count serves if it covers this share of the memory; another allocator may stand in its place.
_LEAST_COUNTED = 0.05
# Free blocks go back to the system once memory is this close to the limit, but no closer than a part of the room that
# the loop had, and not than the last.
_NEAR_BYTES, _NEAR, _LEAST_NEAR_BYTES = 48 << 20, 1 / 8, 1 << 18
# Seconds between looks: the shortest, the longest, and those in which a pass may take a byte: pages are cleared at some
# GB/s, and the thread that looks waits for a core.
_SOONEST_S, _LATEST_S, _BYTE_S = 0.001, 0.005, 1 / (16 << 30)


class Level(NamedTuple):
    """Memory of this process that can't be reclaimed, in bytes."""

    held: int  # all of it, free blocks that the C library keeps included
    used: int  # without these blocks, which a later allocation can take. As `held` if the library doesn't count them


class MemoryLevel:
    """Measures this process's memory under a limit.

    Args:
        limit_bytes: Most bytes that can't be reclaimed.

    Attributes:
        limit_bytes: The same.
        cap_bytes: The limit, or less: what was in use and the machine's spare memory when the epoch began.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = self.cap_bytes = limit_bytes
        self._guard = self._idle = MemoryGuard()
        self._brake: _Brake | None = None
        self._beside_heap: int | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks at the memory all the time within this context, whose begin decides the machine's spare memory."""
        spare = spare_bytes()
        self.cap_bytes = self.limit_bytes if spare is None else min(self.limit_bytes, host_bytes() + spare)
        trim_heap()
        before = self._guard, self._brake  # of an epoch that goes on meanwhile
        with kept_pages(), MemoryGuard() as self._guard, _Brake(self.cap_bytes) as self._brake:
            try:
                yield
            finally:
                self._guard, self._brake = before

    def now(self) -> Level:
        """Returns the present level."""
        held, heap = host_bytes(), heap_bytes()
        if self._beside_heap is None or heap is None:
            return Level(held, held)
        return Level(held, min(held, self._beside_heap + heap))

    @property
    def near_bytes(self) -> int:
        """How close to the limit free blocks go back."""
        return 0 if self._brake is None else self._brake.near_bytes

    def keep(self, nbytes: float) -> int:
        """Lets the C library keep free blocks in a heap of at most `nbytes`; returns how often too many were there."""
        if self._brake is None:
            return 0
        return self._brake.keep(nbytes)

    def trimmed(self, *, collect: bool = False) -> Level:
        """Returns the level after free blocks went back to the system; `collect` collects Python's garbage before."""
        if collect:
            gc.collect()
        if trim_heap():
            held, heap = host_bytes(), heap_bytes()
            self._beside_heap = None if heap is None or heap < _LEAST_COUNTED * held else held - heap
        return self.now()

    def peak(self) -> int:
        """Returns the peak since the last call."""
        return self._guard.recent_bytes()


class _Brake:
    """Helps a pass to stay below `cap_bytes` while it runs, if its live blocks do.

    Free blocks that the library keeps are a third to a half of a pass's memory, and vary by as much. So memory up to a
    level may be kept; from there on, blocks that find no free one are mapped, and go back once they are freed. Close to
    `cap_bytes`, free blocks go back, too.

    Attributes:
        near_bytes: How close that is.
    """

    def __init__(self, cap_bytes: int) -> None:
        self.near_bytes = max(_LEAST_NEAR_BYTES, min(_NEAR_BYTES, round(_NEAR * (cap_bytes - host_bytes()))))
        self._last = cap_bytes - self.near_bytes
        self._level: float = self._last
        self._returned = 0
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="a3gnn-memory-brake", daemon=True)

    def __enter__(self) -> Self:
        if can_trim():
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        map_blocks(False)

    def keep(self, nbytes: float) -> int:
        """Sets the level; returns how often free blocks went back since the last call."""
        with self._lock:
            self._level = min(nbytes, self._last)
            map_blocks(host_bytes() >= self._level)
            returned, self._returned = self._returned, 0
            return returned

    def _watch(self) -> None:
        wait_s, most = 0.0, self._last
        while not self._ended.wait(wait_s):
            with self._lock:
                held = host_bytes()
                if held >= self._level:
                    map_blocks(True)
                if held < self._last:
                    most = self._last
                elif held >= most:
                    trim_heap()
                    self._returned += 1
                    held = host_bytes()
                    most = max(self._last, held + self.near_bytes // 2)
                next_one = self._last if held >= self._level else min(self._level, self._last)
                wait_s = min(max((next_one - held) * _BYTE_S, _SOONEST_S), _LATEST_S)
