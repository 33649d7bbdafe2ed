"""Sparse CSR tensors over parts that are known to be right."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

# torch says once in a process that CSR is in beta; people who train are not helped by that, so it is said to nobody.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 1))


def csr(indptr: Tensor, indices: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Returns a sparse CSR tensor over the given parts, which the caller vouches for: nothing is copied or checked."""
    return torch.sparse_csr_tensor(indptr, indices, values, size, check_invariants=False)
