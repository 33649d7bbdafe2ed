"""`accelerate` of whole models: what stays, what is refused and why, edges that change, bfloat16."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    ChebConv,
    EdgeCNN,
    GATConv,
    GCNConv,
    GraphSAGE,
    GroupAddRev,
    MessagePassing,
    SAGEConv,
)
from torch_geometric.nn.models.basic_gnn import BasicGNN
from torch_geometric.utils import add_self_loops, to_torch_csr_tensor

from a3gnn import accelerate
from a3gnn.acceleration.accelerate import layers
from a3gnn.errors import UsageError
from tests.acceleration.graphs import TOLERANCE, assert_same, batches, random_edges

EDGES = random_edges(50, 50, 300)
X = torch.randn(50, 6)
MODELS: list[tuple[type[BasicGNN], dict[str, Any]]] = [
    (GraphSAGE, {}),
    (GraphSAGE, {"norm": "batch", "jk": "cat"}),
    (GraphSAGE, {"norm": "layer", "act": "elu"}),
    (GCN, {}),
    (GCN, {"norm": "batch", "act_first": True}),
    (GAT, {"heads": 2}),
    (GAT, {"heads": 2, "v2": True, "jk": "max"}),
    (GIN, {}),
    (GIN, {"norm": "batch", "jk": "last"}),
]


def made(kind: type[BasicGNN], options: dict[str, Any]) -> BasicGNN:
    torch.manual_seed(0)
    return kind(6, 8, 3, 4, **options)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("kind", "options"), MODELS, ids=str)
def test_models_equal_pygs(kind: type[BasicGNN], options: dict[str, Any], dtype: torch.dtype) -> None:
    ours, theirs = accelerate(made(kind, options).to(dtype)), made(kind, options).to(dtype)
    assert [one.reason for one in layers(ours)] == [None] * 3
    batch = next(iter(batches()))
    for x, edges, seeds in ((X, EDGES, 50), (batch.x, batch.edge_index, batch.batch_size)):
        for model in (ours, theirs):
            model.zero_grad()
            model(x.to(dtype), edges)[:seeds].square().sum().backward()
        # A bias before a batch norm has the gradient 0, and the rounding of the other gradients, which float32 shows.
        gradients = [float(one.grad.abs().max()) for one in theirs.parameters()]
        largest = max(1.0, *gradients) if dtype is torch.float32 else 1.0
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert_same(one.grad / largest, other.grad / largest, dtype)
        with torch.no_grad():
            assert_same(ours.eval()(x.to(dtype), edges), theirs.eval()(x.to(dtype), edges), dtype)
        ours.train(), theirs.train()


def test_a_model_is_changed_in_place_and_keeps_its_names() -> None:
    model = made(GAT, {"heads": 2})
    state, names = model.state_dict(), [name for name, _ in model.named_modules()]
    ours = accelerate(model)
    assert ours is model
    assert [name for name, _ in ours.named_modules()] == names
    assert all(one is other for one, other in zip(ours.state_dict().values(), state.values(), strict=False)) or all(
        torch.equal(one, other) for one, other in zip(ours.state_dict().values(), state.values(), strict=True)
    )
    assert list(ours.state_dict()) == list(state)
    assert isinstance(ours.convs[0], GATConv)
    made(GAT, {"heads": 2}).load_state_dict(ours.state_dict())


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_copies_and_pickles_run_natively(dtype: Any) -> None:
    model = accelerate(made(GraphSAGE, {}), dtype)
    expected = model(X, EDGES)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert [one.reason for one in layers(copied)] == [None] * 3
        assert torch.equal(copied(X, EDGES), expected)
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    assert torch.equal(torch.load(saved, weights_only=False)(X, EDGES), expected)


def test_a_pickle_is_read_by_a_new_process(tmp_path: Any) -> None:
    model = accelerate(made(GCN, {}))
    torch.save((model, X, EDGES, model(X, EDGES)), tmp_path / "model.pt")
    code = (
        "import sys, torch; model, x, edges, out = torch.load(sys.argv[1], weights_only=False); "
        "assert torch.equal(model(x, edges), out); "
        "from a3gnn.acceleration.accelerate import layers; print(layers(model)[0])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.pt")], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "LayerReport(name='convs.0', layer='GCNConv', reason=None)"


def test_hooks_of_modules_run() -> None:
    model = accelerate(made(GraphSAGE, {}))
    seen: list[str] = []
    model.convs[0].register_forward_hook(lambda *_: seen.append("conv"))
    model.register_full_backward_hook(lambda *_: seen.append("model backward"))
    model.convs[1].register_full_backward_hook(lambda *_: seen.append("conv backward"))
    expected = made(GraphSAGE, {})
    batch = next(iter(batches()))
    for one in (model, expected):
        one(batch.x.clone().requires_grad_(), batch.edge_index)[: batch.batch_size].sum().backward()
    assert sorted(seen) == ["conv", "conv backward", "model backward"]
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        assert_same(one.grad, other.grad, torch.float32)


def test_a_hook_of_a_linear_map_is_pygs() -> None:
    model = accelerate(made(GraphSAGE, {}))
    seen: list[str] = []
    model.convs[0].lin_l.register_forward_hook(lambda *_: seen.append("lin_l"))
    model(X, EDGES)
    assert seen == ["lin_l"]
    assert layers(model)[0].reason == "lin_l has hooks, or is no plain linear map"


class Own(MessagePassing):
    """A user's own convolution."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.propagate(edge_index, x=x)


class Doubled(SAGEConv):
    """A subclass with other messages."""

    def message(self, x_j: torch.Tensor) -> torch.Tensor:
        return 2 * x_j


REFUSED = [
    (ChebConv(6, 4, K=2), "no native form of this class"),
    (Own(), "no native form of this class"),
    (Doubled(6, 4), "a subclass of SAGEConv"),
    (SAGEConv(6, 4, aggr="min"), "aggr='min'"),
    (SAGEConv(6, 4, aggr=["mean", "max"]), "aggr=['mean', 'max']"),
    (SAGEConv(6, 4, flow="target_to_source"), "flow='target_to_source'"),
    (GCNConv(6, 4, decomposed_layers=2), "decomposed_layers=2"),
    (GCNConv(6, 4, cached=True), "cached=True"),
    (GATConv(6, 4, negative_slope=-0.1), "negative_slope=-0.1"),
]


@pytest.mark.parametrize(("conv", "reason"), REFUSED, ids=lambda one: str(one))
def test_the_rest_stays_pygs_and_says_why(conv: nn.Module, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = copy.deepcopy(conv)(X, EDGES)
    ours = accelerate(conv, report=True)
    assert torch.equal(ours(X, EDGES), expected)
    assert [one.reason for one in layers(ours)] == [reason]
    assert capsys.readouterr().out == f"model: {type(conv).__name__}: PyG, {reason}\n"


def test_a_report_names_each_layer(capsys: pytest.CaptureFixture[str]) -> None:
    accelerate(nn.ModuleList([SAGEConv(6, 4), nn.Linear(4, 4), EdgeCNN(4, 4, 1)]), report=True)
    assert capsys.readouterr().out.splitlines() == [
        "0: SAGEConv: native",
        "2.convs.0: EdgeConv: PyG, no native form of this class",
    ]


@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT, GIN])
def test_a_print_is_pygs(kind: type[BasicGNN]) -> None:
    ours = accelerate(made(kind, {}))
    ours(X, EdgeIndex(EDGES, sparse_size=(50, 50)))  # which PyG's code runs
    assert repr(ours) == repr(made(kind, {}))
    assert [repr(one) for one in ours.convs] == [repr(one) for one in made(kind, {}).convs]
    assert {one.reason for one in layers(ours)} == {"edge_index is no dense tensor on the CPU"}
    ours(X, EDGES)
    assert {one.reason for one in layers(ours)} == {None}


@pytest.mark.parametrize(
    ("edges", "nodes"), [(2**31, 50), (2**31 - 50, 50), (1, 2**31)], ids=["edges", "edges with self loops", "nodes"]
)
@pytest.mark.parametrize("kind", [SAGEConv, GCNConv, GATConv])
def test_a_graph_too_large_for_kernels_is_named(kind: type[MessagePassing], edges: int, nodes: int) -> None:
    conv, many = accelerate(kind(6, 8)), torch.zeros(2, 1, dtype=torch.int64).expand(2, edges)
    assert conv.call(torch.zeros(1, 6).expand(nodes, 6), many) is None
    reason = f"edges and nodes must be 2,147,483,647 or fewer together, got {edges:,} and {nodes:,}"
    assert layers(conv)[0].reason == reason


def test_a_compiled_model_stays() -> None:
    compiled = torch.compile(made(GraphSAGE, {}), backend="eager")
    accelerate(compiled)
    assert {one.reason for one in layers(compiled)} == {"a module compiled by torch.compile"}
    torch.testing.assert_close(compiled(X, EDGES), made(GraphSAGE, {})(X, EDGES))


def test_an_accelerated_model_can_be_compiled() -> None:
    compiled = torch.compile(accelerate(made(GraphSAGE, {})), backend="eager")
    torch.testing.assert_close(compiled(X, EDGES), made(GraphSAGE, {})(X, EDGES))


def test_scripts_and_traces_are_pygs() -> None:
    expected = made(GCN, {})(X, EDGES)
    for recorded in (
        torch.jit.script(accelerate(GCNConv(6, 4).eval())),
        torch.jit.trace(accelerate(GCNConv(6, 4).eval()), (X, EDGES)),
    ):
        assert recorded(X, EDGES).shape == (50, 4)
    torch.testing.assert_close(torch.jit.script(accelerate(made(GCN, {})))(X, EDGES), expected)


def test_explanations_are_pygs() -> None:
    from torch_geometric.explain import Explainer, GNNExplainer

    found = []
    for model in (made(GCN, {}), accelerate(made(GCN, {}))):
        torch.manual_seed(1)
        explainer = Explainer(
            model.eval(),
            GNNExplainer(epochs=3),
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        )
        found.append(explainer(X, EDGES, index=3))
    torch.testing.assert_close(found[1].edge_mask, found[0].edge_mask)
    assert model(X, EDGES).shape == (50, 4)
    assert all(one.refused is None for one in model.convs)


def test_sparse_adjacencies_are_pygs() -> None:
    adjacency = to_torch_csr_tensor(EDGES, size=(50, 50)).t().to_sparse_csr()
    for kind in (GraphSAGE, GCN, GIN):
        torch.testing.assert_close(accelerate(made(kind, {}))(X, adjacency), made(kind, {})(X, adjacency))


@pytest.mark.parametrize(
    ("x", "edges"),
    [
        (X[:20], EDGES),
        (X, EDGES - 1),
        (X, EDGES.float()),
        (X, EDGES[0]),
        (X, torch.cat([EDGES, EDGES])),
        (X[:, :5], EDGES),
        (X.double(), EDGES),
        (X[0], EDGES),
    ],
)
@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT, GIN])
def test_errors_are_pygs(kind: type[BasicGNN], x: torch.Tensor, edges: torch.Tensor) -> None:
    with pytest.raises((AssertionError, IndexError, RuntimeError, ValueError)) as theirs:
        made(kind, {})(x, edges)
    with pytest.raises(type(theirs.value)) as ours:
        accelerate(made(kind, {}))(x, edges)
    assert str(ours.value) == str(theirs.value)


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(UsageError, match=r"model must be a torch\.nn\.Module, got 3"):
        accelerate(3)  # type: ignore[type-var]
    with pytest.raises(UsageError, match="dtype must be 'bfloat16', 'float32' or None, got 'int8'"):
        accelerate(made(GCN, {}), "int8")  # type: ignore[arg-type]


def same(edges: torch.Tensor, x: torch.Tensor = X) -> None:
    for kind, options in ((GraphSAGE, {}), (GCN, {}), (GAT, {"heads": 2})):
        torch.testing.assert_close(accelerate(made(kind, options))(x, edges), made(kind, options)(x, edges))


def test_changed_edges() -> None:
    edges = EDGES.clone()
    same(edges)
    edges[0, :7] = 3
    same(edges)
    same(edges[:, 5:])
    same(edges.flip(0))
    same(edges.t().contiguous().t())
    same(add_self_loops(edges)[0])
    edges.resize_(2, 10)
    same(edges)
    more = torch.cat([X, X])
    same(edges, more)


def test_changed_edges_of_a_mini_batch() -> None:
    batch = next(iter(batches()))
    same(batch.edge_index, batch.x)
    same(add_self_loops(batch.edge_index, num_nodes=batch.num_nodes)[0], batch.x)
    kept = torch.rand(batch.edge_index.shape[1]) < 0.5
    same(batch.edge_index[:, kept], batch.x)
    batch.edge_index[:, :4] = 0
    same(batch.edge_index, batch.x)
    same(batch.edge_index, torch.cat([batch.x, batch.x]))


def test_transforms_of_a_loader_are_seen() -> None:
    from torch_geometric.transforms import AddSelfLoops, ToUndirected

    from a3gnn import Loader

    data = Data(X, EDGES, num_nodes=50)
    for transform in (AddSelfLoops(), ToUndirected()):
        for batch in Loader(data, [4, 4], batch_size=10, transform=transform):
            same(batch.edge_index, batch.x)


def test_trimmed_layers() -> None:
    batch = next(iter(batches()))
    hops = {
        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
        "num_sampled_edges_per_hop": batch.num_sampled_edges,
    }
    torch.manual_seed(0)
    model = GraphSAGE(6, 8, 2, 4)
    expected = model(batch.x, batch.edge_index, **hops)
    torch.testing.assert_close(accelerate(model)(batch.x, batch.edge_index, **hops), expected)


@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT, GIN])
def test_bfloat16(kind: type[BasicGNN]) -> None:
    torch.manual_seed(0)
    theirs = kind(6, 32, 2, 4)
    ours = accelerate(copy.deepcopy(theirs), "bfloat16")
    for x, edges in ((X, EDGES), ((batch := next(iter(batches()))).x, batch.edge_index)):
        outs = []
        for model in (ours, theirs):
            model.zero_grad()
            outs.append(model(x, edges)[:40])
            outs[-1].square().mean().backward()
        assert outs[0].dtype is torch.float32
        assert 0 < float((outs[0] - outs[1]).detach().abs().max()) < 0.05 * float(outs[1].detach().abs().max())
        assert {one.dtype for one in ours.parameters()} == {torch.float32}
        mine, exact = (torch.cat([one.grad.flatten() for one in model.parameters()]) for model in (ours, theirs))
        assert 0 < float((mine - exact).norm()) < 0.1 * float(exact.norm())
    accelerate(ours)
    torch.testing.assert_close(ours(X, EDGES), theirs(X, EDGES))


def test_an_exception_in_bfloat16_ends_autocast() -> None:
    model = accelerate(made(GraphSAGE, {}), "bfloat16")
    with pytest.raises(RuntimeError):
        model(X[:, :2], EDGES)
    assert not torch.is_autocast_enabled("cpu")


def test_lazy_widths() -> None:
    model = nn.ModuleList([SAGEConv(-1, 4), SAGEConv((-1, -1), 4)])
    accelerate(model)
    for conv in model:
        first = conv(X, EDGES)
        assert first.shape == (50, 4)
        assert conv.refused is not None
        torch.testing.assert_close(conv(X, EDGES), first)
        assert conv.refused is None


@pytest.mark.parametrize("place", ["whole", "mini-batch"])
def test_reversible_layers_free_and_rebuild_their_inputs_as_in_pyg(place: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.leave = nn.Linear(6, 16), nn.Linear(16, 3)
            self.layers = nn.ModuleList(GroupAddRev(SAGEConv(8, 8), num_groups=2) for _ in range(3))

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            x = self.enter(x)
            for layer in self.layers:
                x = layer(x, edge_index)
            return self.leave(x)

    torch.manual_seed(0)
    theirs = Net().double()
    ours = accelerate(copy.deepcopy(theirs))
    batch = next(iter(batches()))
    x, edges = (X, EDGES) if place == "whole" else (batch.x, batch.edge_index)
    for model in (ours, theirs):
        model(x.double(), edges)[:30].square().sum().backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
