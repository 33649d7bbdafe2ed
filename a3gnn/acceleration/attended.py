"""`attended_rows`: GAT that sums unmapped rows by each head's attention, and maps the sums.

It uses the kernels of the built-in GAT (`a3gnn.models.layers.gat`).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from a3gnn.acceleration.graph import EdgeGraph
from a3gnn.acceleration.twice import mapped, twice_differentiable
from a3gnn.kernels.gat import NEGATIVE_SLOPE, NEVER
from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.attention import (
    attention_by_torch,
    head_sum_by_torch,
    signed_attention,
    sum_scores_by_torch,
)
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.gat import attended, map_heads


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
