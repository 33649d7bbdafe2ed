"""Accelerated convolutions against PyG's: outputs and all gradients, over arguments, types and graphs."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.nn import (
    MLP,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    TransformerConv,
)

from a3gnn import accelerate
from tests.acceleration.graphs import (
    assert_same,
    bipartite_graphs,
    compare,
    in_turns,
    random_edges,
    square_graphs,
    weights_of,
)

SQUARE, BIPARTITE = square_graphs(), bipartite_graphs()
TYPES = [torch.float64, torch.float32]


def rows(count: int, width: int, seed: int = 1) -> torch.Tensor:
    """Returns rows, half of whose entries are 0, as after ReLU, so that maxima have ties."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)).relu()


SAGE = [
    {"aggr": aggr, "root_weight": root, "normalize": normalize, "project": project}
    for aggr in ("mean", "sum", "add", "max")
    for root in (True, False)
    for normalize, project in ((False, False), (True, False), (False, True))
]


@pytest.mark.parametrize(
    ("case", "graph", "dtype"),
    in_turns(product((SAGE[0], SAGE[9], SAGE[18], {"bias": False}), ((6, 4), (4, 7))), SQUARE, TYPES),
    ids=str,
)
def test_sage_on_graphs(case: tuple[dict[str, Any], tuple[int, int]], graph: str, dtype: torch.dtype) -> None:
    (options, widths), edges = case, SQUARE[graph]
    compare(SAGEConv(*widths, **options), dtype, rows(edges.num_src, widths[0]), edges.edge_index)


@pytest.mark.parametrize("options", SAGE, ids=str)
def test_sage_arguments(options: dict[str, Any]) -> None:
    compare(SAGEConv(6, 4, **options), torch.float64, rows(30, 6), SQUARE["random"].edge_index)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("graph", BIPARTITE)
@pytest.mark.parametrize("conv", [SAGEConv((6, 5), 4), GraphConv((6, 5), 4), SAGEConv((6, 5), 4, aggr="max")], ids=str)
def test_pairs(conv: nn.Module, graph: str, dtype: torch.dtype) -> None:
    edges = BIPARTITE[graph]
    x = rows(edges.num_src, 6), rows(edges.num_dst, 5)
    compare(conv, dtype, x, edges.edge_index)
    compare(conv, dtype, x, edges.edge_index, size=(edges.num_src, edges.num_dst))
    compare(conv, dtype, (x[0], None), edges.edge_index, size=(edges.num_src, edges.num_dst))


GCN = [
    {},
    {"add_self_loops": False},
    {"improved": True},
    {"normalize": False, "add_self_loops": False},
    {"bias": False},
]


@pytest.mark.parametrize(("case", "graph", "dtype"), in_turns(product(GCN, (False, True)), SQUARE, TYPES), ids=str)
def test_gcn(case: tuple[dict[str, Any], bool], graph: str, dtype: torch.dtype) -> None:
    (options, weighted), edges = case, SQUARE[graph]
    weights = torch.rand(edges.edge_index.shape[1]) + 0.1 if weighted else None
    for widths in ((6, 4), (4, 7)):
        conv = GCNConv(*widths, **options)
        compare(conv, dtype, rows(edges.num_src, widths[0]), edges.edge_index, edge_weight=weights)


@pytest.mark.parametrize(
    ("case", "graph", "dtype"), in_turns(product(("add", "mean", "max"), (False, True)), SQUARE, TYPES), ids=str
)
def test_graph_conv(case: tuple[str, bool], graph: str, dtype: torch.dtype) -> None:
    (aggr, weighted), edges = case, SQUARE[graph]
    weights = torch.rand(edges.edge_index.shape[1]) if weighted else None
    native = not (weighted and aggr == "max")
    if not native and graph == "int32":
        pytest.skip("torch's gradient of PyG's code is wrong")
    for widths in ((6, 4), (4, 7)):
        conv = GraphConv(*widths, aggr=aggr)
        compare(conv, dtype, rows(edges.num_src, widths[0]), edges.edge_index, edge_weight=weights, native=native)


@pytest.mark.parametrize(
    ("options", "graph", "dtype"),
    in_turns([{}, {"eps": 0.5, "train_eps": True}, {"aggr": "max"}, {"aggr": "mean"}], SQUARE, TYPES),
    ids=str,
)
def test_gin(graph: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    edges = SQUARE[graph]
    conv = GINConv(MLP([6, 8, 4], norm=None), **options)
    compare(conv, dtype, rows(edges.num_src, 6), edges.edge_index)


ATTENTION = [
    {},
    {"heads": 3},
    {"heads": 2, "concat": False},
    {"heads": 2, "edge_dim": 2},
    {"bias": False},
]
GAT = [
    *ATTENTION,
    {"add_self_loops": False, "heads": 2},
    {"residual": True},
    {"negative_slope": 0.05},
    {"edge_dim": 2, "add_self_loops": False},
    {"edge_dim": 2, "fill_value": 0.3},
    {"edge_dim": 2, "fill_value": "add"},
]
TRANSFORMER = [
    *ATTENTION,
    {"heads": 2, "beta": True},
    {"heads": 2, "concat": False, "beta": True},
    {"root_weight": False},
]


#: Classes with their options.
CASES = [
    *product((GATConv, GATv2Conv), GAT),
    (GATv2Conv, {"share_weights": True}),
    *product((TransformerConv,), TRANSFORMER),
]


@pytest.mark.parametrize(("case", "graph", "dtype"), in_turns(CASES, SQUARE, TYPES), ids=str)
def test_attention(case: tuple[Any, dict[str, Any]], graph: str, dtype: torch.dtype) -> None:
    (kind, options), edges = case, SQUARE[graph]
    attributes = torch.randn(edges.edge_index.shape[1], 2) if "edge_dim" in options else None
    x = rows(edges.num_src, 6)
    compare(kind(6, 4, **options), dtype, x, edges.edge_index, edge_attr=attributes)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("graph", BIPARTITE)
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("kind", [GATConv, GATv2Conv, TransformerConv])
def test_attention_of_pairs(kind: Any, graph: str, loops: bool, dtype: torch.dtype) -> None:
    edges = BIPARTITE[graph]
    more = {} if kind is TransformerConv else {"add_self_loops": loops}
    x = rows(edges.num_src, 6), rows(edges.num_dst, 5)
    compare(kind((6, 5), 4, heads=2, **more), dtype, x, edges.edge_index)


@pytest.mark.parametrize("heads", [1, 4])
def test_gat_before_the_map(heads: int) -> None:
    """A narrow input and many sources per target, where sums come first."""
    edges = random_edges(3000, 3000, 6000)
    edges = torch.cat([edges[:1], edges[1:] % 40], dim=0)
    for concat in (True, False):
        compare(GATConv(3, 64, heads=heads, concat=concat), torch.float32, rows(3000, 3), edges)


def test_one_column_of_edge_attributes() -> None:
    edges = SQUARE["random"].edge_index
    attributes = torch.rand(edges.shape[1])
    for kind in (GATConv, GATv2Conv):
        compare(kind(6, 4, edge_dim=1), torch.float64, rows(30, 6), edges, edge_attr=attributes)


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.integers(1, 12),
    ends=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40),
    which=st.integers(0, 9),
)
def test_any_small_graph(nodes: int, ends: list[tuple[int, int]], which: int) -> None:
    edges = torch.tensor([[a % nodes, b % nodes] for a, b in ends], dtype=torch.int64).view(-1, 2).t().contiguous()
    conv = [
        SAGEConv(3, 4),
        SAGEConv(3, 2, aggr="max"),
        GCNConv(3, 4),
        GCNConv(3, 2, add_self_loops=False),
        GraphConv(3, 2),
        GINConv(nn.Linear(3, 2), train_eps=True),
        GATConv(3, 2, heads=2),
        GATv2Conv(3, 2, heads=2),
        TransformerConv(3, 2, heads=2),
        GATConv(3, 2, add_self_loops=False),
    ][which]
    compare(conv, torch.float64, rows(nodes, 3), edges)


@pytest.mark.parametrize("kind", [SAGEConv, GCNConv, GraphConv, GATConv, GATv2Conv, TransformerConv])
def test_second_derivatives(kind: Any) -> None:
    edges, conv = SQUARE["random"].edge_index, accelerate(kind(3, 2).double())
    x = torch.randn(30, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda one: conv(one, edges).sin(), (x,))


class Penalized(nn.Module):
    """Two convolutions whose edge weights and attributes are learned and shared, and depend on `x`."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.convs = nn.ModuleList([make(), make()])
        self.given = nn.Parameter(torch.rand(128, 2) + 0.1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        given = self.given * x[edges[0], :1].sigmoid()
        for conv in (*self.convs, self.convs[0]):
            more: dict[str, Any] = {}
            if isinstance(conv, GCNConv | GraphConv) and conv.aggr != "max":
                more = {"edge_weight": given[:, 1]}
            elif getattr(conv, "lin_edge", None) is not None:
                more = {"edge_attr": given}
            x = x + conv(x.tanh(), edges, **more)
        return x


@pytest.mark.parametrize(
    "make",
    [
        lambda: SAGEConv(3, 3, project=True, normalize=True),
        lambda: SAGEConv(3, 3, aggr="max"),
        lambda: GCNConv(3, 3),
        lambda: GCNConv(3, 3, normalize=False, add_self_loops=False),
        lambda: GraphConv(3, 3),
        lambda: GINConv(nn.Linear(3, 3), train_eps=True),
        lambda: GATConv(3, 3, residual=True),
        lambda: GATConv(3, 3, edge_dim=2),
        lambda: GATv2Conv(3, 3),
        lambda: GATv2Conv(3, 3, edge_dim=2, share_weights=True),
        lambda: TransformerConv(3, 3),
        lambda: TransformerConv(3, 3, edge_dim=2, beta=True),
    ],
)
def test_first_and_second_derivatives_with_create_graph(make: Any) -> None:
    torch.manual_seed(0)
    edges, plain = SQUARE["random"].edge_index, Penalized(make).double()
    start, found = torch.randn(30, 3, dtype=torch.float64), []
    for model in (accelerate(copy.deepcopy(plain)), plain):
        x = start.clone().requires_grad_()
        asked = [x, *model.parameters()]
        loss = model(x, edges).sin().sum()
        for create_graph in (False, True):
            more = torch.autograd.grad(
                loss, asked, create_graph=create_graph, retain_graph=True, materialize_grads=True
            )
            found.append(more)
        penalty = sum((one * weights_of(one)).sum().sin() + one.square().sum() for one in more)
        found.append(torch.autograd.grad(penalty, asked, materialize_grads=True))
    for ours, theirs in zip(found[:3], found[3:], strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, torch.float64)


@pytest.mark.parametrize("kind", [GATConv, GATv2Conv, TransformerConv])
def test_dropout_of_attention(kind: Any) -> None:
    edges = random_edges(200, 200, 4000)
    conv = accelerate(kind(3, 2, heads=2, dropout=0.4, bias=False).double())
    x = torch.ones(200, 3, dtype=torch.float64)
    conv.eval()
    whole = conv(x, edges)
    conv.train()
    torch.manual_seed(5)
    once = conv(x, edges)
    torch.manual_seed(5)
    assert torch.equal(once, conv(x, edges))
    assert not torch.equal(once, conv(x, edges))
    many = torch.stack([conv(x, edges) for _ in range(300)]).mean(dim=0)
    torch.testing.assert_close(many.mean(), whole.mean(), rtol=0.02, atol=1e-3)

    def of(values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(5)
        return conv(values, edges)

    assert torch.autograd.gradcheck(of, (torch.randn(200, 3, dtype=torch.float64, requires_grad=True),), fast_mode=True)
