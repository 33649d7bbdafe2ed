"""Arrays in the one form that kernels are compiled for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a read-only view of `array`, memory maps included: one type, for which kernels compile once."""
    view = np.ascontiguousarray(np.asarray(array)).view()
    view.flags.writeable = False
    return view
