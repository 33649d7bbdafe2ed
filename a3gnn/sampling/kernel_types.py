"""What the sampler's kernels pass to each other.

A NamedTuple costs nothing between kernels. As an argument from Python it costs microseconds, so `sample_hops` takes
none. numba's cache pickles the classes of a kernel's arguments, and fails to load once one has been renamed: kernels
that take NamedTuples are compiled as part of `sample_hops` and have no `cache=True` of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class RowBounds(NamedTuple):
    """Of each row of a hop: where it begins in `indices` (int64), its degree and its cached in-neighbours (int32)."""

    begin: NDArray[np.int64]
    degree: NDArray[np.int32]
    cached: NDArray[np.int32]


class HopDraw(NamedTuple):
    """How one hop is drawn.

    Attributes:
        fanout: In-neighbours per row; below 0 for all.
        key: Key of the hop's random numbers.
        bias: Weight of a cached in-neighbour; others weigh 1.
    """

    fanout: int
    key: np.uint64
    bias: float


class EdgeDraw(NamedTuple):
    """How one hop's edges are drawn.

    Attributes:
        fanout: In-neighbours per row; below 0 for all.
        key: Key of the hop's random numbers.
        bias: Weight of a cached in-neighbour; others weigh 1.
        replace: Whether an in-neighbour may be drawn more than once.
    """

    fanout: int
    key: np.uint64
    bias: float
    replace: bool


class EdgeRow(NamedTuple):
    """One row of a hop: where it begins in `indices`, its degree and its cached in-neighbours, which come first."""

    begin: int
    degree: int
    cached: int


class RowRange(NamedTuple):
    """Rows `low` to `high` (exclusive) of a hop."""

    low: int
    high: int
