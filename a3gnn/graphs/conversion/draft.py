"""`Draft`: a converted folder while it is written: its arrays, one by one, and its description."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.notify import ConversionProgress


@dataclass
class Draft:
    """A destination for a graph's arrays, one by one, and for its description.

    Attributes:
        folder: Takes the graph's .npy files, by the names of `GraphArrays.arrays`.
        scratch: Folder for temporary files.
        memory_bytes: Budget for edges in RAM.
        progress: Called with the progress of the conversion.
        name: Shown to users.
        num_classes: A model's outputs per node.
        notes: Remarks for users on how the graph was read.
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
