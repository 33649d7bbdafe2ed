"""Types that the sampler's kernels pass to each other, and read-only views of arrays for kernels.

A NamedTuple costs nothing between kernels. As an argument from Python it costs microseconds, so `sample_hops` takes
none. numba's cache pickles the classes of a kernel's arguments, and fails to load after one is renamed. So kernels that
take NamedTuples are compiled as part of `sample_hops` and have no `cache=True` themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError


class RowBounds(NamedTuple):
    """The start of each row of a hop in `indices` (int64), its degree and its cached in-neighbors (int32)."""

    begin: NDArray[np.int64]
    degree: NDArray[np.int32]
    cached: NDArray[np.int32]


class HopDraw(NamedTuple):
    """Parameters of the draw of one hop.

    Attributes:
        fanout: In-neighbors per row; below 0 for all.
        key: Key of the hop's random numbers.
        bias: Weight of a cached in-neighbor; others weigh 1.
    """

    fanout: int
    key: np.uint64
    bias: float


class EdgeDraw(NamedTuple):
    """Parameters of the draw of one hop's edges.

    Attributes:
        fanout: In-neighbors per row; below 0 for all.
        key: Key of the hop's random numbers.
        bias: Weight of a cached in-neighbor; others weigh 1.
        replace: Whether an in-neighbor may be drawn more than once.
    """

    fanout: int
    key: np.uint64
    bias: float
    replace: bool


class EdgeRow(NamedTuple):
    """One row of a hop: its start in `indices`, its degree and its cached in-neighbors, which come first."""

    begin: int
    degree: int
    cached: int


class RowRange(NamedTuple):
    """Rows `low` to `high` (exclusive) of a hop."""

    low: int
    high: int


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a read-only view of `array`, memory maps included: with one type of array, kernels compile once."""
    view = np.ascontiguousarray(np.asarray(array)).view()
    view.flags.writeable = False
    return view


def cached_mask(cached: NDArray[np.bool_], num_nodes: int) -> NDArray[np.bool_]:
    """Returns a read-only view of `cached`, which shows later changes to it.

    Raises:
        UsageError: `cached` is not bool of shape (num_nodes,).
    """
    array: object = cached
    if not isinstance(array, np.ndarray) or array.dtype != np.bool_ or array.shape != (num_nodes,):
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise UsageError(f"cached must hold one bool per node, shape ({num_nodes},), got {got}")
    return readonly(array)
