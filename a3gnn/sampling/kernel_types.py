"""What the sampler's kernels pass to each other.

A NamedTuple costs nothing between kernels. As an argument from Python it costs microseconds, so `sample_hops` takes
none. numba's cache pickles the classes of a kernel's arguments, and fails to load once one has been renamed: kernels
that take NamedTuples are compiled as part of `sample_hops` and have no `cache=True` of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a read-only view of `array`, memory maps included: one type, for which kernels compile once."""
    view = np.ascontiguousarray(np.asarray(array)).view()
    view.flags.writeable = False
    return view


def cached_mask(cached: NDArray[np.bool_], num_nodes: int) -> NDArray[np.bool_]:
    """Returns a read-only view of `cached`, through which later changes to it are seen.

    Raises:
        UsageError: It is not bool of shape (num_nodes,).
    """
    array: object = cached
    if not isinstance(array, np.ndarray) or array.dtype != np.bool_ or array.shape != (num_nodes,):
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise UsageError(f"cached must hold one bool per node, shape ({num_nodes},), got {got}")
    return readonly(array)


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
