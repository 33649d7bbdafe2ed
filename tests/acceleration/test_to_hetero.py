"""Accelerated programs of `to_hetero` beside PyG's: values, gradients, mini-batches, and what isn't joined."""

from __future__ import annotations

import copy
import operator
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GATConv, GraphConv, GraphSAGE, SAGEConv, to_hetero

from a3gnn import Loader, accelerate
from a3gnn.acceleration.accelerate import layers
from a3gnn.acceleration.lazy_rows import LazyRows
from tests.acceleration.graphs import assert_same, weights_of

COUNTS = {"paper": 40, "author": 25, "term": 9, "lonely": 3}
KINDS = {
    ("author", "writes", "paper"): 90,
    ("paper", "rev_writes", "author"): 90,
    ("paper", "cites", "paper"): 70,
    ("term", "in", "paper"): 50,
    ("paper", "has", "term"): 60,
    ("author", "empty", "paper"): 0,
    ("paper", "to", "lonely"): 5,
}
METADATA = (list(COUNTS), list(KINDS))


class Net(nn.Module):
    """Two convolutions with a function between them, a linear map, and a residual sum."""

    def __init__(self, conv: Callable[[int, int], nn.Module], width: int = 6) -> None:
        super().__init__()
        self.convs = nn.ModuleList([conv(width, 8), conv(8, 8)])
        self.drop, self.lin = nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Returns the outputs of the nodes."""
        x = self.drop(self.convs[0](x, edge_index).relu())
        x = torch.add(x, self.convs[1](x, edge_index))
        return self.lin(x)


def edges_of(seed: int = 0, counts: dict[str, int] = COUNTS) -> dict[Any, Tensor]:
    draw, found = torch.Generator().manual_seed(seed), {}
    for (source, name, target), edges in KINDS.items():
        ends = [torch.randint(counts[kind] - 1, (edges,), generator=draw) for kind in (source, target)]
        found[source, name, target] = torch.stack(ends)
    return found


def rows_of(width: int = 6, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return {kind: torch.randn(count, width, generator=draw).to(dtype) for kind, count in COUNTS.items()}


def program(conv: Any, aggr: str = "sum", dtype: torch.dtype = torch.float32) -> fx.GraphModule:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = to_hetero(Net(conv), METADATA, aggr).to(dtype)
    for node in made.graph.nodes:
        node.type = None  # torch can't pickle annotations that are strings
    made.recompile()
    return made


def sage(source: int, out: int, **options: Any) -> nn.Module:
    return SAGEConv((source, source), out, **options)


def graph_conv(source: int, out: int, **options: Any) -> nn.Module:
    return GraphConv((source, source), out, **options)


def results(model: nn.Module, x: dict[str, Tensor], edges: dict[Any, Tensor]) -> list[Any]:
    """Returns outputs and all gradients."""
    model.zero_grad()
    leaves = {kind: rows.clone().requires_grad_() for kind, rows in x.items()}
    torch.manual_seed(3)
    outs = model(leaves, edges)
    sum((out * weights_of(out)).sum() for out in outs.values()).backward()
    return [*outs.values(), *(one.grad for one in leaves.values()), *(one.grad for one in model.parameters())]


def reasons(model: nn.Module) -> dict[str, str | None]:
    return {one.name: one.reason for one in layers(model) if one.layer == "ModuleDict"}


def compare(model: fx.GraphModule, x: dict[str, Tensor], edges: dict[Any, Tensor], dtype: torch.dtype) -> nn.Module:
    ours = accelerate(copy.deepcopy(model))
    for found, expected in zip(results(ours, x, edges), results(model, x, edges), strict=True):
        assert_same(found, expected, dtype)
    return ours


CONVS = {
    **{f"SAGEConv {aggr}": lambda s, t, aggr=aggr: sage(s, t, aggr=aggr) for aggr in ("mean", "sum", "max")},
    "SAGEConv without own rows": lambda s, t: sage(s, t, root_weight=False, bias=False),
    **{f"GraphConv {aggr}": lambda s, t, aggr=aggr: graph_conv(s, t, aggr=aggr) for aggr in ("add", "max")},
}


@pytest.mark.parametrize("name", CONVS)
@pytest.mark.parametrize("aggr", ["sum", "mean"])
def test_values_and_gradients_are_pygs(name: str, aggr: str) -> None:
    for dtype in (torch.float32, torch.float64):
        model = program(CONVS[name], aggr, dtype).eval()
        ours = compare(model, rows_of(dtype=dtype), edges_of(), dtype)
        assert reasons(ours) == {"convs.0": None, "convs.1": None}
        calls = [node.target for node in ours.graph.nodes if node.op == "call_module" and "convs" in node.target]
        assert calls == ["convs.0"] * 4 + ["convs.1"] * 4


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_equal_pygs(seed: int) -> None:
    torch.manual_seed(seed)
    model = program(sage, ["sum", "mean"][seed % 2]).eval()
    for part in model.convs:
        for name in list(part)[:: 2 + seed % 3]:
            part[name] = GATConv((part[name].in_channels[0],) * 2, 8, add_self_loops=False) if seed % 2 else part[name]
    compare(model, rows_of(), edges_of(seed), torch.float32)


def test_second_derivatives_are_pygs() -> None:
    def penalty(model: nn.Module) -> list[Tensor]:
        x = {kind: rows.requires_grad_() for kind, rows in rows_of(dtype=torch.float64).items()}
        outs = model({kind: rows.sin() for kind, rows in x.items()}, edges_of())
        loss = sum(out.square().sum() for out in outs.values())
        inputs = [*x.values(), *model.parameters()]
        grads = torch.autograd.grad(loss, inputs, create_graph=True, allow_unused=True)
        sum(one.square().sum() for one in grads if one is not None).backward()
        return [one.grad for one in inputs]

    model = program(sage, dtype=torch.float64).eval()
    ours = accelerate(copy.deepcopy(model))
    for found, expected in zip(penalty(ours), penalty(model), strict=True):
        assert_same(found, expected, torch.float64)
    assert reasons(ours) == {"convs.0": None, "convs.1": None}


@pytest.mark.parametrize("kind", ["deepcopy", "pickle", "twice"])
def test_names_and_copies_are_pygs(kind: str) -> None:
    model = program(sage).eval()
    ours = accelerate(copy.deepcopy(model))
    other = {
        "deepcopy": copy.deepcopy,
        "pickle": lambda one: pickle.loads(pickle.dumps(one)),
        "twice": accelerate,
    }[kind](ours)
    assert [name for name, _ in other.named_modules()] == [name for name, _ in model.named_modules()]
    assert list(other.state_dict()) == list(model.state_dict())
    assert repr(other.convs) == repr(model.convs)
    assert other.load_state_dict(model.state_dict())
    for found, expected in zip(
        results(other, rows_of(), edges_of()), results(model, rows_of(), edges_of()), strict=True
    ):
        assert_same(found, expected, torch.float32)
    assert reasons(other) == {"convs.0": None, "convs.1": None}


def test_hooks_run_and_exchanged_convolutions_count() -> None:
    model, seen = program(sage).eval(), []
    ours = accelerate(copy.deepcopy(model))
    ours.convs[0]["author__writes__paper"].register_forward_hook(lambda *_: seen.append("hook"))
    torch.manual_seed(7)
    model.convs[1]["term__in__paper"] = ours.convs[1]["term__in__paper"] = SAGEConv((8, 8), 8)
    for found, expected in zip(
        results(ours, rows_of(), edges_of()), results(model, rows_of(), edges_of()), strict=True
    ):
        assert_same(found, expected, torch.float32)
    assert seen == ["hook"]
    assert reasons(ours) == {
        "convs.0": "author__writes__paper: hooks, torch.compile or other arguments",
        "convs.1": "term__in__paper: SAGEConv is not joined",
    }


def test_training_and_evaluation_modes_stay() -> None:
    ours = accelerate(program(sage))
    x, edges = rows_of(), edges_of()
    assert not torch.equal(ours(x, edges)["paper"], ours(x, edges)["paper"])
    ours.eval()
    assert torch.equal(ours(x, edges)["paper"], ours(x, edges)["paper"])


def test_lazy_layers_take_their_first_call_as_pygs() -> None:
    model = program(lambda _, out: SAGEConv((-1, -1), out)).eval()
    ours = accelerate(copy.deepcopy(model))
    widths = {"paper": 6, "author": 4, "term": 5, "lonely": 2}
    x = {kind: torch.randn(count, widths[kind]) for kind, count in COUNTS.items()}
    first = ours(x, edges_of())
    assert "lin_l has hooks" in (reasons(ours)["convs.0"] or "")
    for kind, rows in ours(x, edges_of()).items():
        assert_same(rows, first[kind], torch.float32)
    assert reasons(ours) == {"convs.0": None, "convs.1": None}


def test_missing_types_raise_pygs_error() -> None:
    model = program(sage)
    x = {kind: rows for kind, rows in rows_of().items() if kind != "term"}
    for one in (model, accelerate(copy.deepcopy(model))):
        with pytest.raises((AttributeError, TypeError, ValueError)):
            one(x, edges_of())


@pytest.mark.parametrize("aggr", ["max", "min", "mul"])
def test_other_aggregations_run_one_by_one(aggr: str) -> None:
    ours = compare(program(sage, aggr).eval(), rows_of(), edges_of(), torch.float32)
    assert set(reasons(ours).values()) == {"no sum of two or more relations"}
    assert {one.reason for one in layers(ours) if one.layer == "SAGEConv"} == {None}


class Again(nn.Module):
    """A convolution that is called again, with other rows, and after a change in place."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change, self.first, self.conv = change, nn.Linear(6, 8), SAGEConv((8, 8), 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Returns the sum of two outputs."""
        x = self.first(x)
        out = self.conv(x, edge_index)
        if self.change == "in place":
            x = x.mul_(2)
        if self.change == "own rows":
            return torch.add(out, x)
        if self.change == "operator":
            return operator.add(out, self.conv(x, edge_index))
        if self.change == "keywords":
            return self.conv(x=out, edge_index=edge_index)
        return torch.add(out, self.conv(x, edge_index))


@pytest.mark.parametrize("change", ["same", "in place", "own rows", "operator", "keywords"])
def test_other_sums_and_repeated_calls_are_pygs(change: str) -> None:
    torch.manual_seed(0)
    model = to_hetero(Again(change), METADATA)
    ours = accelerate(copy.deepcopy(model))
    with torch.no_grad():
        expected, found = model(rows_of(), edges_of()), ours(rows_of(), edges_of())
    for kind in expected:
        assert_same(found[kind], expected[kind], torch.float32)
    repeats = change in ("same", "in place", "operator", "keywords")
    assert reasons(ours) == {"conv": "a relation is called more than once" if repeats else None}


def test_weights_of_edges_run_one_by_one() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GraphConv((6, 6), 4)

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            return self.conv(x, edge_index, edge_weight)

    model, edges = to_hetero(Weighted(), METADATA), edges_of()
    ours, weights = accelerate(copy.deepcopy(model)), {one: torch.rand(index.shape[1]) for one, index in edges.items()}
    expected, found = model(rows_of(), edges, weights), ours(rows_of(), edges, weights)
    for kind in expected:
        assert_same(found[kind], expected[kind], torch.float32)
    assert reasons(ours) == {"conv": "arguments other than x and edge_index"}


def test_attention_runs_one_by_one() -> None:
    model = program(lambda source, out: GATConv((source, source), out, add_self_loops=False)).eval()
    ours = compare(model, rows_of(), edges_of(), torch.float32)
    assert set(reasons(ours).values()) == {"GATConv is not joined"}


def test_mini_batches_equal_pygs_and_compute_the_rows_that_are_read() -> None:
    data = HeteroData()
    for kind, rows in rows_of().items():
        data[kind].x = rows
    for one, index in edges_of().items():
        data[one].edge_index = index
    torch.manual_seed(0)
    model = to_hetero(GraphSAGE((-1, -1), 8, 2, 3), data.metadata())
    model(data.x_dict, data.edge_index_dict)
    model = model.eval()
    ours = accelerate(copy.deepcopy(model))
    for batch in Loader(data, [3, 2], "paper", batch_size=6):
        found, expected = [], []
        for one, outs in ((ours, found), (model, expected)):
            one.zero_grad()
            x = {kind: rows.clone().requires_grad_() for kind, rows in batch.x_dict.items()}
            out = one(x, batch.edge_index_dict)["paper"]
            assert one is model or isinstance(out, LazyRows)
            out = out[: batch["paper"].batch_size]
            (out * weights_of(out)).sum().backward()
            outs += [out, *(rows.grad for rows in x.values()), *(weight.grad for weight in one.parameters())]
        for mine, theirs in zip(found, expected, strict=True):
            assert_same(mine, theirs, torch.float32)
    assert set(reasons(ours).values()) == {None}


def test_a_compiled_program_is_left_alone() -> None:
    model = program(sage).eval()
    model.compile(backend="eager")
    before = model.code
    assert accelerate(model).code == before
    assert not reasons(model)
