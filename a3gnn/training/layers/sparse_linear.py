"""`sparse_linear`: a linear map of sparse CSR rows on the CPU, with the weights' gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.threads import pool
from a3gnn.training.layers.sparse_kernels import count_columns, multiply, sort_by_column

# Ranges of columns that threads share. Guess.
_RANGES = 64


def sparse_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns `x @ weight.T + bias`, dense, shape (n_rows, out_channels).

    A weight whose memory is in the order of its columns (`by_column`) is read where it is, and its gradient is in that
    order, too; another is copied first.

    Args:
        x: Sparse CSR on the CPU, float32 or float64, shape (n_rows, in_channels), without gradient.
        weight: Of the same dtype, shape (out_channels, in_channels).
        bias: Likewise, shape (out_channels,); None for zeros.
    """
    out: Tensor = _SparseLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


def by_column(weight: Tensor) -> None:
    """Puts the memory of a parameter, (out_channels, in_channels), in the order of its columns; its values stay."""
    weight.data = weight.data.t().contiguous().t()


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.x = x
        columns = weight.detach().t().contiguous()
        start = columns.new_zeros(columns.shape[1]) if bias is None else bias.detach()
        out = columns.new_empty(x.shape[0], columns.shape[1])
        kernel = partial(multiply, *_arrays(x), columns.numpy(), start.numpy(), out.numpy())
        pool.in_chunks(kernel, x.shape[0], pool.grain(x.shape[0], _moved(x, columns)))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        by_weight = _weight_gradient(ctx.x, grad.contiguous()) if ctx.needs_input_grad[1] else None
        return None, by_weight, grad.sum(0) if ctx.needs_input_grad[2] else None


def _weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """Returns the transpose of `x.T @ grad`, (out_channels, in_channels), in the order of its columns."""
    indptr, indices, values = _arrays(x)
    in_channels = x.shape[1]
    starts = np.empty(in_channels + 1, dtype=np.int64)
    rows, sorted_values = np.empty(len(indices), dtype=np.int32), np.empty_like(values)
    count_columns(indices, starts)
    # Each call reads every entry: one range per thread.
    entries = max(1, indices.nbytes + values.nbytes)
    grain = max(pool.grain(in_channels, entries), -(-in_channels // pool.size()))
    pool.in_chunks(partial(sort_by_column, indptr, indices, values, starts, rows, sorted_values), in_channels, grain)
    columns = grad.new_empty(in_channels, grad.shape[1])
    start = np.zeros(grad.shape[1], dtype=values.dtype)
    kernel = partial(multiply, starts, rows, sorted_values, grad.detach().numpy(), start, columns.numpy())
    bounds = _even_bounds(starts)
    pool.in_chunks(
        lambda low, high: kernel(bounds[low], bounds[high]), _RANGES, pool.grain(_RANGES, _moved(x, columns))
    )
    return columns.t()


def _even_bounds(starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns bounds of ranges of columns that take about as long each: some columns hold most entries."""
    work = starts + np.arange(len(starts))
    bounds: NDArray[np.int64] = np.searchsorted(work, np.linspace(0, work[-1], _RANGES + 1))
    return bounds


def _arrays(x: Tensor) -> tuple[Any, Any, Any]:
    return x.crow_indices().numpy(), x.col_indices().numpy(), x.values().numpy()


def _moved(x: Tensor, columns: Tensor) -> int:
    """Returns the bytes that a product of `x` reads and writes, about."""
    return int(columns.itemsize * columns.shape[1] * (x.values().numel() + x.shape[0]))
