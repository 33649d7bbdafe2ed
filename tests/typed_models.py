"""Models of the user's own for graphs with node types, as factories that other processes can import."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GraphConv, HeteroConv, HGTConv, SAGEConv, to_hetero

from a3gnn.graphs.types import GraphTypes


class Rows(nn.Module):
    """Brings the rows of each type to one width."""

    def __init__(self, types: GraphTypes, width: int) -> None:
        super().__init__()
        self.linear = nn.ModuleDict({kind: nn.Linear(columns, width) for kind, columns in types.in_channels.items()})
        self.embedding = nn.ModuleDict(
            {kind: nn.Embedding(n, width) for kind, n in types.num_nodes.items() if kind not in types.in_channels}
        )

    def forward(self, x_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            kind: self.linear[kind](x) if kind in self.linear else self.embedding[kind](x) for kind, x in x_dict.items()
        }


class Layers(nn.Module):
    """Rows, then PyG's `layers`; returns the rows of all types, as PyG's models do."""

    def __init__(self, types: GraphTypes, layers: list[nn.Module], out_channels: int) -> None:
        super().__init__()
        self.rows, self.layers = Rows(types, 8), nn.ModuleList(layers)
        self.last = nn.Linear(8, out_channels)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> dict[str, Tensor]:
        x = self.rows(x_dict)
        for layer in self.layers:
            x = {**x, **{kind: one.relu() for kind, one in layer(x, edge_index_dict).items() if one is not None}}
        return {kind: self.last(one) for kind, one in x.items()}


def hgt(types: GraphTypes, out_channels: int) -> nn.Module:
    return Layers(types, [HGTConv(8, 8, types.metadata, heads=2) for _ in range(2)], out_channels)


def gat(types: GraphTypes, out_channels: int) -> nn.Module:
    def conv() -> nn.Module:
        return HeteroConv({one: GATConv((-1, -1), 8, add_self_loops=False) for one in types.metadata[1]})

    return Layers(types, [conv(), conv()], out_channels)


class _Plain(nn.Module):
    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Converted(nn.Module):
    """A plain model converted by `to_hetero`."""

    def __init__(self, types: GraphTypes, out_channels: int) -> None:
        super().__init__()
        self.rows, self.model = Rows(types, 8), to_hetero(_Plain(out_channels), types.metadata)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Tensor:
        return self.model(self.rows(x_dict), edge_index_dict)  # a dict


def converted(types: GraphTypes, out_channels: int) -> nn.Module:
    return Converted(types, out_channels)


def of_layers(types: GraphTypes, out_channels: int) -> nn.Module:
    """Takes adjs, which typed graphs don't have."""

    class Adjs(nn.Module):
        def forward(self, x: Tensor, adjs: Any) -> Tensor:
            return torch.zeros(1, out_channels)

    return Adjs()


class Valued(nn.Module):
    """Attention that reads edge_attr of the relations that have it, and sums by edge_weight of the others."""

    def __init__(self, types: GraphTypes, out_channels: int) -> None:
        super().__init__()
        dims = types.edge_values["edge_attr"]
        self.rows = Rows(types, 8)
        self.convs = nn.ModuleList(
            HeteroConv(
                {
                    one: GATConv((-1, -1), 8, add_self_loops=False, edge_dim=dims[one])
                    if one in dims
                    else GraphConv((-1, -1), 8)
                    for one in types.metadata[1]
                }
            )
            for _ in range(2)
        )
        self.last = nn.Linear(8, out_channels)

    def forward(
        self,
        x_dict: dict[str, Tensor],
        edge_index_dict: dict[Any, Tensor],
        edge_attr_dict: dict[Any, Tensor],
        edge_weight_dict: dict[Any, Tensor],
    ) -> dict[str, Tensor]:
        x = self.rows(x_dict)
        for conv in self.convs:
            found = conv(x, edge_index_dict, edge_attr_dict=edge_attr_dict, edge_weight_dict=edge_weight_dict)
            x = {**x, **{kind: one.relu() for kind, one in found.items()}}
        return {kind: self.last(one) for kind, one in x.items()}


def valued(types: GraphTypes, out_channels: int) -> nn.Module:
    return Valued(types, out_channels)


class _PlainValued(nn.Module):
    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.first, self.second = GraphConv((-1, -1), 8), GraphConv((-1, -1), out_channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


class ConvertedValued(nn.Module):
    """A plain model with weights of edges, converted by `to_hetero`."""

    def __init__(self, types: GraphTypes, out_channels: int) -> None:
        super().__init__()
        self.rows, self.model = Rows(types, 8), to_hetero(_PlainValued(out_channels), types.metadata)

    def forward(
        self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor], edge_weight: dict[Any, Tensor]
    ) -> Tensor:
        return self.model(self.rows(x_dict), edge_index_dict, edge_weight)  # a dict


def converted_valued(types: GraphTypes, out_channels: int) -> nn.Module:
    return ConvertedValued(types, out_channels)


class LinkEncoder(nn.Module):
    """A `GraphConv` of each relation that reads edge_weight."""

    def __init__(self, types: GraphTypes, out_channels: int) -> None:
        super().__init__()
        self.rows = Rows(types, 8)
        self.conv = HeteroConv({one: GraphConv((-1, -1), out_channels) for one in types.metadata[1]})

    def forward(
        self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor], edge_weight_dict: dict[Any, Tensor]
    ) -> dict[str, Tensor]:
        return self.conv(self.rows(x_dict), edge_index_dict, edge_weight_dict=edge_weight_dict)


def link_encoder(types: GraphTypes, out_channels: int) -> nn.Module:
    return LinkEncoder(types, out_channels)


class Attributed(nn.Module):
    """Attention that reads 3 columns of edge_attr, for graphs without types."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([GATConv(in_channels, 8, edge_dim=3), GATConv(8, out_channels, edge_dim=3)])

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr)
        return x


def attributed(in_channels: int, out_channels: int) -> nn.Module:
    return Attributed(in_channels, out_channels)
