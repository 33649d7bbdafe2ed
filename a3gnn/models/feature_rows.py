"""Rows of a feature matrix as float32 tensors."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.graphs.arrays import row_slots
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.parts.graph import RemoteFeatures
from a3gnn.storage.csr_tensor import csr


class FeatureRows:
    """Reads rows of a matrix in any storage format.

    Args:
        source: A graph's features, or a float32 tensor of shape (num_rows, columns).
    """

    def __init__(self, source: DenseFeatures | SparseFeatures | RemoteFeatures | Tensor) -> None:
        self._source = torch.from_numpy(source.array) if isinstance(source, DenseFeatures) else source

    @property
    def is_sparse(self) -> bool:
        """Whether `read` returns sparse CSR."""
        return isinstance(self._source, SparseFeatures)

    @property
    def is_remote(self) -> bool:
        """Whether rows are on graph servers."""
        return isinstance(self._source, RemoteFeatures)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self._source.shape[1])

    @property
    def whole(self) -> Tensor | None:
        """The whole matrix if it is stored as dense float32 in this process, or None."""
        dense = isinstance(self._source, Tensor) and self._source.dtype is torch.float32
        return self._source if dense else None  # type: ignore[return-value]

    def read(self, ids: NDArray[np.int32], device: torch.device) -> Tensor:
        """Returns the rows of `ids`, float32, (n, columns), on `device`: dense for ascending ids, or sparse CSR."""
        if isinstance(self._source, SparseFeatures):
            return _sparse_rows(self._source, ids).to(device)
        if isinstance(self._source, RemoteFeatures):
            return torch.from_numpy(self._source.read(ids)).to(device, torch.float32)
        first, last = int(ids[0]), int(ids[-1])
        run = last - first + 1 == len(ids)
        rows = self._source[first : last + 1] if run else self._source[torch.from_numpy(ids)]
        return rows.to(device, torch.float32)


def _sparse_rows(features: SparseFeatures, ids: NDArray[np.int32]) -> Tensor:
    indptr, slots = row_slots(features.indptr, ids)
    return csr(
        torch.from_numpy(indptr.astype(np.int32)),
        torch.from_numpy(features.indices[slots]),
        torch.from_numpy(features.data[slots].astype(np.float32)),
        (len(ids), features.shape[1]),
    )
