"""Matrices that live in files, so that the system can take their memory back."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from a3gnn.errors import A3GNNError
from a3gnn.storage.cache import cache_root
from a3gnn.units import format_size


class Scratch:
    """A folder for matrices that vanish with the process.

    Args:
        folder: On a disk (a folder in RAM would count as memory); by default beside the cached graphs.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = cache_root() / "scratch" if folder is None else folder

    def matrix(self, rows: int, columns: int) -> Tensor:
        """Returns a zeroed float32 tensor of shape (rows, columns) in an unlinked, memory-mapped file.

        The file's blocks are reserved at once: a full disk is an error here, not a bus error at a later write.

        Raises:
            A3GNNError: The folder can't be written, or its disk is full.
        """
        size = max(4 * rows * columns, 1)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)
                mapped = np.memmap(file, dtype=np.float32, mode="r+", shape=(rows, columns))
        except OSError as error:
            raise A3GNNError(
                f"evaluation must have {format_size(size)} of disk in {self.folder} for a layer's output, but "
                f"{error.strerror or error}; free some, or set A3GNN_CACHE to a folder on another disk"
            ) from error
        return torch.from_numpy(np.asarray(mapped))
