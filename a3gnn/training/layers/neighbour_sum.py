"""`neighbour_sum`: weighted sums over in-neighbours, whatever comes before and after."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.features.rows.csr import csr
from a3gnn.threads import pool
from a3gnn.training.layers.block import LayerBlock, csr_matmul
from a3gnn.training.layers.kernels import collect
from a3gnn.training.layers.sparse_kernels import multiply

_NONE = np.empty(0, dtype=np.float32)
_NO_ROWS = np.empty((0, 0), dtype=np.float32)


def neighbour_sum(block: LayerBlock, x: Tensor, weights: Tensor | None = None, *, onto: Tensor | None = None) -> Tensor:
    """Returns the weighted sum of `x` over each destination's in-neighbours, of its dtype, (num_dst, n_columns).

    Args:
        block: The edges; any rows of `x` may be the destinations.
        x: Sources, dense, float32 or bfloat16, which is summed in float32, shape (num_src, n_columns).
        weights: Factor of each edge, float32, shape (num_edges,), a constant; `LayerBlock.shares` for a mean. Ones if
            None.
        onto: What the sums are added to, like `x`, contiguous, (num_dst, n_columns), overwritten; zeros if None.
    """
    if x.dtype is torch.bfloat16:
        return neighbour_sum(block, x.float(), weights, onto=None if onto is None else onto.float()).to(x.dtype)
    weights = x.new_ones(block.indices.numel()) if weights is None else weights
    if x.device.type == "cpu" and x.dtype is torch.float32:
        total: Tensor = _Sum.apply(x.contiguous(), onto, block, weights)  # type: ignore[no-untyped-call]
        return total
    matrix = csr(block.indptr, block.indices, weights.to(x.dtype), (block.num_dst, block.num_src))
    total = csr_matmul(matrix, x)
    return total if onto is None else onto + total


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, onto: Tensor | None, block: LayerBlock, weights: Tensor) -> Tensor:
        ctx.block, ctx.weights, ctx.shape = block, weights, x.shape
        if onto is None:
            start, out = x.new_zeros(x.shape[1]), x.new_empty(block.num_dst, x.shape[1])
        else:
            start, out = x.new_empty(0), onto
            ctx.mark_dirty(onto)
        edges = block.indptr.numpy(), block.indices.numpy(), weights.numpy()
        kernel = partial(multiply, *edges, x.detach().numpy(), start.numpy(), out.detach().numpy())
        moved = 4 * x.shape[1] * (len(weights) + block.num_dst)
        pool.in_chunks(kernel, block.num_dst, pool.grain(block.num_dst, moved))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        by_onto = grad if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[0]:
            return None, by_onto, None, None
        block, by_x = ctx.block, grad.new_empty(ctx.shape)
        rows, weights = grad.contiguous().numpy(), ctx.weights.numpy()
        kernel = partial(collect, rows, 0, _NONE, weights, *block.by_source, _NO_ROWS, np.float32(1), by_x.numpy())
        moved = 4 * (by_x.numel() + by_x.shape[1] * len(weights))
        pool.in_chunks(kernel, block.num_src, pool.grain(block.num_src, moved))
        return by_x, by_onto, None, None
