"""What autograd functions by compiled kernels have in common: arrays of tensors, threads, and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.features.tensors import as_array
from a3gnn.threads import pool


def over(kernel: Callable[..., object], rows: int, entries: int, *arguments: Any) -> None:
    """Calls `kernel` for all rows of its output; `entries` of 4 bytes are read or written in all."""
    if rows:
        pool.in_chunks(partial(kernel, *arguments), rows, pool.grain(rows, 4 * max(entries, 1)))


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Returns the entries of `tensor`; bfloat16 as its bits in int16."""
    return as_array(tensor.detach().contiguous())


def like(tensor: Tensor) -> Tensor:
    """Returns a contiguous tensor of the shape and dtype of `tensor`, to be written."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def sum_dtype(rows: Tensor) -> np.dtype[Any]:
    """Returns the type in which sums of `rows` are computed."""
    return np.dtype(np.float64 if rows.dtype is torch.float64 else np.float32)


def gradients(
    by_torch: Callable[..., Tensor], inputs: tuple[Tensor | None, ...], needed: tuple[bool, ...], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Returns the gradients of `by_torch` by the needed inputs, which can be differentiated again in grad mode.

    Inputs may depend on each other, or be the same: each derivative holds the others fixed.
    `needed` has an entry per input; further entries don't count.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        own = [None if one is None else one.view_as(one) for one in inputs]  # nothing else depends on these
        asked = [one is not None and one_needed for one, one_needed in zip(own, needed, strict=False)]
        wanted = [one for one, is_asked in zip(own, asked, strict=True) if one is not None and is_asked]
        out = by_torch(*own)
    found = iter(torch.autograd.grad(out, wanted, grad.to(out.dtype), create_graph=again, allow_unused=True))
    return tuple(next(found) if is_asked else None for is_asked in asked)


def is_traced() -> bool:
    """Returns whether torch records or transforms operators instead of only running them."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch.autograd.forward_ad._current_level >= 0
    )
