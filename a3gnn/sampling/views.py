"""Arrays in the one form that kernels are compiled for."""

from __future__ import annotations

from typing import Any

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
