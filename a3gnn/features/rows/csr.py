"""Sparse CSR tensors over arrays that are known to be valid."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

# torch warns once per process that CSR tensors are in beta, which users can do nothing about.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 1))


def csr(indptr: Tensor, indices: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Returns a sparse CSR tensor over the given arrays, which are neither copied nor checked."""
    return torch.sparse_csr_tensor(indptr, indices, values, size, check_invariants=False)


def dense_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """Returns the dense tensors whose memory `tensor` is: itself, or a sparse CSR one's three parts."""
    return (tensor.crow_indices(), tensor.col_indices(), tensor.values()) if tensor.is_sparse_csr else (tensor,)
