"""Tensors as arrays for compiled kernels, and loans of their memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def dense_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """Returns the dense tensors that hold the memory of `tensor`: itself, or the three parts of a sparse CSR tensor."""
    return (tensor.crow_indices(), tensor.col_indices(), tensor.values()) if tensor.is_sparse_csr else (tensor,)


def slice_or_ids(places: NDArray[np.integer], device: torch.device | str = "cpu") -> slice | Tensor:
    """Returns `places`, ascending, as a slice if they are consecutive, else as int64 on `device`."""
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == len(places) and (np.diff(places) == 1).all():
        return slice(first, last + 1)
    return torch.from_numpy(places.astype(np.int64)).to(device)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """Returns the memory of `tensor`, which must not require gradients; bfloat16 as its bits in int16."""
    array: NDArray[Any] = (tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return array


def lent(memory: Tensor, rows: int, give_back: Callable[[Tensor], object]) -> Tensor:
    """Returns the first `rows` rows of `memory`; calls `give_back` with it after the last tensor over them has died."""
    # Tensors and their views share one storage, which holds this view, so the view dies with the last tensor.
    view = as_array(memory)[:rows]
    weakref.finalize(view, give_back, memory).atexit = False
    return torch.from_numpy(view).view(memory.dtype)
