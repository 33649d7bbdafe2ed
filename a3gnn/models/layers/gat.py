"""Graph attention (Veličković et al., 2018), as PyG's `GATConv`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot

from a3gnn.features.tensors import as_array
from a3gnn.kernels import gat as kernels
from a3gnn.models.layers.activation import Dropout, rectify_in_place, relu_dropout
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.edge_attention import EDGE_COST, at_least_single, attention_sum, edges_cost
from a3gnn.models.layers.layer import Layer, LayerShapes, linear, work_of
from a3gnn.models.layers.product import multiply, sum_of_products
from a3gnn.threads import pool


class GATLayer(Layer):
    """Attention over the in-neighbors and the node itself; heads are concatenated, or averaged in the last layer.

    A self loop of the graph counts once. With `edge_dim`, the attributes of edges add to the scores.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float, edge_dim: int = 0
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.edge_bytes = 64 + 40 * heads
        self.heads = heads
        self.concat = concat
        self.dropout = dropout
        width = out_channels // heads if concat else out_channels
        self.lin = Linear(in_channels, heads * width, bias=False, weight_initializer="glorot")
        self.att_src = nn.Parameter(torch.empty(1, heads, width))
        self.att_dst = nn.Parameter(torch.empty(1, heads, width))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        glorot(self.att_src)
        glorot(self.att_dst)
        self.edge_dim = edge_dim
        if edge_dim:
            self.lin_edge = Linear(edge_dim, heads * width, bias=False, weight_initializer="glorot")
            self.att_edge = nn.Parameter(torch.empty(1, heads, width))
            glorot(self.att_edge)

    @property
    def input_weights(self) -> list[Tensor]:
        """`W` of all heads; see `Layer.input_weights`."""
        return [self.lin.weight]

    def maps_first(self, work: LayerShapes) -> bool:
        """Returns True: the attention reads mapped rows."""
        return True

    def cost(self, work: LayerShapes) -> float:
        """Returns the layer's cost in the units of `LayerShapes`; without gradients it maps first."""
        if work.trains and not work.sparse and not self.edge_dim and self._attends_first(work):
            return work.aggregate_first(self.in_channels, self.lin.weight.shape[0], heads=self.heads)
        edges = edges_cost(work, self.heads)
        return work.map_first(self.in_channels, self.lin.weight.shape[0]) + edges

    def forward(self, block: LayerBlock, x: Tensor, dropout: Dropout | None = None, seed: int = 0) -> Tensor:
        """Returns the destinations' output; see `Layer.forward`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        if block.runs_compiled(x) and not self.edge_dim and self._attends_first(work_of(block, x)):
            maps = self._scorer(self.att_src), self._scorer(self.att_dst)
            sums = attended(block, x, *maps, attention=attention, before=dropout)
            weight = self.lin.weight.view(self.heads, -1, self.in_channels)
            if self.concat:
                return map_heads(sums, weight, self.bias)
            flat = sums.transpose(0, 1).flatten(1)
            return linear(flat, weight.transpose(0, 1).flatten(1) / self.heads, self.bias)
        x = x if dropout is None else relu_dropout(x, dropout)
        by_head = at_least_single(linear(x, self.lin.weight)).view(block.num_src, self.heads, -1)
        score = at_least_single(linear(x, self._scorer(self.att_src)))
        target = self._targets(block.destinations(x))
        return self._output(self._attend(block, by_head, score, target, attention)).to(x.dtype)

    def linear_part(self, block: LayerBlock, x: Tensor) -> list[Tensor]:
        """Returns `W x` of the sources for all heads, in which scores are linear; see `Layer.linear_part`."""
        return [linear(x, self.lin.weight)]

    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the output of mapped rows; see `Layer.complete`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        by_head = linear_part[0].view(block.num_src, self.heads, -1)
        score, target = ((by_head * part).sum(dim=2) for part in (self.att_src, self.att_dst))
        return self._output(self._attend(block, by_head, score, target.index_select(0, block.dst_ids), attention))

    def _attends_first(self, work: LayerShapes) -> bool:
        """Returns whether it is cheaper to sum input rows by each head's attention before mapping them."""
        widths = self.in_channels, self.lin.weight.shape[0]
        mapping = work.map_first(*widths) + EDGE_COST * work.num_edges * self.heads
        return work.aggregate_first(*widths, heads=self.heads) < mapping

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W x` with each head's source score appended, shape (n_rows, heads * (width + 1))."""
        weight = self.lin.weight.view(self.heads, -1, self.in_channels)
        return linear(x, torch.cat([weight, self._scorer(self.att_src).unsqueeze(1)], dim=1).flatten(0, 1))

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        by_head = sources.view(block.num_src, self.heads, -1)
        attended_rows = self._attend(block, by_head, by_head[..., -1], self._targets(x), Dropout.of(0.0))
        return self._output(attended_rows[..., :-1])

    def _targets(self, x: Tensor) -> Tensor:
        """Returns the heads' scores of the input rows `x` as destinations, shape (n_rows, heads)."""
        return at_least_single(linear(x, self._scorer(self.att_dst)))

    def _scorer(self, attention: Tensor, weight: Tensor | None = None) -> Tensor:
        """Returns the map from rows that `weight` maps, by default inputs, to the heads' scores, (heads, columns)."""
        weight = self.lin.weight if weight is None else weight
        weight = weight.view(self.heads, -1, weight.shape[1])
        scorer: Tensor = (attention.transpose(0, 1) @ weight).squeeze(1)
        return scorer

    def _attend(self, block: LayerBlock, by_head: Tensor, source: Tensor, target: Tensor, dropout: Dropout) -> Tensor:
        """Returns attention-weighted sums, of the dtype of `by_head`, shape (num_dst, heads, n_columns).

        Args:
            block: The edges.
            by_head: The rows to sum, float32 or float64, shape (num_src, heads, n_columns).
            source: The sources' scores, same dtype, shape (num_src, heads).
            target: The destinations' scores, same dtype, shape (num_dst, heads).
            dropout: Dropout of the attention.
        """
        looped = block.looped
        score = source.index_select(0, looped.indices) + target.index_select(0, looped.rows)
        if self.edge_dim:
            score = score + functional.linear(*looped.attributes(self._scorer(self.att_edge, self.lin_edge.weight)))
        score = functional.leaky_relu(score, kernels.NEGATIVE_SLOPE)
        return attention_sum(looped, score, by_head, dropout)

    def _output(self, out: Tensor) -> Tensor:
        return (out.flatten(1) if self.concat else out.mean(dim=1)) + self.bias


def map_heads(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns every head's rows times its own map, plus `bias`, side by side, of the dtype of `x`.

    The shape is (n_rows, heads * width).

    Args:
        x: float32 or bfloat16, shape (heads, n_rows, n_columns).
        weight: float32, shape (heads, width, n_columns).
        bias: float32, shape (heads * width,).
    """
    out: Tensor = _MapHeads.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


class _MapHeads(torch.autograd.Function):
    """Writes each head's product in place, because a batched product would need a copy to concatenate heads."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weight, bias = weight.to(x.dtype), bias.to(x.dtype)
        ctx.save_for_backward(x, weight)
        out = x.new_empty(x.shape[1], weight.shape[0] * weight.shape[1])
        by_head = out.view(len(out), len(weight), -1)
        for h, part in enumerate(bias.view(len(weight), -1)):
            multiply(x[h], weight[h].t(), part, out=by_head[:, h])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        by_x = torch.empty_like(x)
        grad = grad.contiguous()
        by_head = grad.view(len(grad), len(weight), -1)
        for h in range(len(weight)):
            multiply(by_head[:, h], weight[h], out=by_x[h])
        by_weight = torch.stack([sum_of_products(by_head[:, h], x[h]) for h in range(len(weight))])
        return by_x, by_weight, grad.sum(dim=0).float()


def attended(
    block: LayerBlock, x: Tensor, source_map: Tensor, target_map: Tensor, *, attention: Dropout, before: Dropout | None
) -> Tensor:
    """Returns each head's attention-weighted sum of rows of `x`, of its dtype, shape (heads, num_dst, n_columns).

    A head's weights are the softmax, over a destination's in-neighbors and itself, of LeakyReLU(s + t), where s is the
    source's score and t the destination's (Veličković et al., 2018, equation 3).

    Args:
        block: A block that compiled kernels can read (`LayerBlock.runs_compiled`).
        x: Sources, float32 or bfloat16, shape (num_src, n_columns).
        source_map: Map from rows to sources' scores, float32, shape (heads, n_columns).
        target_map: Map from rows to destinations' scores, float32, shape (heads, n_columns).
        attention: Dropout of the weights.
        before: ReLU and this dropout are applied first and overwrite `x`; None uses `x` unchanged.
    """
    out, *_ = _Attend.apply(x, source_map, target_map, block, attention, before)  # type: ignore[no-untyped-call]
    return out  # type: ignore[no-any-return]


class _Attend(torch.autograd.Function):
    """Returns the sums, and also `x` if it was overwritten, because autograd must know about it."""

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
        moved = _moved(block, rows, heads)
        pool.in_chunks(partial(kernels.attend, *arguments, *written), block.num_dst, pool.grain(block.num_dst, moved))
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
        kernel = partial(kernels.score_gradients, given, edges, scores, attention, x, by_slot, by_target)
        moved = _moved(block, rows, len(source_map))
        pool.in_chunks(kernel, block.num_dst, pool.grain(block.num_dst, moved))
        kernels.sum_by_source(edges, by_slot, by_source)
        by_x = None
        if ctx.needs_input_grad[0]:
            by_x = torch.empty_like(rows)
            scorers = ((by_source, source_map.detach().numpy()), (by_target, target_map.detach().numpy()))
            none = (np.empty((0, 0), dtype=x.dtype), np.float32(1))
            activated = none if ctx.before is None else (x, ctx.before.scale)
            arguments = (attention, block.by_source, scorers, activated, as_array(by_x))
            kernel = partial(kernels.collect_attended, given, edges, *arguments)
            pool.in_chunks(kernel, block.num_src, pool.grain(block.num_src, moved))
        by_maps = (_map_gradient(by_source, rows), _map_gradient(by_target, rows[: block.num_dst]))
        return by_x, *by_maps, None, None, None


def _moved(block: LayerBlock, rows: Tensor, heads: int) -> int:
    """Returns the bytes of the rows and weights that a pass over the edges reads."""
    return (block.indices.numel() + block.num_dst) * (rows.shape[1] * rows.element_size() + 4 * heads)


def _first_slots(block: LayerBlock) -> NDArray[np.int64]:
    """Returns each destination's first slot in the whole mini-batch, int64; empty if the block is the whole."""
    if block.whole is None:
        return np.empty(0, dtype=np.int64)
    places = block.whole.places[: block.num_dst].numpy()
    begins: NDArray[np.int64] = block.whole.block.indptr.numpy()[places] + places
    return begins


def _scores(rows: Tensor, scorer: Tensor) -> Tensor:
    """Returns `rows @ scorer.T`, float32, shape (n_rows, heads)."""
    return multiply(rows, scorer.t().to(rows.dtype)).float()


def _map_gradient(by_score: NDArray[np.float32], rows: Tensor) -> Tensor:
    """Returns the gradient by a map from `rows` to scores, float32, shape (heads, n_columns)."""
    return sum_of_products(torch.from_numpy(by_score).to(rows.dtype), rows)


def _edges(block: LayerBlock) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return block.indptr.numpy(), block.indices.numpy()
