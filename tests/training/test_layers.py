from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv, TransformerConv
from torch_geometric.nn.models import MLP

from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.edge_attention import GATv2Layer, TransformerLayer, by_head_matrix
from a3gnn.models.layers.gat import GATLayer
from a3gnn.models.layers.gcn import GCNLayer
from a3gnn.models.layers.gin import GINLayer
from a3gnn.models.layers.layer import Layer
from a3gnn.models.layers.sage import SAGELayer
from a3gnn.models.model import build_model
from a3gnn.task import Task

MODELS = ["sage", "gcn", "gin", "gat", "gatv2", "transformer"]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")],
    ),
]


def make_pair(model: str, n_in: int, n_out: int) -> tuple[Layer, nn.Module]:
    torch.manual_seed(0)
    layer: Layer
    match model:
        case "sage":
            layer, conv = SAGELayer(n_in, n_out), SAGEConv(n_in, n_out)
        case "gcn":
            layer, conv = GCNLayer(n_in, n_out), GCNConv(n_in, n_out)
        case "gin":
            layer, conv = GINLayer(n_in, n_out), GINConv(MLP([n_in, n_out, n_out]))
        case "gatv2":
            layer = GATv2Layer(n_in, n_out, heads=2, concat=True, dropout=0.0)
            conv = GATv2Conv(n_in, n_out // 2, heads=2)
        case "transformer":
            layer = TransformerLayer(n_in, n_out, heads=2, concat=True, dropout=0.0)
            conv = TransformerConv(n_in, n_out // 2, heads=2)
        case _:
            layer = GATLayer(n_in, n_out, heads=2, concat=True, dropout=0.0)
            conv = GATConv(n_in, n_out // 2, heads=2)
    conv.load_state_dict(layer.state_dict())
    return layer, conv


def edges_of(block: LayerBlock) -> Tensor:
    return torch.stack([block.indices.long(), block.rows])


def on(block: LayerBlock, device: str) -> LayerBlock:
    assert isinstance(block.dst, slice)
    assert block.in_degrees is not None
    return LayerBlock(
        block.indptr.to(device), block.indices.to(device), block.num_src, block.dst, block.in_degrees.to(device)
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("widths", [(6, 10), (10, 4)], ids=["widens", "narrows"])
@pytest.mark.parametrize("num_src", [8, 30], ids=["full", "bipartite"])
@pytest.mark.parametrize("model", MODELS)
def test_outputs_and_gradients_equal_pyg(model, num_src, widths, device, make_block):
    block = on(make_block(8, num_src), device)
    layer, conv = (module.to(device).eval() for module in make_pair(model, *widths))
    x = torch.randn(num_src, widths[0], device=device, requires_grad=True)
    ours = layer(block, x)
    theirs = conv(x, edges_of(block))[: block.num_dst]
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)

    cotangent = torch.randn_like(ours)
    names = [name for name, _ in layer.named_parameters()]
    ours_by = torch.autograd.grad(ours, [x, *layer.parameters()], cotangent)
    theirs_by = torch.autograd.grad(theirs, [x, *(conv.get_parameter(name) for name in names)], cotangent)
    for one, other in zip(ours_by, theirs_by, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


ATTENTION = {
    "gat": (GATLayer, GATConv),
    "gatv2": (GATv2Layer, GATv2Conv),
    "transformer": (TransformerLayer, TransformerConv),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("concat", [True, False], ids=["side by side", "averaged"])
@pytest.mark.parametrize("num_src", [8, 30], ids=["full", "bipartite"])
@pytest.mark.parametrize("model", [*ATTENTION, "gcn"])
def test_with_values_of_edges_they_equal_pyg(model, num_src, concat, device, make_block):
    torch.manual_seed(0)
    for seed in range(3):
        block = on(make_block(8, num_src, seed=seed), device)
        assert block.self_loops.any()
        assert (block.indptr.diff() == 0).any()
        if model == "gcn":
            layer, conv = GCNLayer(6, 10 if concat else 4), GCNConv(6, 10 if concat else 4)
            edges = torch.rand(block.num_edges)
            edges[::9] = 0
            edges[block.rows == 1] = 0  # it has a self loop, so its degree is 0
            block = dataclasses.replace(block, edges=edges.to(device))
            degrees = torch.cat([block.weighted_degrees, torch.ones(num_src - 8, device=device)])
            block = dataclasses.replace(block, in_degrees=degrees)
        else:
            ours, theirs = ATTENTION[model]
            layer = ours(6, 8, heads=2, concat=concat, dropout=0.0, edge_dim=3)
            conv = theirs(6, 4 if concat else 8, heads=2, concat=concat, edge_dim=3)
            block = dataclasses.replace(block, edges=torch.randn(block.num_edges, 3).to(device))
        conv.load_state_dict(layer.state_dict())
        layer, conv = layer.to(device).eval(), conv.to(device).eval()
        x = torch.randn(num_src, 6, device=device, requires_grad=True)
        ours, theirs = layer(block, x), conv(x, edges_of(block), block.edges)[: block.num_dst]
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        in_two = layer.update(block, layer.sources(x, True), block.destinations(x), True)
        torch.testing.assert_close(in_two, ours, rtol=1e-4, atol=1e-5)
        whole = layer.complete(block, layer.linear_part(block, x))
        torch.testing.assert_close(whole, ours, rtol=1e-4, atol=1e-5)
        cotangent = torch.randn_like(ours)
        names = [name for name, _ in layer.named_parameters()]
        assert ("lin_edge.weight" in names) == (model != "gcn")
        ours_by = torch.autograd.grad(ours, [x, *layer.parameters()], cotangent)
        theirs_by = torch.autograd.grad(theirs, [x, *(conv.get_parameter(name) for name in names)], cotangent)
        for one, other in zip(ours_by, theirs_by, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_src", [8, 30], ids=["full", "bipartite"])
def test_gin_in_training_equals_pyg_and_so_do_its_running_statistics(num_src, make_block):
    layer, conv = (module.train() for module in make_pair("gin", 10, 4))
    parameters = [name for name, _ in layer.named_parameters()]
    for seed in range(3):
        block = make_block(8, num_src, seed=seed)
        x = torch.randn(num_src, 10, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        ours, theirs = layer(block, x), conv((x, x[:8]), edges_of(block))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        cotangent = torch.randn_like(ours)
        ours_by = torch.autograd.grad(ours, [x, *layer.parameters()], cotangent)
        theirs_by = torch.autograd.grad(theirs, [x, *(conv.get_parameter(name) for name in parameters)], cotangent)
        for one, other in zip(ours_by, theirs_by, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert layer.state_dict().keys() == conv.state_dict().keys()
    assert layer.nn.norms[0].module.num_batches_tracked == 3
    for name, value in layer.state_dict().items():
        torch.testing.assert_close(value, conv.state_dict()[name], rtol=1e-4, atol=1e-5)


def test_a_single_row_of_gin_is_normalized_with_the_running_statistics_and_leaves_them(make_block):
    layer, conv = (module.train() for module in make_pair("gin", 10, 4))
    with torch.no_grad():
        layer(make_block(8, 30), torch.randn(30, 10))
    conv.load_state_dict(layer.state_dict())
    indptr, indices = (torch.tensor(ids, dtype=torch.int32) for ids in ([0, 3], [1, 2, 4]))
    block, x = LayerBlock(indptr, indices, 5, slice(0, 1)), torch.randn(5, 10)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    out = layer(block, x)
    torch.testing.assert_close(out, conv.eval()((x, x[:1]), edges_of(block)), rtol=1e-4, atol=1e-5)
    out.sum().backward()
    assert all(weight.grad is not None for weight in layer.parameters())
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_both_orders_agree(model, make_block):
    block = make_block(8, 30)
    layer, _ = make_pair(model, 10, 4)
    x = torch.randn(30, 10)
    first, last = (layer.update(block, layer.sources(x, m), block.destinations(x), m) for m in (True, False))
    torch.testing.assert_close(first, last, rtol=1e-4, atol=1e-5)


class Sizes(TorchDispatchMode):
    """Keeps the number of entries of every tensor that torch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.made += [one.numel() for one in (out if isinstance(out, tuple | list) else [out]) if torch.is_tensor(one)]
        return out


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
def test_attention_stores_no_rows_of_edges(model, make_block):
    block, (layer, _) = make_block(20, 20, num_edges=2000), make_pair(model, 10, 12)
    x = torch.randn(20, 10, requires_grad=True)
    with Sizes() as sizes:
        layer(block, x).square().sum().backward()
        layer.update(block, layer.sources(x.detach(), True), block.destinations(x.detach()), True)
    assert max(sizes.made) < block.indices.numel() * 12 / 2


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
def test_a_layer_and_its_two_steps_have_the_same_outputs_and_gradients(model, make_block):
    block, (layer, _) = make_block(8, 30), make_pair(model, 10, 4)
    x = torch.randn(30, 10, requires_grad=True)
    both = layer(block, x), layer.update(block, layer.sources(x, True), block.destinations(x), True)
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)
    first, second = (torch.autograd.grad(out.sin().sum(), [x, *layer.parameters()]) for out in both)
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dropout", [None, Dropout.of(0.3, 7)], ids=["none", "dropped"])
def test_mapping_first_has_the_gradients_of_aggregating_first(dropout, make_block, monkeypatch):
    block = make_block(8, 30)
    layer, _ = make_pair("sage", 10, 4)
    x, results = torch.randn(30, 10, requires_grad=True), []
    for first in (True, False):
        monkeypatch.setattr(layer, "maps_first", lambda _, first=first: first)
        out = layer(block, x * 1.0, dropout)
        cotangent = torch.sin(torch.arange(out.numel())).view_as(out)
        results.append([out, *torch.autograd.grad(out, [x, *layer.parameters()], cotangent)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_sparse_input_equals_dense(model, device, make_block):
    block = on(make_block(8, 30), device)
    layer, _ = make_pair(model, 10, 4)
    layer.to(device)
    x = torch.randn(30, 10, device=device).relu()
    weights = list(layer.parameters())
    outs = [layer(block, x), layer(block, x.to_sparse_csr())]
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-4, atol=1e-5)
    grads = [torch.autograd.grad(out.square().sum(), weights) for out in outs]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("model", MODELS)
def test_a_row_that_overflows_reaches_the_outputs_that_it_reaches_in_pyg(model, value, make_block):
    block = make_block(8, 30)
    layer, conv = (module.eval() for module in make_pair(model, 6, 10))
    x = torch.randn(30, 6)
    x[3] = x[17] = value
    ours = layer(block, x)
    expected = conv((x, x[:8]) if model != "gcn" else x, edges_of(block))[:8]
    assert not ours.isfinite().all()
    assert torch.equal(ours.isfinite().all(dim=1), expected.isfinite().all(dim=1))


def test_no_edges_leaves_the_node_itself():
    block = LayerBlock(
        torch.zeros(4, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), 3, slice(0, 3), torch.zeros(3)
    )
    for model in MODELS:
        layer, conv = make_pair(model, 4, 6)
        x = torch.randn(3, 4)
        torch.testing.assert_close(layer(block, x), conv(x, edges_of(block)), rtol=1e-4, atol=1e-5)


def test_the_seed_alone_decides_the_weights():
    torch.manual_seed(1)
    first = build_model(Task(hidden_channels=8), 6, 3).state_dict()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = build_model(Task(hidden_channels=8), 6, 3).state_dict()
    other = build_model(Task(hidden_channels=8, seed=1), 6, 3).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["convs.0.lin_r.weight"], other["convs.0.lin_r.weight"])


@pytest.mark.parametrize(
    ("num_src", "heads", "dtype"),
    [(2**30, 1, torch.int32), (2**28, 7, torch.int32), (2**28, 8, torch.int64), (2**31 - 1, 8, torch.int64)],
)
def test_places_by_node_and_head_hold_graphs_of_many_nodes(num_src: int, heads: int, dtype: torch.dtype) -> None:
    indptr, indices = torch.tensor([0, 2, 3], dtype=torch.int32), torch.tensor([0, num_src - 1, 5], dtype=torch.int32)
    starts, columns = by_head_matrix(indptr, indices, heads, num_src, heads)
    assert starts.dtype == columns.dtype == dtype
    assert starts.tolist() == [h * 3 + at for h in range(heads) for at in (0, 2)] + [3 * heads]
    assert columns.tolist() == [source * heads + h for h in range(heads) for source in (0, num_src - 1, 5)]
