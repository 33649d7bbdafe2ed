"""Scores of edges, their softmax and sums by head over a `LayerBlock`, with all gradients, by compiled kernels.

A slot is an edge, in the block's order. On a device, torch computes `dot_scores` and `pair_scores`; the others need the
CPU. Second derivatives are left to torch: with `create_graph`, a gradient is computed by torch's own operators, by the
function called `..._by_torch`, which takes the same arguments.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from a3gnn.kernels import attention as kernels
from a3gnn.kernels.sums import Csr
from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.compiled import array_of, gradients, like, over, sum_dtype


def attention_of(block: LayerBlock, scores: Tensor, dropout: Dropout) -> Tensor:
    """Returns the softmax of each target's scores after `dropout`, by slot, shape (num_edges, heads).

    A share's slots are dropped as in the whole mini-batch.
    """
    out: Tensor = _Attention.apply(scores, block, dropout)  # type: ignore[no-untyped-call]
    return out


def head_sum(block: LayerBlock, attention: Tensor, rows: Tensor, added: Tensor | None = None) -> Tensor:
    """Returns each head's weighted sum of rows, shape (num_dst, heads, width).

    Args:
        block: The edges.
        attention: Each slot's weights, shape (num_edges, heads).
        rows: The sources' rows, shape (num_src, heads or more, width); the last heads are summed.
        added: Rows by slot that are added to the sources', shape (num_edges, heads, width); None adds nothing.
    """
    if rows.requires_grad and rows.shape[1] > attention.shape[1]:
        rows = rows[:, -attention.shape[1] :]
    out: Tensor = _HeadSum.apply(attention, rows, added, block)  # type: ignore[no-untyped-call]
    return out


def dot_scores(block: LayerBlock, target: Tensor, source: Tensor, added: Tensor | None, scale: float) -> Tensor:
    """Returns `scale * target . (source + added)` by slot, shape (num_edges, heads).

    Rows are as in `head_sum`; of more heads in `source`, the first are read.
    """
    if source.shape[1] > target.shape[1] and (source.requires_grad or source.is_cuda):
        source = source[:, : target.shape[1]]
    if source.is_cuda:
        return dots_by_torch(block, scale, target, source, added)
    out: Tensor = _DotScores.apply(target, source, added, block, scale)  # type: ignore[no-untyped-call]
    return out


def sum_scores(block: LayerBlock, source: Tensor, target: Tensor, edge: Tensor | None, slope: float) -> Tensor:
    """Returns the LeakyReLU of the sum of source, target and edge scores by slot, shape (num_edges, heads).

    Args:
        block: The edges.
        source: Shape (num_src, heads).
        target: Shape (num_dst, heads).
        edge: By slot, shape (num_edges, heads); None adds nothing.
        slope: LeakyReLU's negative slope, >= 0.
    """
    out: Tensor = _SumScores.apply(source, target, edge, block, slope)  # type: ignore[no-untyped-call]
    return out


def pair_scores(
    block: LayerBlock, source: Tensor, target: Tensor, added: Tensor | None, weight: Tensor, slope: float
) -> Tensor:
    """Returns `weight . LeakyReLU(source + target + added)` by slot, shape (num_edges, heads); rows as in `head_sum`.

    `weight` has shape (heads, width).
    """
    if source.is_cuda:
        return pair_scores_by_torch(block, slope, source, target, added, weight)
    out: Tensor = _PairScores.apply(source, target, added, weight, block, slope)  # type: ignore[no-untyped-call]
    return out


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, block: LayerBlock, dropout: Dropout) -> Tensor:
        signed = signed_attention(block, scores, dropout)
        ctx.block, ctx.dropout = block, dropout
        ctx.save_for_backward(scores, signed)
        return signed.clamp(min=0).mul_(float(dropout.scale)) if dropout.threshold else signed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block: LayerBlock = ctx.block
        scores, signed = ctx.saved_tensors
        if torch.is_grad_enabled():
            kept = (signed > 0) * float(ctx.dropout.scale)
            by_torch = partial(attention_by_torch, block, kept)
            return *gradients(by_torch, (scores,), ctx.needs_input_grad, grad), None, None
        out, scale = like(signed), sum_dtype(signed).type(ctx.dropout.scale)
        arguments = (block.csr, array_of(signed), scale, array_of(grad), out.numpy())
        over(kernels.score_gradient, block.num_dst, 4 * signed.numel(), *arguments)
        return out, None, None


def signed_attention(block: LayerBlock, scores: Tensor, dropout: Dropout) -> Tensor:
    """Returns the softmax of each target's scores; dropped slots have a negative sign."""
    signed = scores.detach().clone(memory_format=torch.contiguous_format)
    arguments = (block.csr, dropout.arguments, _first_slots(block), signed.numpy())
    over(kernels.normalize_scores, block.num_dst, 8 * signed.numel(), *arguments)
    return signed


def _first_slots(block: LayerBlock) -> NDArray[np.int64]:
    """Returns each target's first slot in the whole mini-batch; empty if the block is the whole."""
    if block.whole is None:
        return np.empty(0, dtype=np.int64)
    first: NDArray[np.int64] = block.whole.block.indptr.numpy()[block.whole.places[: block.num_dst].numpy()]
    return first.astype(np.int64)


class _HeadSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, attention: Tensor, rows: Tensor, added: Tensor | None, block: LayerBlock) -> Tensor:
        ctx.block = block
        ctx.save_for_backward(attention, rows, added)
        out = rows.new_empty(block.num_dst, attention.shape[1], rows.shape[2])
        _head_sum(block.csr, attention, rows, added, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block: LayerBlock = ctx.block
        attention, rows, added = ctx.saved_tensors
        if torch.is_grad_enabled():
            by_torch = partial(head_sum_by_torch, block)
            return *gradients(by_torch, (attention, rows, added), ctx.needs_input_grad, grad), None
        grad = grad.contiguous()
        by_attention = by_rows = by_added = None
        if ctx.needs_input_grad[0]:
            by_attention = like(attention)
            _dots(block, grad, rows, added, 1.0, by_attention)
        if ctx.needs_input_grad[1]:
            by_rows = like(rows)
            _head_sum(block.by_source, attention, grad, None, by_rows)
        if ctx.needs_input_grad[2]:
            by_added = _spread(block, attention, grad)
        return by_attention, by_rows, by_added, None


class _DotScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, target: Tensor, source: Tensor, added: Tensor | None, block: LayerBlock, scale: float
    ) -> Tensor:
        ctx.block, ctx.scale = block, scale
        ctx.save_for_backward(target, source, added)
        out = source.new_empty(block.num_edges, target.shape[1])
        _dots(block, target, source, added, scale, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block: LayerBlock = ctx.block
        target, source, added = ctx.saved_tensors
        if torch.is_grad_enabled():
            by_torch = partial(dots_by_torch, block, ctx.scale)
            return *gradients(by_torch, (target, source, added), ctx.needs_input_grad, grad), None, None
        scaled = grad * ctx.scale
        by_target, by_source = like(target), like(source)
        _head_sum(block.csr, scaled, source, added, by_target)
        _head_sum(block.by_source, scaled, target, None, by_source)
        by_added = _spread(block, scaled, target) if ctx.needs_input_grad[2] else None
        return by_target, by_source, by_added, None, None


class _SumScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, source: Tensor, target: Tensor, edge: Tensor | None, block: LayerBlock, slope: float
    ) -> Tensor:
        out = source.new_empty(block.num_edges, source.shape[1])
        arguments = (array_of(source), array_of(target), _optional(edge), sum_dtype(source).type(slope), out.numpy())
        over(kernels.add_scores, block.num_dst, 2 * out.numel(), block.csr, *arguments)
        ctx.block, ctx.slope = block, slope
        ctx.save_for_backward(source, target, edge, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block: LayerBlock = ctx.block
        source, target, edge, scores = ctx.saved_tensors
        if torch.is_grad_enabled():
            by_torch = partial(sum_scores_by_torch, block, ctx.slope)
            return *gradients(by_torch, (source, target, edge), ctx.needs_input_grad, grad), None, None
        by_slot, by_target, by_source = like(scores), like(target), like(source)
        given = (array_of(scores), sum_dtype(source).type(ctx.slope), array_of(grad))
        written = (by_slot.numpy(), by_target.numpy())
        over(kernels.add_scores_gradient, block.num_dst, 2 * scores.numel(), block.csr, *given, *written)
        over(kernels.sum_slots, block.num_src, scores.numel(), block.by_source, by_slot.numpy(), by_source.numpy())
        return by_source, by_target, by_slot if ctx.needs_input_grad[2] else None, None, None


class _PairScores(torch.autograd.Function):
    # Kernels read a copy of the weight: torch forbids FSDP to free a parameter's memory once it has an array.
    @staticmethod
    def forward(
        ctx: Any, source: Tensor, target: Tensor, added: Tensor | None, weight: Tensor, block: LayerBlock, slope: float
    ) -> Tensor:
        out = source.new_empty(block.num_edges, source.shape[1])
        ctx.block, ctx.slope = block, slope
        ctx.save_for_backward(source, target, added, weight)
        scorer = (array_of(weight.clone()), sum_dtype(source).type(slope))
        given = (block.csr, (array_of(source), array_of(target)), _optional(added), scorer)
        over(kernels.pair_scores, block.num_dst, block.num_edges * weight.numel(), *given, out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block: LayerBlock = ctx.block
        source, target, added, weight = ctx.saved_tensors
        if torch.is_grad_enabled():
            by_torch = partial(pair_scores_by_torch, block, ctx.slope)
            return *gradients(by_torch, (source, target, added, weight), ctx.needs_input_grad, grad), None, None
        scorer = (array_of(weight.clone()), sum_dtype(source).type(ctx.slope))
        given = ((array_of(source), array_of(target)), _optional(added), scorer, array_of(grad))
        by_source, by_target = like(source), like(target)
        by_added = None if added is None else like(added)
        parts = max(1, -(-block.num_dst // kernels.BLOCK))
        by_weight, size = weight.new_empty(parts, *weight.shape), block.num_edges * weight.numel()
        written = (_optional(by_added), (by_target.numpy(), by_weight.numpy()))
        over(kernels.pair_gradient_by_target, parts, size, block.csr, *given, *written)
        over(kernels.pair_gradient_by_source, block.num_src, size, block.by_source, *given, by_source.numpy())
        return by_source, by_target, by_added, by_weight.sum(dim=0), None, None


def _head_sum(csr: Csr, attention: Tensor, rows: Tensor, added: Tensor | None, out: Tensor) -> None:
    given = (array_of(attention), array_of(rows), _optional(added), out.numpy())
    over(kernels.sum_heads, len(out), csr[1].size * out[:1].numel(), csr, *given)


def _dots(block: LayerBlock, left: Tensor, rows: Tensor, added: Tensor | None, scale: float, out: Tensor) -> None:
    given = (array_of(left), array_of(rows), _optional(added), sum_dtype(rows).type(scale), out.numpy())
    over(kernels.dot_heads, block.num_dst, block.num_edges * left[:1].numel(), block.csr, *given)


def _spread(block: LayerBlock, attention: Tensor, grad: Tensor) -> Tensor:
    out = grad.new_empty(block.num_edges, *grad.shape[1:])
    given = (block.csr, array_of(attention), array_of(grad), out.numpy())
    over(kernels.spread_heads, block.num_dst, out.numel(), *given)
    return out


def _optional(tensor: Tensor | None) -> NDArray[Any] | None:
    return None if tensor is None else array_of(tensor)


def attention_by_torch(block: LayerBlock, kept: Tensor, scores: Tensor) -> Tensor:
    """Returns `attention_of` for the factors `kept` of each slot after dropout."""
    target = block.rows.unsqueeze(1).expand_as(scores)
    top = scores.new_zeros(block.num_dst, scores.shape[1])
    top = top.scatter_reduce(0, target, scores.detach(), "amax", include_self=False)
    raised = (scores - top.gather(0, target)).exp()
    total = torch.zeros_like(top).scatter_add(0, target, raised)
    return raised / total.gather(0, target) * kept


def head_sum_by_torch(block: LayerBlock, attention: Tensor, rows: Tensor, added: Tensor | None) -> Tensor:
    """Returns `head_sum`."""
    source, target = block.ends
    taken = rows.index_select(0, source)
    taken = taken if added is None else taken + added
    out = rows.new_zeros(block.num_dst, *rows.shape[1:])
    return out.index_add(0, target, attention.unsqueeze(2) * taken)


def dots_by_torch(block: LayerBlock, scale: float, target: Tensor, source: Tensor, added: Tensor | None) -> Tensor:
    """Returns `dot_scores`."""
    at_source, at_target = block.ends
    rows = source.index_select(0, at_source)
    rows = rows if added is None else rows + added
    return (target.index_select(0, at_target) * rows).sum(dim=2) * scale


def sum_scores_by_torch(block: LayerBlock, slope: float, source: Tensor, target: Tensor, edge: Tensor | None) -> Tensor:
    """Returns `sum_scores`."""
    at_source, at_target = block.ends
    total = source.index_select(0, at_source) + target.index_select(0, at_target)
    return functional.leaky_relu(total if edge is None else total + edge, slope)


def pair_scores_by_torch(
    block: LayerBlock, slope: float, source: Tensor, target: Tensor, added: Tensor | None, weight: Tensor
) -> Tensor:
    """Returns `pair_scores`."""
    at_source, at_target = block.ends
    rows = source.index_select(0, at_source).add_(target.index_select(0, at_target))
    rows = functional.leaky_relu_(rows if added is None else rows + added, slope)
    return torch.stack([rows[:, head] @ one for head, one in enumerate(weight)], dim=1)
