"""Where kernels sum a row of their output, in float32 whatever the output's dtype is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

from a3gnn.features.rows.intrinsics import narrowed


def sum_of(row: Any, scratch: Any) -> Any:
    """Returns what the row of an output is summed in: itself if it is float32, else `scratch`, float32.

    For compiled code alone; as long as `scratch`.
    """
    raise NotImplementedError


def settle(total: Any, row: Any) -> None:
    """Writes `total`, which `sum_of` returned for `row`, to it, rounded; for compiled code alone."""
    raise NotImplementedError


@overload(sum_of, inline="always")  # numba carries no types
def _sum_of(row: Any, scratch: Any) -> Callable[..., Any]:
    # numba compares the parameters of what is returned with those of this function, annotations and all.
    def itself(row: Any, scratch: Any) -> Any:
        return row[: len(scratch)]

    def apart(row: Any, scratch: Any) -> Any:
        return scratch

    return itself if row.dtype == types.float32 else apart


@overload(settle, inline="always")
def _settle(total: Any, row: Any) -> Callable[..., None]:
    def rounded(total: Any, row: Any) -> None:
        for j in range(len(total)):
            row[j] = narrowed(total[j], row)

    def as_it_is(total: Any, row: Any) -> None:
        pass

    return as_it_is if row.dtype == types.float32 else rounded
