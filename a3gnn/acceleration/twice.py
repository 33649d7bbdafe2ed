"""`twice_differentiable`: a function with a fast gradient, whose second derivatives are left to torch's operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from a3gnn.acceleration.sparse_inputs import sparse_rows
from a3gnn.models.layers.compiled import gradients, is_traced
from a3gnn.models.layers.layer import linear
from a3gnn.models.layers.sparse_linear import sparse_linear


def twice_differentiable(
    fast: Callable[..., Tensor], by_torch: Callable[..., Tensor], *inputs: Tensor | None
) -> Tensor:
    """Returns `fast(*inputs)`.

    Args:
        fast: Its gradient may be differentiable only once.
        by_torch: Computes the same by operators that can be differentiated any number of times.
        inputs: Arguments of both.
    """
    if not torch.is_grad_enabled():
        return fast(*inputs)
    out: Tensor = _Twice.apply(fast, by_torch, *inputs)  # type: ignore[no-untyped-call]
    return out


def mapped(x: Tensor, weight: Tensor, bias: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """Returns `x @ weight.T + bias`; bfloat16 by the trainer's product.

    An `x` of mostly zeros (`sparse_rows`) is read as its other entries, and the sums are in its own dtype.

    Args:
        x: Shape (n_rows, in_channels).
        weight: Shape (out_channels, in_channels).
        bias: Shape (out_channels,); None adds nothing.
        dtype: Type of the result, to which `x` is rounded before; None for that of `x`.
    """
    dtype = dtype or x.dtype
    by_torch = partial(_rounded, dtype)
    rows = None if is_traced() or weight.dtype is not x.dtype else sparse_rows(x)
    if rows is not None:
        return twice_differentiable(partial(_sparse, dtype, rows), by_torch, x, weight, bias)
    x = x.to(dtype)
    if dtype is not torch.bfloat16:
        return functional.linear(x, weight, bias)
    return twice_differentiable(linear, by_torch, x, weight, bias)


def _sparse(dtype: torch.dtype, rows: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return sparse_linear(rows, weight, bias).to(dtype)


def _rounded(dtype: torch.dtype, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.linear(x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fast: Any, by_torch: Any, *inputs: Tensor | None) -> Tensor:
        needed = ctx.needs_input_grad[2:]
        ctx.by_torch = by_torch
        ctx.save_for_backward(*inputs)
        with torch.enable_grad():
            held = [None if one is None else one.detach() for one in inputs]
            ctx.held = [
                one.requires_grad_() for one, asked in zip(held, needed, strict=True) if one is not None and asked
            ]
            ctx.out = fast(*held)
        out: Tensor = ctx.out.detach()
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():  # reads the inputs, which must not have changed
            return None, None, *gradients(ctx.by_torch, ctx.saved_tensors, needed, grad)
        found = iter(torch.autograd.grad(ctx.out, ctx.held, grad, retain_graph=True))
        return None, None, *(next(found) if asked else None for asked in needed)
