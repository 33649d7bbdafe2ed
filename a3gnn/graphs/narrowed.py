"""Values that are stored as float32, and whether that holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError


def check_in_float32(name: str, given: NDArray[Any], stored: NDArray[np.float32]) -> None:
    """Checks that `stored`, which is `given` as float32, holds each finite value.

    Raises:
        GraphError: One is beyond the range of float32.
    """
    lost = np.isinf(stored) & np.isfinite(given)
    if number := int(np.count_nonzero(lost)):
        raise GraphError(
            f"{name} is stored as float32, which holds values up to {np.finfo(np.float32).max:.3g}, got {number:,} "
            f"beyond, such as {given[lost][0]:g}; scale {name}"
        )
