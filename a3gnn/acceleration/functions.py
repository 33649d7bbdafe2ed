"""Sums, maxima and attention over the edges of an `EdgeGraph`, with all gradients, by compiled kernels.

Second derivatives are left to torch: with `create_graph`, a gradient is computed by torch's own operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.acceleration import kernels
from a3gnn.acceleration.by_torch import (
    attention_by_torch,
    dots_by_torch,
    head_sum_by_torch,
    max_by_torch,
    pair_scores_by_torch,
    scale_dtype,
    sum_by_torch,
    sum_scores_by_torch,
)
from a3gnn.acceleration.graph import EdgeGraph, Scaling
from a3gnn.acceleration.twice import gradients
from a3gnn.features.tensors import as_array
from a3gnn.models.layers.activation import Dropout
from a3gnn.threads import pool

# Targets per partial sum of a gradient by weights. Guess.
_BLOCK = 512


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


def attention_of(graph: EdgeGraph, scores: Tensor, dropout: Dropout) -> Tensor:
    """Returns the softmax of each target's scores after `dropout`, by slot, shape (num_edges, heads)."""
    out: Tensor = _Attention.apply(scores, graph, dropout)  # type: ignore[no-untyped-call]
    return out


def head_sum(graph: EdgeGraph, attention: Tensor, rows: Tensor, added: Tensor | None = None) -> Tensor:
    """Returns each head's weighted sum of rows, shape (num_dst, heads, width).

    Args:
        graph: The edges.
        attention: Each slot's weights, shape (num_edges, heads).
        rows: The sources' rows, shape (num_src, heads, width).
        added: Rows by slot that are added to the sources', shape (num_edges, heads, width); None adds nothing.
    """
    out: Tensor = _HeadSum.apply(attention, rows, added, graph)  # type: ignore[no-untyped-call]
    return out


def dot_scores(graph: EdgeGraph, target: Tensor, source: Tensor, added: Tensor | None, scale: float) -> Tensor:
    """Returns `scale * target . (source + added)` by slot, shape (num_edges, heads); rows as in `head_sum`."""
    out: Tensor = _DotScores.apply(target, source, added, graph, scale)  # type: ignore[no-untyped-call]
    return out


def sum_scores(graph: EdgeGraph, source: Tensor, target: Tensor, edge: Tensor | None, slope: float) -> Tensor:
    """Returns the LeakyReLU of the sum of source, target and edge scores by slot, shape (num_edges, heads).

    Args:
        graph: The edges.
        source: Shape (num_src, heads).
        target: Shape (num_dst, heads).
        edge: By slot, shape (num_edges, heads); None adds nothing.
        slope: LeakyReLU's negative slope, >= 0.
    """
    out: Tensor = _SumScores.apply(source, target, edge, graph, slope)  # type: ignore[no-untyped-call]
    return out


def pair_scores(
    graph: EdgeGraph, source: Tensor, target: Tensor, added: Tensor | None, weight: Tensor, slope: float
) -> Tensor:
    """Returns `weight . LeakyReLU(source + target + added)` by slot, shape (num_edges, heads); rows as in `head_sum`.

    `weight` has shape (heads, width).
    """
    out: Tensor = _PairScores.apply(source, target, added, weight, graph, slope)  # type: ignore[no-untyped-call]
    return out


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor | None, graph: EdgeGraph, scaling: Scaling, dtype: torch.dtype
    ) -> Tensor:
        ctx.graph, ctx.scaling, ctx.dtype = graph, scaling, x.dtype
        ctx.save_for_backward(x if weights is not None else None, weights)
        out = x.new_empty(graph.num_dst, x.shape[1], dtype=dtype)
        _sum(graph, x, weights, scaling, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph, scaling = ctx.graph, ctx.scaling
        x, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            inputs = (_stand_in(graph, grad, ctx.dtype) if x is None else x), weights
            return (
                *gradients(partial(sum_by_torch, graph, scaling), inputs, ctx.needs_input_grad, grad),
                None,
                None,
                None,
            )
        by_x = by_weights = None
        grad = grad.contiguous()
        if ctx.needs_input_grad[0]:
            by_x = grad.new_empty(graph.num_src, grad.shape[1], dtype=ctx.dtype)
            _sum(graph, grad, weights, scaling, by_x, backward=True)
        if weights is not None and ctx.needs_input_grad[1]:
            by_weights = torch.zeros_like(weights, memory_format=torch.contiguous_format)
            given = (graph.scales(scaling, array_of(weights).dtype), unit_of(weights), as_array(grad), array_of(x))
            csr = graph.indptr, graph.indices, graph.order
            size = x.shape[1] * graph.num_edges
            _over(kernels.edge_dots, graph.num_dst, size, *csr, *given, by_weights.numpy())
        return by_x, by_weights, None, None, None


def _sum(
    graph: EdgeGraph, x: Tensor, weights: Tensor | None, scaling: Scaling, out: Tensor, backward: bool = False
) -> None:
    """Writes the sums of `neighbor_sum` to `out`, or with `backward` those of its gradient by the sources' rows."""
    unit = unit_of(x)
    factors = np.empty(0, dtype=unit.dtype) if weights is None else array_of(weights)
    scale, own = graph.scales(scaling, unit.dtype)
    if backward:
        starts, _, targets = graph.by_source
        csr, slots, scales = (starts, targets), graph.order_by_source, (own, scale)
    else:
        csr, slots, scales = (graph.indptr, graph.indices), graph.order, (scale, own)
    _over(
        kernels.sum_rows,
        len(out),
        x.shape[1] * (graph.num_edges + len(out)),
        *csr,
        slots,
        factors,
        scales,
        unit,
        array_of(x),
        as_array(out),
    )


class _Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: EdgeGraph) -> Tensor:
        out = x.new_empty(graph.num_dst, x.shape[1])
        size = x.shape[1] * graph.num_edges
        _over(kernels.max_rows, graph.num_dst, size, graph.indptr, graph.indices, array_of(x), out.numpy())
        ctx.graph = graph
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: EdgeGraph = ctx.graph
        x, best = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *gradients(partial(max_by_torch, graph), (x,), ctx.needs_input_grad, grad), None
        rows, top, size = array_of(x), best.detach().numpy(), x.shape[1] * graph.num_edges
        shared, by_x = _like(best), grad.new_empty(x.shape)
        arguments = (rows, top, grad.contiguous().numpy(), unit_of(x), shared.numpy())
        _over(kernels.share_among_ties, graph.num_dst, size, graph.indptr, graph.indices, *arguments)
        starts, _, targets = graph.by_source
        arguments = (rows, top, shared.numpy(), unit_of(x), by_x.numpy())
        _over(kernels.collect_from_maxima, graph.num_src, size, starts, targets, *arguments)
        return by_x, None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, graph: EdgeGraph, dropout: Dropout) -> Tensor:
        signed = signed_attention(graph, scores, dropout)
        ctx.graph, ctx.dropout = graph, dropout
        ctx.save_for_backward(scores, signed)
        return signed.clamp(min=0).mul_(float(dropout.scale)) if dropout.threshold else signed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: EdgeGraph = ctx.graph
        scores, signed = ctx.saved_tensors
        if torch.is_grad_enabled():
            kept = (signed > 0) * float(ctx.dropout.scale)
            return (
                *gradients(partial(attention_by_torch, graph, kept), (scores,), ctx.needs_input_grad, grad),
                None,
                None,
            )
        out, scale = _like(signed), unit_of(signed).dtype.type(ctx.dropout.scale)
        arguments = (signed.detach().numpy(), scale, grad.contiguous().numpy(), out.numpy())
        _over(kernels.score_gradient, graph.num_dst, 4 * signed.numel(), graph.indptr, *arguments)
        return out, None, None


def signed_attention(graph: EdgeGraph, scores: Tensor, dropout: Dropout) -> Tensor:
    """Returns the softmax of each target's scores; dropped slots have a negative sign."""
    signed = scores.detach().clone(memory_format=torch.contiguous_format)
    arguments = (graph.indptr, dropout.arguments, signed.numpy())
    _over(kernels.normalize_scores, graph.num_dst, 8 * signed.numel(), *arguments)
    return signed


class _HeadSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, attention: Tensor, rows: Tensor, added: Tensor | None, graph: EdgeGraph) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(attention, rows, added)
        out = rows.new_empty(graph.num_dst, *rows.shape[1:])
        _head_sum((graph.indptr, graph.indices, _NO_SLOTS), attention, rows, added, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: EdgeGraph = ctx.graph
        attention, rows, added = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *gradients(
                partial(head_sum_by_torch, graph), (attention, rows, added), ctx.needs_input_grad, grad
            ), None
        grad = grad.contiguous()
        by_attention = by_rows = by_added = None
        if ctx.needs_input_grad[0]:
            by_attention = _like(attention)
            _dots(graph, grad, rows, added, 1.0, by_attention)
        if ctx.needs_input_grad[1]:
            by_rows = _like(rows)
            starts, slots, targets = graph.by_source
            _head_sum((starts, targets, slots), attention, grad, None, by_rows)
        if ctx.needs_input_grad[2]:
            by_added = _spread(graph, attention, grad)
        return by_attention, by_rows, by_added, None


class _DotScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, target: Tensor, source: Tensor, added: Tensor | None, graph: EdgeGraph, scale: float
    ) -> Tensor:
        ctx.graph, ctx.scale = graph, scale
        ctx.save_for_backward(target, source, added)
        out = source.new_empty(graph.num_edges, source.shape[1])
        _dots(graph, target, source, added, scale, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: EdgeGraph = ctx.graph
        target, source, added = ctx.saved_tensors
        if torch.is_grad_enabled():
            by_torch = partial(dots_by_torch, graph, ctx.scale)
            return *gradients(by_torch, (target, source, added), ctx.needs_input_grad, grad), None, None
        scaled = grad * ctx.scale
        by_target = _like(target)
        by_source = _like(source)
        _head_sum((graph.indptr, graph.indices, _NO_SLOTS), scaled, source, added, by_target)
        starts, slots, targets = graph.by_source
        _head_sum((starts, targets, slots), scaled, target, None, by_source)
        by_added = _spread(graph, scaled, target) if ctx.needs_input_grad[2] else None
        return by_target, by_source, by_added, None, None


class _SumScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, source: Tensor, target: Tensor, edge: Tensor | None, graph: EdgeGraph, slope: float
    ) -> Tensor:
        out = source.new_empty(graph.num_edges, source.shape[1])
        slopes = _slopes(slope, source)
        arguments = (array_of(source), array_of(target), _optional(edge, source), slopes, out.numpy())
        _over(kernels.add_scores, graph.num_dst, 2 * out.numel(), graph.indptr, graph.indices, *arguments)
        ctx.graph, ctx.slope = graph, slope
        ctx.save_for_backward(source, target, edge, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: EdgeGraph = ctx.graph
        source, target, edge, scores = ctx.saved_tensors
        if torch.is_grad_enabled():
            by_torch = partial(sum_scores_by_torch, graph, ctx.slope)
            return *gradients(by_torch, (source, target, edge), ctx.needs_input_grad, grad), None, None
        by_slot, by_target, by_source = _like(scores), _like(target), _like(source)
        arguments = (scores.detach().numpy(), _slopes(ctx.slope, source), grad.contiguous().numpy())
        _over(
            kernels.add_scores_gradient,
            graph.num_dst,
            2 * scores.numel(),
            graph.indptr,
            *arguments,
            by_slot.numpy(),
            by_target.numpy(),
        )
        starts, slots, _ = graph.by_source
        _over(kernels.sum_slots, graph.num_src, scores.numel(), starts, slots, by_slot.numpy(), by_source.numpy())
        return by_source, by_target, by_slot if ctx.needs_input_grad[2] else None, None, None


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, source: Tensor, target: Tensor, added: Tensor | None, weight: Tensor, graph: EdgeGraph, slope: float
    ) -> Tensor:
        out = source.new_empty(graph.num_edges, source.shape[1])
        ctx.graph, ctx.slope = graph, slope
        ctx.save_for_backward(source, target, added, weight)
        arguments = (
            array_of(source),
            array_of(target),
            _optional(added, source),
            array_of(weight),
            _slopes(slope, source),
        )
        size = graph.num_edges * weight.numel()
        _over(kernels.pair_scores, graph.num_dst, size, graph.indptr, graph.indices, *arguments, out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: EdgeGraph = ctx.graph
        source, target, added, weight = ctx.saved_tensors
        if torch.is_grad_enabled():
            by_torch = partial(pair_scores_by_torch, graph, ctx.slope)
            return *gradients(by_torch, (source, target, added, weight), ctx.needs_input_grad, grad), None, None
        given = (
            array_of(source),
            array_of(target),
            _optional(added, source),
            array_of(weight),
            _slopes(ctx.slope, source),
        )
        change = grad.contiguous().numpy()
        by_source, by_target = _like(source), _like(target)
        by_added = None if added is None else _like(added)
        blocks = max(1, -(-graph.num_dst // _BLOCK))
        by_weight = weight.new_empty(blocks, *weight.shape)
        written = (by_target.numpy(), _optional(by_added, source), by_weight.numpy(), _BLOCK)
        size = graph.num_edges * weight.numel()
        _over(kernels.pair_gradient_by_target, blocks, size, graph.indptr, graph.indices, *given, change, *written)
        written_by_source = by_source.numpy()
        _over(kernels.pair_gradient_by_source, graph.num_src, size, graph.by_source, *given, change, written_by_source)
        return by_source, by_target, by_added, by_weight.sum(dim=0), None, None


_NO_SLOTS = np.empty(0, dtype=np.int32)


def _head_sum(
    csr: tuple[NDArray[np.int32], ...], attention: Tensor, rows: Tensor, added: Tensor | None, out: Tensor
) -> None:
    given = (array_of(attention), array_of(rows), _optional(added, rows), out.numpy())
    _over(kernels.sum_heads, len(out), csr[1].size * out[:1].numel(), *csr, *given)


def _dots(graph: EdgeGraph, left: Tensor, rows: Tensor, added: Tensor | None, scale: float, out: Tensor) -> None:
    given = (array_of(left), array_of(rows), _optional(added, rows), unit_of(rows).dtype.type(scale), out.numpy())
    size = graph.num_edges * left[:1].numel()
    _over(kernels.dot_heads, graph.num_dst, size, graph.indptr, graph.indices, *given)


def _spread(graph: EdgeGraph, attention: Tensor, grad: Tensor) -> Tensor:
    out = grad.new_empty(graph.num_edges, *grad.shape[1:])
    given = (array_of(attention), array_of(grad), out.numpy())
    _over(kernels.spread_heads, graph.num_dst, out.numel(), graph.indptr, *given)
    return out


def _over(kernel: Callable[..., object], rows: int, entries: int, *arguments: Any) -> None:
    """Calls `kernel` for all rows of its output; `entries` of 4 bytes are read or written in all."""
    if rows:
        pool.in_chunks(partial(kernel, *arguments), rows, pool.grain(rows, 4 * max(entries, 1)))


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Returns the entries of `tensor`; bfloat16 as its bits in int16."""
    return as_array(tensor.detach().contiguous())


def _optional(tensor: Tensor | None, like: Tensor) -> NDArray[Any]:
    """Returns the array of `tensor`, or an empty one with as many dimensions and the dtype of `like`."""
    return np.empty((0,) * like.ndim, dtype=array_of(like[:0]).dtype) if tensor is None else array_of(tensor)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def unit_of(tensor: Tensor) -> Any:
    """Returns 1 in the type in which rows of `tensor` are summed."""
    return scale_dtype(tensor).type(1)


def _slopes(slope: float, like: Tensor) -> tuple[Any, Any]:
    one = unit_of(like)
    return one.dtype.type(slope), one


def _stand_in(graph: EdgeGraph, grad: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns sources' rows at which a linear function's gradient is taken; their values don't matter."""
    return grad.new_zeros(graph.num_src, grad.shape[1], dtype=dtype).requires_grad_()
