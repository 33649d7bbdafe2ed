"""The benchmark's models as DGL's users write them: its own layers over message-flow blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from dgl.nn import GATConv, GINConv, GraphConv, SAGEConv  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.engine.workers.work import DROPOUT, HEADS


class BlockModel(nn.Module):
    """One layer a block, with ReLU and dropout between them."""

    def __init__(self, kind: str, widths: list[int]) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.layers = nn.ModuleList(_layer(kind, *pair, last=i == len(pairs) - 1) for i, pair in enumerate(pairs))
        self._kind = kind

    def forward(self, blocks: list[Any], x: Tensor) -> Tensor:
        """Returns the seeds' logits, shape (num_seeds, num_classes)."""
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            last = i == len(self.layers) - 1
            x = layer(block, x)
            if self._kind == "gat":
                x = x.mean(1) if last else x.flatten(1)
            if not last:
                x = functional.dropout(functional.relu(x), DROPOUT, self.training)
        return x


def _layer(kind: str, narrow: int, wide: int, *, last: bool) -> nn.Module:
    layer: nn.Module
    if kind == "sage":
        layer = SAGEConv(narrow, wide, "mean")
    elif kind == "gcn":
        # Adding self loops to every block would cost DGL more than the layer; it goes without.
        layer = GraphConv(narrow, wide, norm="both", allow_zero_in_degree=True)
    elif kind == "gat":
        width = wide if last else wide // HEADS
        layer = GATConv(narrow, width, HEADS, attn_drop=DROPOUT, allow_zero_in_degree=True)
    else:
        norm = nn.BatchNorm1d(wide)
        layer = GINConv(nn.Sequential(nn.Linear(narrow, wide), norm, nn.ReLU(), nn.Linear(wide, wide)), "sum")
    return layer


def optimiser(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """Returns Adam in the fastest form that this torch has on a CPU."""
    return torch.optim.Adam(model.parameters(), lr=rate, foreach=True)
