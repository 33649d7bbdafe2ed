"""The factory that `benchmarks.own_search` searches: SAGE layers with batch norm and residual connections."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SAGEConv


class Net(nn.Module):
    """Layers of a width, between two linear maps."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int, dropout: float, layers: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(in_channels, hidden), nn.Linear(hidden, out_channels)
        self.convs = nn.ModuleList([SAGEConv(hidden, hidden) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden) for _ in range(layers)])
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        """Returns the outputs of all nodes, float32, shape (n, out_channels)."""
        x = self.first(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + functional.dropout(torch.relu(norm(conv(x, edge_index))), self.dropout, self.training)
        return self.last(x)


def make_model(in_channels: int, out_channels: int, hidden: int = 64, dropout: float = 0.5, layers: int = 2) -> Net:
    """Returns an untrained model."""
    return Net(in_channels, out_channels, hidden, dropout, layers)
