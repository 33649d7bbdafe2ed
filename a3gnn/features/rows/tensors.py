"""Tensors as the arrays that compiled kernels take."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def as_array(tensor: Tensor) -> NDArray[Any]:
    """Returns the memory of `tensor`, which autograd does not watch: the bits of bfloat16 as int16."""
    array: NDArray[Any] = (tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return array
