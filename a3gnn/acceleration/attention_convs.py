"""PyG's attention layers with forward passes by compiled kernels; see `a3gnn.acceleration.convs`."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import conv as pyg
from torch_geometric.utils import add_self_loops, remove_self_loops

from a3gnn.acceleration.calls import Accelerated, Call
from a3gnn.acceleration.graph import EdgeGraph
from a3gnn.acceleration.sparse_inputs import mapped_columns
from a3gnn.acceleration.twice import mapped, twice_differentiable
from a3gnn.kernels.gat import NEGATIVE_SLOPE, NEVER
from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.attention import (
    attention_by_torch,
    attention_of,
    dot_scores,
    head_sum,
    head_sum_by_torch,
    pair_scores,
    signed_attention,
    sum_scores,
    sum_scores_by_torch,
)
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.gat import attended, map_heads
from a3gnn.models.layers.layer import LayerShapes

# Cost of an edge's score, softmax and sum per head, forward and backward, in the units of `LayerShapes`. Guess.
_EDGE_COST = 300


class Attention(Accelerated):
    """What the attention layers share."""

    aggregations = ("sum", "add")
    adds_float32 = True  # as PyG's scores under autocast

    def unsupported(self) -> str | None:
        """Returns why no call can run natively, or None."""
        if not 0 <= self.dropout < 1:
            return f"dropout={self.dropout}"
        if not getattr(self, "negative_slope", 0) >= 0:
            return f"negative_slope={self.negative_slope}"
        return super().unsupported()

    def attention_call(self, x: Any, edge_index: Any, edge_attr: Any, size: Any = None) -> Call | None:
        """Returns the checked call, or None; see `Accelerated.call`."""
        if isinstance(x, tuple | list) and any(one is None for one in x):
            return self.refuse("no rows of targets")
        if size is not None and None in size:
            return self.refuse(f"size={size!r}")
        call = self.call(x, edge_index, size)
        if call is None or edge_attr is None:
            return call
        if self.lin_edge is None or not _are_attributes(edge_attr, edge_index, call.weight_dtype, self.edge_dim):
            return self.refuse("edge_attr without edge_dim, or of another type or shape")
        return call

    def attention_dropout(self) -> Dropout:
        """Returns a new dropout of the attention, keyed by torch's generator."""
        if not self.training or not self.dropout:
            return Dropout.of(0.0)
        return Dropout.of(self.dropout, int(torch.randint(2**62, ())), "attention")

    def joined(self, by_head: Tensor) -> Tensor:
        """Returns `by_head`, (num_dst, heads, width), with heads concatenated or averaged."""
        return by_head.flatten(1) if self.concat else by_head.mean(dim=1)

    def with_loops(self, call: Call, edge_index: Tensor, edge_attr: Tensor | None) -> tuple[Call, Tensor | None]:
        """Returns the call with one self loop per node, and the attributes of its edges."""
        if edge_attr is not None:
            loops = min(call.graph.num_src, call.graph.num_dst)
            kept = remove_self_loops(edge_index.long(), edge_attr)  # torch's gradients by int32 are wrong
            _, edge_attr = add_self_loops(*kept, fill_value=self.fill_value, num_nodes=loops)
        return call.looped(), edge_attr

    def edge_rows(self, graph: EdgeGraph, edge_attr: Tensor | None) -> Tensor | None:
        """Returns the mapped attributes by slot, shape (num_edges, heads, width)."""
        if edge_attr is None:
            return None
        rows: Tensor = self.lin_edge(_in_slots(graph, edge_attr))
        return rows.view(-1, self.heads, self.out_channels)

    def finished(self, out: Tensor, own: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Returns `out` with the residual of the targets' input `own` and the bias, as `GATConv` and `GATv2Conv` do.

        Sums stay in float32 if `dtype` is bfloat16.
        """
        if self.res is not None:
            assert own is not None
            out = out + mapped(own, self.res.weight, dtype=dtype)
        return out if self.bias is None else out + self.bias


class GATConv(Attention, pyg.GATConv):  # type: ignore[misc]
    """PyG's `GATConv`."""

    linear_names = ("lin", "lin_src", "lin_dst", "lin_edge", "res")
    source_maps, target_maps = ("lin", "lin_src"), ("lin", "lin_dst", "res")

    def forward(
        self, x: Any, edge_index: Any, edge_attr: Any = None, size: Any = None, return_attention_weights: Any = None
    ) -> Any:
        """Returns the targets' output; arguments as for PyG's."""
        if return_attention_weights:
            self.refuse("return_attention_weights")
            call = None
        else:
            call = self.attention_call(x, edge_index, edge_attr, size)
        if call is None:
            return super().forward(x, edge_index, edge_attr, size, return_attention_weights)
        alone = edge_attr is None and self.add_self_loops and not isinstance(x, tuple | list) and self.lin is not None
        dropout = self.attention_dropout()
        if alone and self.negative_slope == NEGATIVE_SLOPE and call.dtype is not torch.float64:
            return call.run(self, partial(GATConv._either_order, dropout=dropout))
        if self.add_self_loops:
            call, edge_attr = self.with_loops(call, edge_index, edge_attr)
        return call.run(self, partial(GATConv._map_first, dropout=dropout), edge_attr)

    def _either_order(
        self,
        graph: EdgeGraph,
        x: Tensor,
        own: Tensor | None,
        dtype: torch.dtype,
        _: Tensor | None,
        *,
        dropout: Dropout,
    ) -> Tensor:
        """Returns the output for edges without attributes, in the cheaper order; self loops are added here."""
        widths = x.shape[1], self.heads * self.out_channels
        trains = torch.is_grad_enabled()
        needs_input = trains and x.requires_grad
        work = LayerShapes(graph.num_src, graph.num_dst, graph.num_edges, trains=trains, needs_input=needs_input)
        by_edge = _EDGE_COST * work.num_edges * self.heads
        maps_first = work.map_first(mapped_columns(x), widths[1]) + by_edge
        if work.aggregate_first(*widths, heads=self.heads) >= maps_first:
            return self._map_first(graph.looped, x, own, dtype, None, dropout=dropout)
        maps = _scorer(self.lin, self.att_src), _scorer(self.lin, self.att_dst)
        weight = self.lin.weight.view(self.heads, self.out_channels, -1)
        out = attended_rows(graph, x.to(dtype), maps, weight, dropout, concat=self.concat)
        return self.finished(out, own, dtype)

    def _map_first(
        self,
        graph: EdgeGraph,
        x: Tensor,
        own: Tensor | None,
        dtype: torch.dtype,
        edge_attr: Tensor | None,
        *,
        dropout: Dropout,
    ) -> Tensor:
        assert own is not None
        for_source, for_target = (self.lin, self.lin) if self.lin is not None else (self.lin_src, self.lin_dst)
        rows = _single(mapped(x, for_source.weight, dtype=dtype)).view(-1, self.heads, self.out_channels)
        source = _single(mapped(x, _scorer(for_source, self.att_src), dtype=dtype))
        target = _single(mapped(own, _scorer(for_target, self.att_dst), dtype=dtype))
        edge = None
        if edge_attr is not None:
            edge = functional.linear(_in_slots(graph, edge_attr), _scorer(self.lin_edge, self.att_edge))
        scores = sum_scores(graph.block, source, target, edge, self.negative_slope)
        out = head_sum(graph.block, attention_of(graph.block, scores, dropout), rows)
        return self.finished(self.joined(out), own, dtype)


class GATv2Conv(Attention, pyg.GATv2Conv):  # type: ignore[misc]
    """PyG's `GATv2Conv`."""

    linear_names = ("lin_l", "lin_r", "lin_edge", "res")
    source_maps, target_maps = ("lin_l",), ("lin_r", "res")

    def forward(self, x: Any, edge_index: Any, edge_attr: Any = None, return_attention_weights: Any = None) -> Any:
        """Returns the targets' output; arguments as for PyG's."""
        if return_attention_weights:
            self.refuse("return_attention_weights")
            call = None
        else:
            call = self.attention_call(x, edge_index, edge_attr)
        if call is None:
            return super().forward(x, edge_index, edge_attr, return_attention_weights)
        if self.add_self_loops:
            call, edge_attr = self.with_loops(call, edge_index, edge_attr)
        return call.run(self, partial(GATv2Conv._rows, dropout=self.attention_dropout()), edge_attr)

    def _rows(
        self,
        graph: EdgeGraph,
        x: Tensor,
        own: Tensor | None,
        dtype: torch.dtype,
        edge_attr: Tensor | None,
        *,
        dropout: Dropout,
    ) -> Tensor:
        assert own is not None
        source, target = _by_head(self, x, self.lin_l, dtype), _by_head(self, own, self.lin_r, dtype)
        added = self.edge_rows(graph, edge_attr)
        scores = pair_scores(graph.block, source, target, added, self.att[0], self.negative_slope)
        return self.finished(
            self.joined(head_sum(graph.block, attention_of(graph.block, scores, dropout), source)), own, dtype
        )


class TransformerConv(Attention, pyg.TransformerConv):  # type: ignore[misc]
    """PyG's `TransformerConv`."""

    adds_float32 = False
    linear_names = ("lin_key", "lin_query", "lin_value", "lin_edge", "lin_skip", "lin_beta")
    source_maps, target_maps = ("lin_key", "lin_value"), ("lin_query", "lin_skip")

    def forward(self, x: Any, edge_index: Any, edge_attr: Any = None, return_attention_weights: Any = None) -> Any:
        """Returns the targets' output; arguments as for PyG's."""
        if return_attention_weights is not None:
            self.refuse("return_attention_weights")
            call = None
        elif self.lin_edge is not None and getattr(edge_attr, "ndim", 0) != 2:
            self.refuse("edge_attr is no matrix")
            call = None
        else:
            call = self.attention_call(x, edge_index, edge_attr)
        if call is None:
            return super().forward(x, edge_index, edge_attr, return_attention_weights)
        return call.run(self, partial(TransformerConv._rows, dropout=self.attention_dropout()), edge_attr)

    def _rows(
        self,
        graph: EdgeGraph,
        x: Tensor,
        own: Tensor | None,
        dtype: torch.dtype,
        edge_attr: Tensor | None,
        *,
        dropout: Dropout,
    ) -> Tensor:
        assert own is not None
        query = _by_head(self, own, self.lin_query, dtype)
        key, value = (_by_head(self, x, lin, dtype) for lin in (self.lin_key, self.lin_value))
        added = self.edge_rows(graph, edge_attr)
        scores = dot_scores(graph.block, query, key, added, 1 / math.sqrt(self.out_channels))
        out = self.joined(head_sum(graph.block, attention_of(graph.block, scores, dropout), value, added))
        if self.root_weight:
            skip = _single(mapped(own, self.lin_skip.weight, self.lin_skip.bias, dtype))
            if self.lin_beta is None:
                out = out + skip
            else:
                beta = self.lin_beta(torch.cat([out, skip, out - skip], dim=-1)).sigmoid()
                out = beta * skip + (1 - beta) * out
        return out.to(dtype)


def _in_slots(graph: EdgeGraph, edge_attr: Tensor) -> Tensor:
    """Returns the attributes by slot, shape (num_edges, edge_dim)."""
    return graph.in_slots(edge_attr.view(-1, 1) if edge_attr.ndim == 1 else edge_attr)


def _by_head(conv: Any, x: Tensor, lin: Any, dtype: torch.dtype) -> Tensor:
    """Returns the map of `x` in `dtype`, widened to float32 at least, shape (n_rows, heads, width)."""
    return _single(mapped(x, lin.weight, lin.bias, dtype)).view(-1, conv.heads, conv.out_channels)


def _scorer(lin: Any, attention: Tensor) -> Tensor:
    """Returns the map from rows to the scores of their maps, shape (heads, in_channels).

    `attention` has shape (1, heads, width), and the weight of `lin` (heads * width, in_channels).
    """
    weight = lin.weight.view(attention.shape[1], attention.shape[2], -1)
    scorer: Tensor = (attention.transpose(0, 1) @ weight).squeeze(1)
    return scorer


def _single(x: Tensor) -> Tensor:
    return x.float() if x.dtype is torch.bfloat16 else x


def _are_attributes(edge_attr: Any, edge_index: Tensor, dtype: torch.dtype, width: int) -> bool:
    """Returns whether `edge_attr` is one row or number of `dtype` per edge."""
    if type(edge_attr) not in (Tensor, nn.Parameter) or edge_attr.layout is not torch.strided:
        return False
    right = edge_attr.dtype is dtype and edge_attr.device.type == "cpu"
    columns = edge_attr.shape[1] if edge_attr.ndim == 2 else 1
    return right and edge_attr.ndim in (1, 2) and len(edge_attr) == edge_index.shape[1] and columns == width


def attended_rows(
    graph: EdgeGraph, x: Tensor, maps: tuple[Tensor, Tensor], weight: Tensor, dropout: Dropout, *, concat: bool
) -> Tensor:
    """Returns the heads' outputs without bias, concatenated or averaged, of the dtype of `x`.

    Args:
        graph: The edges; each target also attends to itself, once.
        x: The sources' rows, float32 or bfloat16; targets are the first.
        maps: Maps from rows to sources' and to targets' scores, shape (heads, n_columns).
        weight: Each head's map, shape (heads, width, n_columns).
        dropout: Dropout of the attention.
        concat: Whether heads are concatenated.
    """
    fast, by_torch = (partial(one, graph, dropout) for one in (_sums, _sums_by_torch))
    sums = twice_differentiable(fast, by_torch, x, *maps)
    if concat:
        return twice_differentiable(_map_heads, _map_heads_by_torch, sums, weight)
    flat = sums.transpose(0, 1).flatten(1)
    return mapped(flat, weight.transpose(0, 1).flatten(1) / len(weight))


def _sums(graph: EdgeGraph, dropout: Dropout, x: Tensor, source_map: Tensor, target_map: Tensor) -> Tensor:
    return attended(graph.block, x, source_map, target_map, attention=dropout, before=None)


def _sums_by_torch(graph: EdgeGraph, dropout: Dropout, x: Tensor, source_map: Tensor, target_map: Tensor) -> Tensor:
    slots = _slots(graph)
    rows = x.float()
    source, target = rows @ source_map.t(), rows[: graph.num_dst] @ target_map.t()
    scores = sum_scores_by_torch(slots, NEGATIVE_SLOPE, source, target, None)
    first = torch.zeros(slots.num_edges, dtype=torch.bool)
    first[slots.indptr[:-1].long()] = True
    repeated = (slots.ends[0] == slots.ends[1]) & ~first
    scores = scores.masked_fill(repeated.unsqueeze(1), NEVER)
    kept = (signed_attention(slots, scores, dropout) > 0) * float(dropout.scale)
    attention = attention_by_torch(slots, kept, scores)
    by_head = rows.unsqueeze(1).expand(-1, len(source_map), -1)
    return head_sum_by_torch(slots, attention, by_head, None).transpose(0, 1).to(x.dtype)


def _slots(graph: EdgeGraph) -> LayerBlock:
    """Returns the block of the kernels' slots: each target's self loop, then its edges."""
    rows = np.arange(graph.num_dst + 1, dtype=np.int32)
    indptr = graph.indptr + rows
    indices = np.insert(graph.indices, graph.indptr[:-1], rows[:-1])
    return EdgeGraph(indptr, indices, graph.order[:0], graph.num_src).block


def _map_heads(x: Tensor, weight: Tensor) -> Tensor:
    return map_heads(x, weight, weight.new_zeros(weight.shape[0] * weight.shape[1]))


def _map_heads_by_torch(x: Tensor, weight: Tensor) -> Tensor:
    return torch.einsum("hnc,hwc->nhw", x, weight.to(x.dtype)).flatten(1)
