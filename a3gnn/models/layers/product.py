"""Matrix products of activations and weights in bfloat16; weights are stored in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Rows of the shortest window, and windows per mini-batch, both as exponents of 2. A mini-batch has 16 to 31 windows: a
#: product is padded by less than a sixteenth, and each doubling of the rows has 17 shapes, each compiled in the time of
#: one product (docs/design/engine.md).
_LEAST_BITS, _WINDOW_BITS = 6, 5


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns `x @ weight.T + bias`, bfloat16, shape (n_rows, out_channels).

    Operands are rounded to bfloat16 and sums are in float32. The weights' gradients are sums over pieces of the rows;
    each piece is rounded to bfloat16 and widened.

    Args:
        x: bfloat16, shape (n_rows, in_channels).
        weight: float32, shape (out_channels, in_channels).
        bias: float32, shape (out_channels,); None adds nothing.
    """
    out: Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


def multiply(x: Tensor, matrix: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Returns `x @ matrix + bias`, all of one dtype, in `out` if it is not None; without autograd."""
    out = x.new_empty(len(x), matrix.shape[1]) if out is None else out
    window = _window(x)
    whole = len(x) // window * window
    parts = [slice(0, whole)] if whole else []
    if whole < len(x):
        # The last part overlaps finished rows, so that it has no shape of its own.
        parts.append(slice(max(len(x) - window, 0), len(x)))
    for part in parts:
        if bias is None:
            torch.mm(x[part], matrix, out=out[part])
        else:
            torch.addmm(bias, x[part], matrix, out=out[part])
    return out


def sum_of_products(left: Tensor, right: Tensor) -> Tensor:
    """Returns `left.T @ right`, float32, for matrices of equal dtype and number of rows, without autograd.

    Sums are in float32; the sum over a piece's rows is rounded to the matrices' dtype.
    """
    window = _window(left)
    whole = len(left) // window * window
    total = (left[:whole].t() @ right[:whole]).float()
    if whole < len(left):
        total += _padded(left[whole:], window).t() @ _padded(right[whole:], window)
    return total


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        narrow = weight.to(x.dtype)
        ctx.save_for_backward(x, narrow)
        return multiply(x, narrow.t(), None if bias is None else bias.to(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, narrow = ctx.saved_tensors
        grad = grad.contiguous()
        by_x = multiply(grad, narrow) if ctx.needs_input_grad[0] else None
        by_bias = grad.sum(dim=0).float() if ctx.needs_input_grad[2] else None
        return by_x, sum_of_products(grad, x), by_bias


def _window(x: Tensor) -> int:
    """Returns the number of rows that products of `x` use multiples of: all rows, except for bfloat16 on the CPU.

    There, oneDNN compiles a kernel for each shape, which takes as long as the product of a mini-batch, and mini-batches
    differ in their number of rows. Recurring shapes are compiled once.
    """
    rows = len(x)
    if x.is_cuda or x.dtype is not torch.bfloat16:
        return max(rows, 1)
    return int(1 << max(_LEAST_BITS, rows.bit_length() - _WINDOW_BITS))


def _padded(x: Tensor, rows: int) -> Tensor:
    """Returns `x`, padded with zeros to `rows` rows."""
    out = x.new_zeros(rows, x.shape[1])
    out[: len(x)] = x
    return out
