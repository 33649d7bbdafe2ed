"""Normalization followed by ReLU; fuses batch norms (Ioffe and Szegedy, 2015, algorithm 1) with the ReLU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch_geometric.nn.norm import BatchNorm

from a3gnn.models.layers.norm_kernels import (
    BLOCK_ROWS,
    block_gradients,
    block_moments,
    input_gradient,
    scale_and_rectify,
)
from a3gnn.threads import pool


def norm_relu(x: Tensor, norm: nn.Module) -> Tensor:
    """Returns ReLU of `x` after `norm`, of its dtype and shape (n_rows, width); updates running statistics.

    Args:
        x: float32, or bfloat16, which PyG's own module handles; contiguous, shape (n_rows, width).
        norm: A norm from `make_norm`.
    """
    return _fused(x, norm) if _is_fused(x, norm) else functional.relu_(norm(x))


def normalized(x: Tensor, norm: nn.Module) -> Tensor:
    """Returns `x` after `norm`, with ReLU applied or still to apply, in memory that may be overwritten."""
    return _fused(x, norm) if _is_fused(x, norm) else norm(x)


def _is_fused(x: Tensor, norm: nn.Module) -> bool:
    """Returns whether the kernels support it: a batch norm in training, two rows or more, float32 on the CPU."""
    return isinstance(norm, BatchNorm) and norm.training and len(x) > 1 and not x.is_cuda and x.dtype is torch.float32


def _fused(x: Tensor, norm: nn.Module) -> Tensor:
    module: Any = norm.module
    out, mean, variance = _NormRelu.apply(x, module.weight, module.bias, module.eps)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        module.num_batches_tracked.add_(1)
        module.running_mean.lerp_(mean, module.momentum)
        module.running_var.lerp_(variance * (len(x) / (len(x) - 1)), module.momentum)
    return out  # type: ignore[no-any-return]


class _NormRelu(torch.autograd.Function):
    """Returns the activated rows, and the mean and (biased) variance of the input's columns."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        rows = x.detach().contiguous().numpy()
        mean, variance = _moments(rows)
        deviation = 1 / np.sqrt(variance + eps)
        # Copies, because FSDP frees weights, and can't free memory that NumPy has seen.
        scale = weight.detach().clone().numpy() * deviation
        shift = bias.detach().clone().numpy() - mean * scale
        # Double precision ends here; products and sums of rows are float32.
        ctx.columns = tuple(part.astype(np.float32) for part in (mean, scale, shift))
        ctx.rows, ctx.deviation, out = rows, deviation, torch.empty_like(x)
        kernel = partial(scale_and_rectify, rows, *ctx.columns[1:], out.numpy())
        pool.in_chunks(kernel, len(rows), pool.grain(len(rows), 2 * rows.nbytes))
        statistics = [torch.from_numpy(part.astype(np.float32)) for part in (mean, variance)]
        ctx.mark_non_differentiable(*statistics)
        return out, statistics[0], statistics[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: None) -> tuple[Tensor, Tensor, Tensor, None]:
        given, rows, deviation = grad.contiguous().numpy(), ctx.rows, ctx.deviation
        sums, products = (
            part.sum(axis=0, dtype=np.float64)
            for part in _by_block(rows, partial(block_gradients, given, rows, ctx.columns))
        )
        offset, slope = sums / len(rows), products * deviation**2 / len(rows)
        by_x = torch.empty_like(grad, memory_format=torch.contiguous_format)
        ends = [part.astype(np.float32) for part in (offset, slope)]
        kernel = partial(input_gradient, given, rows, ctx.columns, *ends, by_x.numpy())
        pool.in_chunks(kernel, len(rows), pool.grain(len(rows), 3 * rows.nbytes))
        by_weight, by_bias = (torch.from_numpy(part.astype(np.float32)) for part in (products * deviation, sums))
        return by_x, by_weight, by_bias, None


def _moments(rows: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns each column's mean and biased variance, float64, shape (width,)."""
    sums, squares = _by_block(rows, partial(block_moments, rows))
    counts = np.full((len(sums), 1), BLOCK_ROWS, dtype=np.float64)
    counts[-1] = len(rows) - BLOCK_ROWS * (len(sums) - 1)
    mean = sums.sum(axis=0, dtype=np.float64) / len(rows)
    # Chan, Golub and LeVeque, 1983, equation 2.1: moves squares around each block's mean to the common mean.
    moved = (counts * (sums / counts - mean) ** 2).sum(axis=0)
    return mean, (squares.sum(axis=0, dtype=np.float64) + moved) / len(rows)


def _by_block(
    rows: NDArray[np.float32], kernel: Callable[..., object]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the two arrays that `kernel` writes for each block of `rows`, float32, shape (n_blocks, width)."""
    blocks = -(-len(rows) // BLOCK_ROWS)
    first, second = (np.empty((blocks, rows.shape[1]), dtype=np.float32) for _ in range(2))
    pool.in_chunks(partial(kernel, first, second), blocks, pool.grain(blocks, rows.nbytes))
    return first, second
