"""A converted folder in the making."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.notify import ConversionProgress


@dataclass
class Draft:
    """Where a source writes its graph, array by array, and what it says of it.

    Attributes:
        folder: Takes the graph's .npy files, by the names of `GraphArrays.arrays`.
        scratch: Takes what is needed meanwhile.
        memory_bytes: Budget for edges in RAM.
        progress: Called with how far the conversion is.
        name: For people.
        num_classes: Classes.
        notes: What people should know of how it was read.
    """

    folder: Path
    scratch: Path
    memory_bytes: int
    progress: ConversionProgress
    name: str = ""
    num_classes: int = 0
    notes: tuple[str, ...] = ()

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Writes a whole array.

        Raises:
            OSError: It can't be written.
        """
        np.save(self.folder / f"{name}.npy", array)
