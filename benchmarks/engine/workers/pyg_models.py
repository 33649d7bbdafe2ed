"""The benchmark's models in PyG: as its examples write them, and with CSR blocks by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import MLP, GATConv, GCNConv, GINConv, SAGEConv
from torch_geometric.utils import trim_to_layer

from benchmarks.engine.workers.work import DROPOUT, HEADS


class Hops(NamedTuple):
    """How a sampled subgraph grew: nodes and edges that each hop added, the seeds first among the nodes."""

    nodes: list[int]
    edges: list[int]

    @classmethod
    def of(cls, edge_index: Tensor, num_seeds: int, num_nodes: int, hops: int) -> Hops:
        """Returns the hops of edges (sources, destinations) in the order in which NeighborLoader found them.

        torch-sparse's operator returns no counts per hop; they are derived from destinations and sources, which ascend.
        """
        sources, destinations = edge_index
        known, done, nodes, edges = num_seeds, 0, [num_seeds], []
        for hop in range(hops):
            end = int(torch.searchsorted(destinations, known))
            last = hop == hops - 1
            met = num_nodes if last else max(known, int(sources[done:end].max()) + 1 if end > done else known)
            nodes.append(met - known)
            edges.append(end - done)
            known, done = met, end
        return cls(nodes, edges)


class EdgeModel(nn.Module):
    """PyG's convolutions on `edge_index`, with or without `trim_to_layer`."""

    def __init__(self, kind: str, widths: list[int], trim: bool) -> None:
        super().__init__()
        self.convs = _convolutions(kind, widths)
        self._trim = trim

    def forward(self, x: Tensor, edge_index: Tensor, hops: Hops) -> Tensor:
        """Returns logits whose first rows are the seeds'."""
        for i, conv in enumerate(self.convs):
            if self._trim:
                x, edge_index, _ = trim_to_layer(i, hops.nodes, hops.edges, x, edge_index)
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = functional.dropout(functional.relu(x), DROPOUT, self.training)
        return x


class BlockModel(nn.Module):
    """The same parameters over a CSR block per layer: only destinations are computed, the cheaper side is mapped first.

    Attention has no CSR form in PyG: there the convolution itself runs on the layer's bipartite edges.
    """

    def __init__(self, kind: str, widths: list[int]) -> None:
        super().__init__()
        self.convs = _convolutions(kind, widths)
        self._kind = kind

    def forward(self, x: Tensor, edge_index: Tensor, hops: Hops) -> Tensor:
        """Returns the seeds' logits."""
        depth = len(self.convs)
        degrees = torch.bincount(edge_index[1], minlength=len(x))
        for i, conv in enumerate(self.convs):
            num_dst, num_edges = sum(hops.nodes[: depth - i]), sum(hops.edges[: depth - i])
            edges = edge_index[:, :num_edges]
            x = self._layer(conv, x, edges, degrees[: len(x)], num_dst)
            if i < depth - 1:
                x = functional.dropout(functional.relu(x), DROPOUT, self.training)
        return x

    def _layer(self, conv: Any, x: Tensor, edges: Tensor, degrees: Tensor, num_dst: int) -> Tensor:
        """Returns the destinations' output of one convolution, computed by hand but for attention."""
        out: Tensor
        if self._kind == "gat":
            out = conv((x, x[:num_dst]), edges)
        elif self._kind == "sage":
            narrower = conv.out_channels < x.shape[1]
            mean = _aggregate(x @ conv.lin_l.weight.t() if narrower else x, edges, num_dst, "mean")
            own = conv.lin_r(x[:num_dst]) + conv.lin_l.bias
            out = own + (mean if narrower else mean @ conv.lin_l.weight.t())
        elif self._kind == "gin":
            out = conv.nn(_aggregate(x, edges, num_dst, "sum") + x[:num_dst])
        else:
            scale = (degrees + 1).to(x.dtype).rsqrt()
            narrower = conv.out_channels < x.shape[1]
            mapped = x @ conv.lin.weight.t() if narrower else x
            weights = scale[edges[0]] * scale[edges[1]]
            total = _aggregate(mapped, edges, num_dst, "sum", weights) + mapped[:num_dst] * scale[:num_dst, None] ** 2
            out = (total if narrower else total @ conv.lin.weight.t()) + conv.bias
        return out


def _aggregate(x: Tensor, edges: Tensor, num_dst: int, reduce: str, weights: Tensor | None = None) -> Tensor:
    sources, destinations = edges
    pointers = torch.searchsorted(destinations, torch.arange(num_dst + 1))
    values = torch.ones(len(sources)) if weights is None else weights
    with torch.no_grad():
        matrix = torch.sparse_csr_tensor(pointers, sources, values, (num_dst, len(x)), check_invariants=False)
    product: Tensor = torch.sparse.mm(matrix, x, reduce)  # differentiates in half the time of the plain product
    return product


def _convolutions(kind: str, widths: list[int]) -> nn.ModuleList:
    convs = nn.ModuleList()
    for i, (narrow, wide) in enumerate(pairwise(widths)):
        last = i == len(widths) - 2
        if kind == "sage":
            convs.append(SAGEConv(narrow, wide))
        elif kind == "gcn":
            convs.append(GCNConv(narrow, wide))
        elif kind == "gat":
            width = wide if last else wide // HEADS
            convs.append(GATConv(narrow, width, HEADS, concat=not last, dropout=DROPOUT))
        else:
            convs.append(GINConv(MLP([narrow, wide, wide], norm="batch_norm")))
    return convs
