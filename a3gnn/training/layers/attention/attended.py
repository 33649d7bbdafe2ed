"""Input rows summed by attention, once per head, before a layer's linear map."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.features.rows.tensors import as_array
from a3gnn.threads import pool
from a3gnn.training.layers.activation import rectify_in_place
from a3gnn.training.layers.attention import kernels
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.layers.dropout import Dropout
from a3gnn.training.layers.product import multiply, sum_of_products

# Destinations or sources of which a few dozen make a thread's piece: tens of edges each, on all heads. Guess.
_GRAIN = 64


def attended(
    block: LayerBlock, x: Tensor, source_map: Tensor, target_map: Tensor, *, attention: Dropout, before: Dropout | None
) -> Tensor:
    """Returns each head's attention-weighted sum of rows of `x`, of its dtype, shape (heads, num_dst, n_columns).

    A head's weights are the softmax, over a destination's in-neighbours and itself, of LeakyReLU(s + t), where s is the
    source's score and t the destination's (Veličković et al., 2018, equation 3).

    Args:
        block: One that compiled kernels can read (`LayerBlock.runs_compiled`).
        x: Sources, float32 or bfloat16, shape (num_src, n_columns).
        source_map: From rows to sources' scores, float32, shape (heads, n_columns).
        target_map: From rows to destinations' scores, likewise.
        attention: Of the weights.
        before: ReLU and this come first, and overwrite `x`; None takes `x` as it is.
    """
    out, *_ = _Attend.apply(x, source_map, target_map, block, attention, before)  # type: ignore[no-untyped-call]
    return out  # type: ignore[no-any-return]


def _first_slots(block: LayerBlock) -> NDArray[np.int64]:
    """Returns where each destination's slots begin in the whole mini-batch, int64; empty where this is all of one."""
    if block.whole is None:
        return np.empty(0, dtype=np.int64)
    places = block.whole.places[: block.num_dst].numpy()
    begins: NDArray[np.int64] = block.whole.block.indptr.numpy()[places] + places
    return begins


class _Attend(torch.autograd.Function):
    """Returns the sums, and `x` where it was overwritten: autograd must know of that."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, source_map: Tensor, target_map: Tensor, block: LayerBlock, attention: Dropout, before: Any
    ) -> tuple[Tensor, ...]:
        if before is None:
            rows = x.contiguous()
        else:
            rectify_in_place(x, before)
            ctx.mark_dirty(x)
            rows = x
        heads, slots = len(source_map), block.indices.numel() + block.num_dst
        source, target = _scores(rows, source_map), _scores(rows[: block.num_dst], target_map)
        weights, out = source.new_empty(slots, heads), x.new_empty(heads, block.num_dst, x.shape[1])
        arguments = (_edges(block), (source.numpy(), target.numpy()), attention.arguments, _first_slots(block))
        written = (as_array(rows.detach()), weights.numpy(), as_array(out))
        pool.in_chunks(partial(kernels.attend, *arguments, *written), block.num_dst, _GRAIN)
        ctx.block, ctx.scale, ctx.before = block, attention.scale, before
        ctx.save_for_backward(rows, source_map, target_map, source, target, weights)
        ctx.set_materialize_grads(False)
        return (out,) if before is None else (out, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        rows, source_map, target_map, source, target, weights = ctx.saved_tensors
        block: LayerBlock = ctx.block
        given, x, edges = as_array(grad.contiguous()), as_array(rows.detach()), _edges(block)
        by_slot, by_target, by_source = (np.empty_like(part.numpy()) for part in (weights, target, source))
        by_source[:] = 0
        attention = (weights.numpy(), ctx.scale)
        scores = (source.numpy(), target.numpy())
        kernel = partial(kernels.score_gradients, given, edges, scores, *attention, x, by_slot, by_target)
        pool.in_chunks(kernel, block.num_dst, _GRAIN)
        kernels.sum_by_source(edges, by_slot, by_source)
        by_x = None
        if ctx.needs_input_grad[0]:
            by_x = torch.empty_like(rows)
            maps = (source_map.detach().numpy(), target_map.detach().numpy())
            alive = np.empty((0, 0), dtype=x.dtype) if ctx.before is None else x
            alive_scale = np.float32(1) if ctx.before is None else ctx.before.scale
            arguments = (*attention, block.by_source, (by_source, by_target), maps, alive, alive_scale, as_array(by_x))
            pool.in_chunks(partial(kernels.collect_attended, given, edges, *arguments), block.num_src, _GRAIN)
        by_maps = (_map_gradient(by_source, rows), _map_gradient(by_target, rows[: block.num_dst]))
        return by_x, *by_maps, None, None, None


def _scores(rows: Tensor, scorer: Tensor) -> Tensor:
    """Returns `rows @ scorer.T`, float32, shape (n_rows, heads)."""
    return multiply(rows, scorer.t().to(rows.dtype)).float()


def _map_gradient(by_score: NDArray[np.float32], rows: Tensor) -> Tensor:
    """Returns the gradient by a map from `rows` to scores, float32, shape (heads, n_columns)."""
    return sum_of_products(torch.from_numpy(by_score).to(rows.dtype), rows)


def _edges(block: LayerBlock) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return block.indptr.numpy(), block.indices.numpy()
