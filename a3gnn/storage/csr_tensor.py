"""Sparse CSR tensors, without torch's warning."""

import warnings

import torch
from torch import Tensor

# torch warns once per process that CSR tensors are in beta; users can't act on it.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 1))


def csr(indptr: Tensor, indices: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Returns a sparse CSR tensor over the given arrays, which are neither copied nor checked."""
    return torch.sparse_csr_tensor(indptr, indices, values, size, check_invariants=False)
