"""PyG's convolutions with forward passes by compiled kernels. Parameters, names and state dicts are PyG's own.

`accelerate` changes the class of a convolution to the one of the same name here. Each call that the kernels don't
support runs PyG's code instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import conv as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from a3gnn.acceleration.attention_convs import GATConv, GATv2Conv, TransformerConv
from a3gnn.acceleration.autocast import is_own
from a3gnn.acceleration.calls import Accelerated, pyg_class
from a3gnn.acceleration.functions import neighbor_max, neighbor_sum
from a3gnn.acceleration.graph import EdgeGraph, Scaling
from a3gnn.acceleration.inputs import from_table
from a3gnn.acceleration.sparse_inputs import mapped_columns, sparse_rows
from a3gnn.acceleration.twice import mapped
from a3gnn.models.input_rows import InputRows
from a3gnn.models.layers.layer import LayerShapes

#: Aggregations with kernels, by PyG's names.
SCALINGS: dict[str, Scaling] = {"mean": "mean", "sum": "sum", "add": "sum"}


class SAGEConv(Accelerated, pyg.SAGEConv):  # type: ignore[misc]  # PyG's classes have no types
    """PyG's `SAGEConv`."""

    linear_names = ("lin", "lin_l", "lin_r")
    source_maps, target_maps = ("lin", "lin_l"), ("lin_r",)
    aggregations = ("mean", "sum", "add", "max")

    def forward(self, x: Any, edge_index: Any, size: Any = None) -> Tensor:
        """Returns the targets' output; arguments as for PyG's."""
        if isinstance(x, InputRows):
            return from_table(self, x, edge_index, size)
        call = self.call(x, edge_index, size)
        if call is None:
            return super().forward(x, edge_index, size)  # type: ignore[no-any-return]
        return call.run(self, SAGEConv._rows)

    def _rows(self, graph: EdgeGraph, x: Tensor, own: Tensor | None, dtype: torch.dtype, _: Tensor | None) -> Tensor:
        if self.project and hasattr(self, "lin"):
            x = _mapped(x, self.lin, dtype).relu()
        out = _mapped_sum(graph, x, self.lin_l, self.aggr, None, dtype)
        if self.root_weight and own is not None:
            out = _plus_mapped(out, own, self.lin_r)
        return functional.normalize(out, p=2.0, dim=-1) if self.normalize else out


class GraphConv(Accelerated, pyg.GraphConv):  # type: ignore[misc]
    """PyG's `GraphConv`."""

    linear_names = ("lin_rel", "lin_root")
    source_maps, target_maps = ("lin_rel",), ("lin_root",)
    aggregations = ("mean", "sum", "add", "max")

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None, size: Any = None) -> Tensor:
        """Returns the targets' output; arguments as for PyG's."""
        if isinstance(x, InputRows):
            return from_table(self, x, edge_index, edge_weight, size)
        call = self.call(x, edge_index, size, weights=edge_weight)
        if call is not None and edge_weight is not None and self.aggr == "max":
            call = self.refuse("edge_weight with aggr='max'")
        if call is None:
            return super().forward(x, edge_index, edge_weight, size)  # type: ignore[no-any-return]

        return call.run(self, GraphConv._rows, edge_weight)

    def _rows(
        self, graph: EdgeGraph, x: Tensor, own: Tensor | None, dtype: torch.dtype, weights: Tensor | None
    ) -> Tensor:
        out = _mapped_sum(graph, x, self.lin_rel, self.aggr, weights, dtype)
        return out if own is None else _plus_mapped(out, own, self.lin_root)


class GINConv(Accelerated, pyg.GINConv):  # type: ignore[misc]
    """PyG's `GINConv`; its `nn` runs as it is."""

    aggregations = ("mean", "sum", "add", "max")

    def forward(self, x: Any, edge_index: Any, size: Any = None) -> Any:
        """Returns the targets' output; arguments as for PyG's."""
        if isinstance(x, InputRows):
            return from_table(self, x, edge_index, size)
        call = self.call(x, edge_index, size)
        if call is None:
            return super().forward(x, edge_index, size)
        if not is_own():  # PyG sums in the rows' type, under autocast too, and `eps` is a vector of float32
            own_is_wider = call.own is not None and call.x.dtype is torch.bfloat16
            call = replace(call, dtype=torch.float32 if own_is_wider else call.x.dtype)
        return self.nn(call.run(self, GINConv._rows))

    def read_by_rows(self) -> list[Tensor]:
        """Returns `eps`: `nn` takes the rows."""
        return [self.eps]

    def _rows(self, graph: EdgeGraph, x: Tensor, own: Tensor | None, dtype: torch.dtype, _: Tensor | None) -> Tensor:
        out = aggregate(graph, x, self.aggr, None, dtype)
        return out if own is None else out + (1 + self.eps.to(dtype)) * own.to(dtype)


class GCNConv(Accelerated, pyg.GCNConv):  # type: ignore[misc]
    """PyG's `GCNConv`."""

    linear_names = source_maps = ("lin",)
    aggregations = ("sum", "add")

    def unsupported(self) -> str | None:
        """Returns why no call can run natively, or None."""
        return "cached=True" if self.cached else super().unsupported()

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Tensor:
        """Returns the nodes' output; arguments as for PyG's."""
        if isinstance(x, InputRows):
            return from_table(self, x, edge_index, edge_weight)
        call = None if isinstance(x, tuple | list) else self.call(x, edge_index, weights=edge_weight)
        if call is None:
            return super().forward(x, edge_index, edge_weight)  # type: ignore[no-any-return]
        weights, scaling = edge_weight, "sum"
        is_weighted = edge_weight is not None or (self.normalize and call.x.dtype is not torch.bfloat16)
        if self.normalize:
            if self.add_self_loops:
                call = call.looped()
            if edge_weight is None and not self.improved:
                scaling = "symmetric"
            else:
                loops = self.improved, self.add_self_loops
                dtype = torch.float32 if edge_weight is None and call.dtype is torch.bfloat16 else call.weight_dtype
                _, weights = gcn_norm(edge_index, edge_weight, call.num_src, *loops, self.flow, dtype)

        def rows(
            conv: Any, graph: EdgeGraph, x: Tensor, _: Tensor | None, dtype: torch.dtype, weights: Tensor | None
        ) -> Tensor:
            return _mapped_sum(graph, x, conv.lin, scaling, weights, dtype, conv.bias)

        adds_float32 = (is_weighted or self.bias is not None) and not is_own()
        return replace(call, adds_float32=adds_float32).run(self, rows, weights)


def aggregate(graph: EdgeGraph, x: Tensor, aggr: str, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Returns each target's aggregate of rows of `x`, of `dtype`, shape (num_dst, width)."""
    if aggr == "max":
        return neighbor_max(graph, x.float() if x.dtype is torch.bfloat16 else x).to(dtype)
    return neighbor_sum(graph, x, weights, SCALINGS.get(aggr, aggr), dtype)  # type: ignore[arg-type]


def _mapped_sum(
    graph: EdgeGraph,
    x: Tensor,
    lin: Any,
    aggr: str,
    weights: Tensor | None,
    dtype: torch.dtype,
    bias: Tensor | None = None,
) -> Tensor:
    """Returns the aggregate of each target's rows, mapped by `lin`, in the cheaper order.

    Args:
        graph: The edges.
        x: The sources' rows.
        lin: A plain linear map.
        aggr: PyG's name of the aggregation, or a `Scaling`.
        weights: Each edge's weight in the order of the edge list, or None.
        dtype: Type of the result.
        bias: Added to the result; None for that of `lin`.
    """
    bias = lin.bias if bias is None else bias
    if aggr != "max" and _maps_first(graph, x, lin.weight):
        out = aggregate(graph, mapped(x, lin.weight, dtype=dtype), aggr, weights, dtype)
        return out if bias is None else out + bias.to(dtype)
    return mapped(aggregate(graph, x, aggr, weights, dtype), lin.weight, bias)


def _maps_first(graph: EdgeGraph, x: Tensor, weight: Tensor) -> bool:
    """Returns whether it is cheaper to map all sources and aggregate the mapped rows."""
    trains = torch.is_grad_enabled()
    needs_input = trains and x.requires_grad
    work = LayerShapes(graph.num_src, graph.num_dst, graph.num_edges, trains=trains, needs_input=needs_input)
    out_channels, in_channels = weight.shape
    return work.map_first(mapped_columns(x), out_channels) < work.aggregate_first(in_channels, out_channels)


def _mapped(x: Tensor, lin: Any, dtype: torch.dtype) -> Tensor:
    return mapped(x, lin.weight, lin.bias, dtype)


def _plus_mapped(out: Tensor, own: Tensor, lin: Any) -> Tensor:
    """Returns `out` plus the map of `own` by `lin`, which has no bias."""
    if out.dtype is torch.bfloat16 or sparse_rows(own) is not None:
        return out + mapped(own, lin.weight, dtype=out.dtype)
    return torch.addmm(out, own, lin.weight.t())


#: The class that replaces each of PyG's.
NATIVE: dict[type, type[Accelerated]] = {
    pyg_class(native): native for native in (SAGEConv, GraphConv, GINConv, GCNConv, GATConv, GATv2Conv, TransformerConv)
}
