"""Input layers that read rows of a table of full aggregates (`InputRows`) in place of features and edges."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import conv as pyg

from a3gnn.acceleration.calls import Accelerated
from a3gnn.acceleration.lazy_rows import LazyRows, RowNode, may_wait
from a3gnn.acceleration.twice import mapped
from a3gnn.features.row_table import Aggregator
from a3gnn.models.input_rows import InputRows


def table_of(layer: nn.Module) -> Aggregator | None:
    """Returns the aggregation of the table that `layer`, accelerated or PyG's own, can read; None if it reads none."""
    if isinstance(layer, Accelerated):
        if layer.unsupported() is not None:
            return None
    elif type(layer) not in (pyg.SAGEConv, pyg.GraphConv, pyg.GINConv, pyg.GCNConv):
        return None
    match layer:
        case pyg.SAGEConv():
            return "mean" if layer.aggr == "mean" and not layer.project else None
        case pyg.GraphConv():
            return "mean" if layer.aggr == "mean" else None
        case pyg.GINConv():
            fixed = not isinstance(layer.eps, nn.Parameter) and float(layer.eps) == 0
            return "sum" if layer.aggr in ("sum", "add") and fixed else None
        case pyg.GCNConv():
            return "gcn" if layer.normalize and layer.add_self_loops and not layer.improved else None
    return None


def from_table(layer: Accelerated, x: InputRows, edge_index: Any, *others: Any) -> Tensor:
    """Returns the output of a call of `layer` with rows of a table.

    Args:
        layer: The first layer.
        x: The rows.
        edge_index: The call's, which must be the mini-batch's own.
        others: The call's other arguments, which must be None.

    Raises:
        UsageError: The layer can't read this table, or not with these arguments.
    """
    rows = x.read(table_of(layer) if all(one is None for one in others) else None, edge_index)
    rows = rows.to(_dtype(layer))
    if isinstance(layer, pyg.GINConv):
        out: Tensor = layer.nn(rows)
        return out
    if torch.is_inference_mode_enabled() or not may_wait():
        return _mapped(layer, rows)
    held = list(layer.parameters())
    return LazyRows(RowNode(partial(_mapped, layer), [rows], layer.out_channels, rows.dtype, held))


def _mapped(layer: Any, rows: Tensor) -> Tensor:
    """Returns the output of a layer for rows of its table."""
    with torch.autocast("cpu", enabled=False):
        match layer:
            case pyg.SAGEConv():
                out = _mean_and_own(rows, layer.lin_l, layer.lin_r if layer.root_weight else None)
                return functional.normalize(out, p=2.0, dim=-1) if layer.normalize else out
            case pyg.GraphConv():
                return _mean_and_own(rows, layer.lin_rel, layer.lin_root)
            case _:
                return mapped(rows, layer.lin.weight, layer.bias)


def _mean_and_own(rows: Tensor, for_mean: nn.Linear, for_own: nn.Linear | None) -> Tensor:
    """Returns the maps of means and own rows, in one product."""
    if for_own is None:
        return mapped(rows[:, : rows.shape[1] // 2].contiguous(), for_mean.weight, for_mean.bias)
    return mapped(rows, torch.cat([for_mean.weight, for_own.weight], dim=1), for_mean.bias)


def _dtype(layer: nn.Module) -> torch.dtype:
    if torch.is_autocast_enabled("cpu"):
        return torch.get_autocast_dtype("cpu")
    return next((one.dtype for one in layer.parameters()), torch.float32)
