"""Under a user's `torch.autocast`, each layer and model returns PyG's type, and PyG's values up to its rounding."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GAT, GCN, GIN, GATConv, GATv2Conv, GCNConv, GINConv, GraphConv, GraphSAGE, SAGEConv
from torch_geometric.nn import TransformerConv as Transformer

from a3gnn import accelerate
from a3gnn.acceleration.calls import Accelerated
from tests.acceleration.graphs import batches, random_edges

EDGES = random_edges(50, 50, 300)
X = torch.randn(50, 6)
WEIGHTS, ATTRIBUTES = torch.rand(EDGES.shape[1]), torch.rand(EDGES.shape[1], 3)


CASES: list[tuple[nn.Module, dict[str, Any]]] = [
    (SAGEConv(6, 4), {}),
    (SAGEConv(6, 4, normalize=True, project=True), {}),
    (SAGEConv(6, 4, aggr="max"), {}),
    (GraphConv(6, 4), {}),
    (GraphConv(6, 4), {"edge_weight": WEIGHTS}),
    (GINConv(nn.Linear(6, 4)), {}),
    (GINConv(nn.Sequential(nn.BatchNorm1d(6), nn.ReLU())), {}),
    (GINConv(nn.Identity(), train_eps=True), {}),
    (GCNConv(6, 4), {}),
    (GCNConv(6, 4, bias=False), {}),
    (GCNConv(6, 4, bias=False, improved=True), {}),
    (GCNConv(6, 4, bias=False, normalize=False), {}),
    (GCNConv(6, 4, bias=False, normalize=False), {"edge_weight": WEIGHTS}),
    (GCNConv(6, 4, normalize=False), {}),
    (GCNConv(6, 4), {"edge_weight": WEIGHTS}),
    (GATConv(6, 4), {}),
    (GATConv(6, 4, bias=False, heads=2, concat=False), {}),
    (GATConv(600, 4, bias=False), {}),
    (GATConv(6, 40, bias=False, residual=True), {}),
    (GATConv(6, 4, edge_dim=3), {"edge_attr": ATTRIBUTES}),
    (GATv2Conv(6, 4), {}),
    (GATv2Conv(6, 4, bias=False, residual=True, edge_dim=3), {"edge_attr": ATTRIBUTES}),
    (Transformer(6, 4), {}),
    (Transformer(6, 4, beta=True, heads=2, edge_dim=3), {"edge_attr": ATTRIBUTES}),
]


def outputs(model: nn.Module, *inputs: Any, **more: Any) -> list[Any]:
    found = []
    for one in (model, accelerate(copy.deepcopy(model))):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found.append(one(*inputs, **more))
        for part in one.modules():
            assert not isinstance(part, Accelerated) or part.refused is None
    return found


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("conv", "more"), CASES, ids=[f"{conv} {[*more]}" for conv, more in CASES])
def test_layers(conv: nn.Module, more: dict[str, Any], given: torch.dtype) -> None:
    width = 600 if getattr(conv, "in_channels", 6) == 600 else 6
    x = torch.randn(50, width).to(given)
    expected, found = outputs(conv, x, EDGES, **more)
    assert found.dtype is expected.dtype
    torch.zeros(60, expected.shape[1], dtype=expected.dtype)[torch.arange(50)] = found  # needs the same type
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT, GIN])
def test_models_on_mini_batches(kind: Any) -> None:
    torch.manual_seed(0)
    batch = next(iter(batches()))
    expected, found = outputs(kind(6, 8, 2, 4), batch.x, batch.edge_index)
    assert found.dtype is expected.dtype
    assert found[:40].dtype is expected.dtype
    torch.testing.assert_close(found[:40], expected[:40], rtol=0.05, atol=0.05)


@pytest.mark.parametrize("narrow", [None, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("scale", [1e3, 1e5, 3e37])
@pytest.mark.parametrize("kind", [SAGEConv, GraphConv, GCNConv, GATConv, GATv2Conv, Transformer])
def test_large_values_are_right_or_not_finite(kind: Any, scale: float, narrow: torch.dtype | None) -> None:
    """float16 runs PyG's code; bfloat16 has the range of float32. The order of products may decide what overflows."""
    torch.manual_seed(0)
    plain = kind(6, 4)
    for weight in plain.parameters():
        weight.data.abs_().add_(0.5)  # no cancellation, so that rounding doesn't decide
    x = scale * (1 + torch.rand(50, 6))
    exact = copy.deepcopy(plain).double()(x.double(), EDGES)
    model = accelerate(plain)
    with torch.no_grad(), torch.autocast("cpu", narrow or torch.bfloat16, enabled=narrow is not None):
        found = model(x, EDGES)
    kept = found.isfinite()
    assert kept.any() or scale > 1e4
    torch.testing.assert_close((found.double() / scale)[kept], (exact / scale)[kept], rtol=0.05, atol=0.05)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", ["autocast", "parameters"])
@pytest.mark.parametrize("scale", [pytest.param(1e4, marks=pytest.mark.weekly), 3e4])
@pytest.mark.parametrize(("conv", "more"), CASES, ids=[f"{conv} {[*more]}" for conv, more in CASES])
def test_what_is_finite_in_pyg_is_finite(
    conv: nn.Module, more: dict[str, Any], scale: float, form: str, narrow: torch.dtype
) -> None:
    torch.manual_seed(0)
    width, plain = 600 if getattr(conv, "in_channels", 6) == 600 else 6, copy.deepcopy(conv)
    x, found = scale * torch.rand(50, width), []
    if form == "parameters":
        plain, x = plain.to(narrow), x.to(narrow)
        more = {name: one.to(narrow) for name, one in more.items()}
    for model in (plain, accelerate(copy.deepcopy(plain))):
        leaf = x.clone().requires_grad_()
        with torch.autocast("cpu", narrow, enabled=form == "autocast"):
            out = model(leaf, EDGES, **more)
        out.float().mean().backward()
        found.append([out.detach(), leaf.grad, *(one.grad for one in model.parameters())])
    for theirs, ours in zip(*found, strict=True):
        if theirs is not None:
            assert not (theirs.isfinite() & ~ours.isfinite()).any()
