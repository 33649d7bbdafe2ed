"""The memory map that an array's bytes come from."""

from __future__ import annotations

import mmap
from typing import Any

from numpy.typing import NDArray


def mapping_of(array: NDArray[Any]) -> mmap.mmap | None:
    """Returns the map of the file that `array` is a view of, such as to advise the system, or None where it is in RAM.

    What is advised goes for the whole map: each .npy file of a converted folder has its own.
    """
    base: object = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base
