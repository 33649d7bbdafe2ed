"""`MemoryModel` predicts the bytes of a pass over a mini-batch."""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
