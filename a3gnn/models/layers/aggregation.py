"""Aggregation of input rows before a layer's linear map, with the gradient of the activation before it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.features.row_table import Aggregator, RowTable, aggregate, input_width, weigh
from a3gnn.features.tensors import as_array
from a3gnn.kernels.sparse import multiply
from a3gnn.kernels.sums import collect
from a3gnn.models.layers.activation import Dropout, rectify_in_place, relu_dropout
from a3gnn.models.layers.block import LayerBlock, csr_matmul
from a3gnn.storage.csr_tensor import csr
from a3gnn.threads import pool

_NONE = np.empty(0, dtype=np.float32)
_NO_ROWS = np.empty((0, 0), dtype=np.float32)


def aggregated(aggregator: Aggregator, block: LayerBlock, x: Tensor, dropout: Dropout | None = None) -> Tensor:
    """Returns the aggregate of each destination's in-neighbors and own row, (num_dst, input_width).

    Its layout is the one of `MiniBatch.x` for the input layer (`a3gnn.features.row_table`).

    Args:
        aggregator: The aggregation.
        block: Destinations are the first of the sources.
        x: Sources, dense, float32 or bfloat16, shape (num_src, n_columns). The result has the same dtype.
        dropout: ReLU and this dropout are applied first and overwrite `x`; None uses `x` unchanged.
    """
    if block.runs_compiled(x):
        if dropout is None:
            out: Tensor = _Aggregate.apply(x.contiguous(), block, aggregator)  # type: ignore[no-untyped-call]
            return out
        active: tuple[Tensor, Tensor] = _ActivateAndAggregate.apply(x, block, aggregator, dropout)  # type: ignore[no-untyped-call]
        return active[0]
    x = x if dropout is None else relu_dropout(x, dropout)
    match aggregator:
        case "mean":
            return torch.cat([neighbor_sum(block, x, block.shares), block.destinations(x)], dim=1)
        case "sum":
            return neighbor_sum(block, x) + block.destinations(x)
        case "gcn":
            weights, own = block.symmetric_weights
            return neighbor_sum(block, x, weights) + own.to(x.dtype).unsqueeze(1) * block.destinations(x)


def neighbor_sum(block: LayerBlock, x: Tensor, weights: Tensor | None = None, *, onto: Tensor | None = None) -> Tensor:
    """Returns the weighted sum of `x` over each destination's in-neighbors, of its dtype, (num_dst, n_columns).

    Args:
        block: The edges; any rows of `x` may be the destinations.
        x: Sources, dense, float32 or bfloat16, which is summed in float32, shape (num_src, n_columns).
        weights: Constant factor of each edge, float32, shape (num_edges,); `LayerBlock.shares` gives a mean. None uses
            ones.
        onto: Start of the sums, of the dtype of `x`, contiguous, (num_dst, n_columns), overwritten; None uses zeros.
    """
    if x.dtype is torch.bfloat16:
        return neighbor_sum(block, x.float(), weights, onto=None if onto is None else onto.float()).to(x.dtype)
    weights = x.new_ones(block.indices.numel()) if weights is None else weights
    if x.device.type == "cpu" and x.dtype is torch.float32:
        total: Tensor = _Sum.apply(x.contiguous(), onto, block, weights)  # type: ignore[no-untyped-call]
        return total
    matrix = csr(block.indptr, block.indices, weights.to(x.dtype), (block.num_dst, block.num_src))
    total = csr_matmul(matrix, x)
    return total if onto is None else onto + total


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, block: LayerBlock, aggregator: Aggregator) -> Tensor:
        ctx.block, ctx.aggregator, ctx.shape = block, aggregator, x.shape
        return _forward(aggregator, block, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _backward(ctx.aggregator, ctx.block, grad, grad.new_empty(ctx.shape)), None, None


class _ActivateAndAggregate(torch.autograd.Function):
    """Also returns the activated sources, because autograd must know about the overwritten tensor."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, block: LayerBlock, aggregator: Aggregator, dropout: Dropout
    ) -> tuple[Tensor, Tensor]:
        rectify_in_place(x, dropout)
        ctx.block, ctx.aggregator, ctx.scale = block, aggregator, dropout.scale
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return _forward(aggregator, block, x), x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        out = _backward(ctx.aggregator, ctx.block, grad, torch.empty_like(x), x, ctx.scale)
        return out, None, None, None


def _forward(aggregator: Aggregator, block: LayerBlock, x: Tensor) -> Tensor:
    rows = as_array(x.detach())
    indptr, indices = block.indptr.numpy(), block.indices.numpy()
    table = RowTable.of(rows)
    out = x.new_empty(block.num_dst, input_width(aggregator, x.shape[1]))
    if aggregator != "gcn":
        aggregate(aggregator, table, indptr, indices, as_array(out))
        return out
    weights, own = (factors.numpy() for factors in block.symmetric_weights)
    weigh(table, indptr, indices, weights, own, as_array(out))
    return out


def _backward(
    aggregator: Aggregator, block: LayerBlock, grad: Tensor, out: Tensor, alive: Tensor | None = None, scale: Any = 1
) -> Tensor:
    """Writes the sources' gradient to `out` and returns it."""
    weights, own = factors(aggregator, block)
    rows, written = as_array(grad.contiguous()), as_array(out)
    gated = np.empty((0, 0), dtype=written.dtype) if alive is None else as_array(alive.detach())
    own_column = out.shape[1] if aggregator == "mean" else 0
    kernel = partial(collect, rows, own_column, own, weights, block.by_source, (gated, np.float32(scale)), written)
    pool.in_chunks(kernel, block.num_src, pool.grain(block.num_src, 4 * (out.numel() + out.shape[1] * len(weights))))
    return out


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
        kernel = partial(collect, rows, 0, _NONE, weights, block.by_source, (_NO_ROWS, np.float32(1)), by_x.numpy())
        moved = 4 * (by_x.numel() + by_x.shape[1] * len(weights))
        pool.in_chunks(kernel, block.num_src, pool.grain(block.num_src, moved))
        return by_x, by_onto, None, None


def factors(aggregator: Aggregator, block: LayerBlock) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the factors of edges and of own rows, float32, shapes (num_edges,) and (num_dst,)."""
    match aggregator:
        case "mean":
            return block.shares.numpy(), np.ones(block.num_dst, dtype=np.float32)
        case "sum":
            return np.ones(block.indices.numel(), dtype=np.float32), np.ones(block.num_dst, dtype=np.float32)
        case "gcn":
            weights, own = block.symmetric_weights
            return weights.numpy(), own.numpy()


def warm_up(aggregator: Aggregator) -> None:
    """Compiles the bfloat16 kernels of hidden layers with `aggregator`, or loads them from numba's cache.

    Not every mini-batch runs all of them: it depends on its size. For float32 see
    `a3gnn.kernels.warm_up`.
    """
    indptr, indices = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([0], dtype=torch.int32)
    block = LayerBlock(indptr, indices, 1, slice(0, 1), torch.zeros(1))
    x = torch.zeros(1, 1, dtype=torch.bfloat16, requires_grad=True)
    for out in (aggregated(aggregator, block, x * 1, Dropout(1, 0)), relu_dropout(x * 1, Dropout(1, 0))):
        out.sum().backward()  # type: ignore[no-untyped-call]
