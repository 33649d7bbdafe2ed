"""Sums and maxima over the edges of an `EdgeGraph`, with all gradients, by compiled kernels.

Second derivatives are left to torch: with `create_graph`, a gradient is computed by torch's own operators.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from a3gnn.acceleration.graph import EdgeGraph, Scaling
from a3gnn.features.tensors import as_array
from a3gnn.kernels import sums as kernels
from a3gnn.models.layers.compiled import array_of, gradients, like, over, sum_dtype


def neighbor_sum(
    graph: EdgeGraph,
    x: Tensor,
    weights: Tensor | None = None,
    scaling: Scaling = "sum",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Returns each target's scaled and weighted sum of rows, shape (num_dst, width).

    Args:
        graph: The edges.
        x: The sources' rows, float32, float64 or bfloat16, shape (num_src, width).
        weights: Each edge's weight in the order of the edge list, shape (num_edges,), of the dtype of `x`, or float32
            if that is bfloat16. None uses ones.
        scaling: See `Scaling`.
        dtype: Type of the result; None for that of `x`. bfloat16 is summed in float32.
    """
    out: Tensor = _Sum.apply(x, weights, graph, scaling, dtype or x.dtype)  # type: ignore[no-untyped-call]
    return out


def neighbor_max(graph: EdgeGraph, x: Tensor) -> Tensor:
    """Returns each target's columnwise maximum, 0 without edges, float32 or float64 as `x`, shape (num_dst, width)."""
    out: Tensor = _Max.apply(x, graph)  # type: ignore[no-untyped-call]
    return out


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor | None, graph: EdgeGraph, scaling: Scaling, dtype: torch.dtype
    ) -> Tensor:
        ctx.graph, ctx.scaling, ctx.dtype = graph, scaling, x.dtype
        ctx.save_for_backward(x if weights is not None else None, weights)
        out = x.new_empty(graph.num_dst, x.shape[1], dtype=dtype)
        write_sums(graph, x, weights, scaling, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph, scaling = ctx.graph, ctx.scaling
        x, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            inputs = (_stand_in(graph, grad, ctx.dtype) if x is None else x), weights
            found = gradients(partial(_sum_by_torch, graph, scaling), inputs, ctx.needs_input_grad, grad)
            return *found, None, None, None
        by_x = by_weights = None
        grad = grad.contiguous()
        if ctx.needs_input_grad[0]:
            by_x = grad.new_empty(graph.num_src, grad.shape[1], dtype=ctx.dtype)
            write_sums(graph, grad, weights, scaling, by_x, backward=True)
        if weights is not None and ctx.needs_input_grad[1]:
            by_weights = torch.zeros_like(weights, memory_format=torch.contiguous_format)
            given = (graph.csr, graph.scales(scaling, array_of(weights).dtype), as_array(grad), array_of(x))
            over(kernels.edge_dots, graph.num_dst, x.shape[1] * graph.num_edges, *given, by_weights.numpy())
        return by_x, by_weights, None, None, None


def write_sums(
    graph: EdgeGraph, x: Tensor, weights: Tensor | None, scaling: Scaling, out: Tensor, backward: bool = False
) -> None:
    """Writes the sums of `neighbor_sum` to `out`, or with `backward` those of its gradient by the sources' rows."""
    dtype = sum_dtype(x)
    factors = np.empty(0, dtype=dtype) if weights is None else array_of(weights)
    scale, own = graph.scales(scaling, dtype)
    csr, scales = graph.csr, (scale, own)
    if backward:
        csr, scales = graph.by_source if weights is None else graph.list_by_source, (own, scale)
    size = x.shape[1] * (graph.num_edges + len(out))
    over(kernels.sum_rows, len(out), size, csr, factors, scales, array_of(x), as_array(out))


class _Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: EdgeGraph) -> Tensor:
        out = maxima(graph, x)
        ctx.graph = graph
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: EdgeGraph = ctx.graph
        x, best = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *gradients(partial(_max_by_torch, graph), (x,), ctx.needs_input_grad, grad), None
        return maxima_gradient(graph, x, best, grad), None


def maxima(graph: EdgeGraph, x: Tensor) -> Tensor:
    """Returns `neighbor_max`, without autograd."""
    out = x.new_empty(graph.num_dst, x.shape[1])
    over(kernels.max_rows, graph.num_dst, x.shape[1] * graph.num_edges, graph.csr, array_of(x), out.numpy())
    return out


def maxima_gradient(graph: EdgeGraph, x: Tensor, best: Tensor, grad: Tensor) -> Tensor:
    """Returns the gradient of `neighbor_max`, whose result was `best`, by `x`; without autograd."""
    rows, top, size = array_of(x), array_of(best), x.shape[1] * graph.num_edges
    shared, by_x = like(best), grad.new_empty(x.shape)
    over(kernels.share_among_ties, graph.num_dst, size, graph.csr, rows, top, array_of(grad), shared.numpy())
    over(kernels.collect_from_maxima, graph.num_src, size, graph.by_source, rows, top, shared.numpy(), by_x.numpy())
    return by_x


def _stand_in(graph: EdgeGraph, grad: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns sources' rows at which a linear function's gradient is taken; their values don't matter."""
    return grad.new_zeros(graph.num_src, grad.shape[1], dtype=dtype).requires_grad_()


def _sum_by_torch(graph: EdgeGraph, scaling: Scaling, x: Tensor, weights: Tensor | None) -> Tensor:
    """Returns `neighbor_sum`."""
    source, target = graph.block.ends
    scale, own = (torch.from_numpy(part) for part in graph.scales(scaling, sum_dtype(x)))
    rows = x.index_select(0, source)
    for factor in ([graph.in_slots(weights)] if weights is not None else []) + (
        [scale.index_select(0, source)] if len(scale) else []
    ):
        rows = rows * factor.unsqueeze(1).to(x.dtype)
    total = x.new_zeros(graph.num_dst, x.shape[1]).index_add(0, target, rows)
    return total * own.unsqueeze(1).to(x.dtype) if len(own) else total


def _max_by_torch(graph: EdgeGraph, x: Tensor) -> Tensor:
    """Returns `neighbor_max`."""
    source, target = graph.block.ends
    rows = x.index_select(0, source)
    places = target.unsqueeze(1).expand_as(rows)
    return x.new_zeros(graph.num_dst, x.shape[1]).scatter_reduce(0, places, rows, "amax", include_self=False)
