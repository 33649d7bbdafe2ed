"""The functions of `a3gnn.acceleration.functions` by torch's operators, which are differentiable any number of times.

Arguments are the same, in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from a3gnn.acceleration.graph import EdgeGraph, Scaling


def scale_dtype(rows: Tensor) -> np.dtype[Any]:
    """Returns the type in which sums of `rows` are computed."""
    return np.dtype(np.float64 if rows.dtype is torch.float64 else np.float32)


def sum_by_torch(graph: EdgeGraph, scaling: Scaling, x: Tensor, weights: Tensor | None) -> Tensor:
    """Returns `neighbor_sum`."""
    source, target = graph.ends
    scale, own = (torch.from_numpy(part) for part in graph.scales(scaling, scale_dtype(x)))
    rows = x.index_select(0, source)
    for factor in ([graph.in_slots(weights)] if weights is not None else []) + (
        [scale.index_select(0, source)] if len(scale) else []
    ):
        rows = rows * factor.unsqueeze(1).to(x.dtype)
    total = x.new_zeros(graph.num_dst, x.shape[1]).index_add(0, target, rows)
    return total * own.unsqueeze(1).to(x.dtype) if len(own) else total


def max_by_torch(graph: EdgeGraph, x: Tensor) -> Tensor:
    """Returns `neighbor_max`."""
    source, target = graph.ends
    rows = x.index_select(0, source)
    places = target.unsqueeze(1).expand_as(rows)
    return x.new_zeros(graph.num_dst, x.shape[1]).scatter_reduce(0, places, rows, "amax", include_self=False)


def attention_by_torch(graph: EdgeGraph, kept: Tensor, scores: Tensor) -> Tensor:
    """Returns `attention_of` for the factors `kept` of each slot after dropout."""
    target = graph.ends[1].unsqueeze(1).expand_as(scores)
    top = scores.new_zeros(graph.num_dst, scores.shape[1])
    top = top.scatter_reduce(0, target, scores.detach(), "amax", include_self=False)
    raised = (scores - top.gather(0, target)).exp()
    total = torch.zeros_like(top).scatter_add(0, target, raised)
    return raised / total.gather(0, target) * kept


def head_sum_by_torch(graph: EdgeGraph, attention: Tensor, rows: Tensor, added: Tensor | None) -> Tensor:
    """Returns `head_sum`."""
    source, target = graph.ends
    taken = rows.index_select(0, source)
    taken = taken if added is None else taken + added
    out = rows.new_zeros(graph.num_dst, *rows.shape[1:])
    return out.index_add(0, target, attention.unsqueeze(2) * taken)


def dots_by_torch(graph: EdgeGraph, scale: float, target: Tensor, source: Tensor, added: Tensor | None) -> Tensor:
    """Returns `dot_scores`."""
    at_source, at_target = graph.ends
    rows = source.index_select(0, at_source)
    rows = rows if added is None else rows + added
    return (target.index_select(0, at_target) * rows).sum(dim=2) * scale


def sum_scores_by_torch(graph: EdgeGraph, slope: float, source: Tensor, target: Tensor, edge: Tensor | None) -> Tensor:
    """Returns `sum_scores`."""
    at_source, at_target = graph.ends
    total = source.index_select(0, at_source) + target.index_select(0, at_target)
    return functional.leaky_relu(total if edge is None else total + edge, slope)


def pair_scores_by_torch(
    graph: EdgeGraph, slope: float, source: Tensor, target: Tensor, added: Tensor | None, weight: Tensor
) -> Tensor:
    """Returns `pair_scores`."""
    at_source, at_target = graph.ends
    rows = source.index_select(0, at_source) + target.index_select(0, at_target)
    rows = functional.leaky_relu(rows if added is None else rows + added, slope)
    return (rows * weight).sum(dim=2)
