"""`HeteroConv` with joined relations beside PyG's: values, gradients, mini-batches, and calls that PyG's code runs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils.parametrize import register_parametrization
from torch.utils.checkpoint import checkpoint
from torch_geometric import EdgeIndex
from torch_geometric.data import HeteroData
from torch_geometric.nn import (
    FastRGCNConv,
    GATConv,
    GraphConv,
    HANConv,
    HeteroConv,
    HeteroDictLinear,
    HGTConv,
    RGCNConv,
    SAGEConv,
    SumAggregation,
)
from torch_geometric.utils import to_torch_csr_tensor, trim_to_layer

from a3gnn import Loader, accelerate
from a3gnn.acceleration.accelerate import layers
from a3gnn.acceleration.hetero import HeteroConv as Joined
from a3gnn.acceleration.lazy_rows import LazyRows
from a3gnn.pipeline.known_edges import known_edges
from tests.acceleration.graphs import TOLERANCE, assert_same, weights_of

COUNTS = {"paper": 40, "author": 25, "term": 9, "lonely": 0}
RELATIONS = {
    ("author", "writes", "paper"): 90,
    ("paper", "rev_writes", "author"): 90,
    ("paper", "cites", "paper"): 70,
    ("term", "in", "paper"): 50,
    ("paper", "has", "term"): 60,
    ("author", "empty", "paper"): 0,
    ("lonely", "none", "author"): 0,
    ("paper", "none", "lonely"): 0,
}
CITES = ("paper", "cites", "paper")
WIDTHS = dict.fromkeys(COUNTS, 6)
OTHER_WIDTHS = {"paper": 6, "author": 4, "term": 6, "lonely": 3}


def edges_of(counts: dict[str, int] = COUNTS, seed: int = 0, sort: bool = False) -> dict[Any, Tensor]:
    """Returns unsorted edges with repeats; the last nodes of each type have none."""
    draw, found = torch.Generator().manual_seed(seed), {}
    for (source, name, target), edges in RELATIONS.items():
        ends = [torch.randint(max(counts[kind] - 2, 1), (edges,), generator=draw) for kind in (source, target)]
        index = torch.stack(ends)
        found[source, name, target] = index[:, index[1].argsort(stable=True)] if sort else index
    return found


def rows_of(widths: dict[str, int] = WIDTHS, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return {kind: torch.randn(COUNTS[kind], width, generator=draw).to(dtype) for kind, width in widths.items()}


def made(conv: Callable[[Any, int, int], nn.Module], widths: dict[str, int] = WIDTHS, aggr: Any = "sum") -> HeteroConv:
    """Returns a layer; `conv` takes the relation and the widths of its sources and targets."""
    torch.manual_seed(0)
    return HeteroConv({one: conv(one, widths[one[0]], widths[one[2]]) for one in RELATIONS}, aggr)


def sage(*_: Any, **options: Any) -> Callable[[Any, int, int], nn.Module]:
    return lambda relation, source, target: SAGEConv((source, target), 5, **options)


def graph_conv(**options: Any) -> Callable[[Any, int, int], nn.Module]:
    return lambda relation, source, target: GraphConv((source, target), 5, **options)


def run(layer: nn.Module, x: dict[Any, Any], edges: dict[Any, Any], needed: Any = None) -> tuple[Any, ...]:
    """Returns the outputs, and the gradients by the rows of the types in `needed`, or all, and by the parameters."""
    layer.zero_grad()
    leaves = {
        kind: rows.detach().clone().requires_grad_(needed is None or kind in needed)
        if isinstance(rows, Tensor)
        else tuple(one.detach().clone().requires_grad_() for one in rows)
        for kind, rows in x.items()
    }
    outs = layer(leaves, edges)
    loss = sum((out * weights_of(out)).sum() for out in outs.values())
    loss.backward()
    flat = [one for rows in leaves.values() for one in (rows if isinstance(rows, tuple) else (rows,))]
    return outs, [one.grad for one in flat], [one.grad for one in layer.parameters()]


def compare(
    layer: HeteroConv, x: dict[Any, Any], edges: dict[Any, Any], reason: str | None = None, needed: Any = None
) -> nn.Module:
    """Checks that the accelerated layer equals `layer`, and whether its relations were joined."""
    ours, dtype = accelerate(copy.deepcopy(layer)), next(layer.parameters()).dtype
    expected, found = run(layer, x, edges, needed), run(ours, x, edges, needed)
    assert list(found[0]) == list(expected[0])
    for kind in found[0]:
        assert found[0][kind].shape == expected[0][kind].shape
        assert_same(found[0][kind], expected[0][kind], dtype)
    for mine, theirs in zip(found[1] + found[2], expected[1] + expected[2], strict=True):
        assert (mine is None) == (theirs is None)
        assert_same(mine, theirs, dtype)
    assert isinstance(ours, Joined)
    assert ours.refused == reason
    return ours


CONVS = {
    **{f"SAGEConv {aggr}": sage(aggr=aggr) for aggr in ("mean", "sum", "add", "max")},
    "SAGEConv without own rows": sage(root_weight=False),
    "SAGEConv without bias": sage(bias=False),
    **{f"GraphConv {aggr}": graph_conv(aggr=aggr) for aggr in ("add", "mean", "max")},
    "both": lambda one, source, target: (SAGEConv if "n" in one[1] else GraphConv)((source, target), 5),
    "own rows in some": lambda one, source, target: SAGEConv((source, target), 5, root_weight="e" in one[1]),
    "bias in some": lambda one, source, target: SAGEConv((source, target), 5, bias="e" in one[1]),
}


@pytest.mark.parametrize("name", CONVS)
@pytest.mark.parametrize("aggr", ["sum", "mean"])
@pytest.mark.parametrize("widths", [WIDTHS, OTHER_WIDTHS], ids=["equal widths", "other widths"])
def test_values_and_gradients_are_pygs(name: str, aggr: str, widths: dict[str, int]) -> None:
    for dtype in TOLERANCE:
        layer = made(CONVS[name], widths, aggr).to(dtype)
        for sort in (False, True):
            compare(layer, rows_of(widths, dtype), edges_of(sort=sort))
        integers = {one: edges.int() for one, edges in edges_of().items()}
        # torch's gradient of scatter_add is wrong for indices of int32
        expected, found = layer(rows_of(widths, dtype), edges_of()), accelerate(layer)(rows_of(widths, dtype), integers)
        for kind in expected:
            assert_same(found[kind], expected[kind], dtype)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_equal_pygs(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    kept = [one for one in RELATIONS if torch.rand((), generator=draw) < 0.8]
    edges = {one: index for one, index in edges_of(seed=seed).items() if one in kept}
    torch.manual_seed(seed)
    choices = [SAGEConv((6, 6), 5), SAGEConv((6, 6), 5, aggr="max"), GraphConv((6, 6), 5), GATConv((6, 6), 5)]
    choices[3].add_self_loops = False
    picks = torch.randint(4, (len(RELATIONS),), generator=draw).tolist()
    layer = HeteroConv({one: copy.deepcopy(choices[pick]) for one, pick in zip(RELATIONS, picks, strict=True)}, "mean")
    layer.convs.load_state_dict({name: torch.randn_like(one) for name, one in layer.convs.state_dict().items()})
    found, expected = run(accelerate(copy.deepcopy(layer)), rows_of(), edges), run(layer, rows_of(), edges)
    for kind in expected[0]:
        assert_same(found[0][kind], expected[0][kind], torch.float32)
    for mine, theirs in zip(found[1] + found[2], expected[1] + expected[2], strict=True):
        assert_same(mine, theirs, torch.float32)


def test_features_of_mostly_zeros_and_wide_ones_equal_pygs() -> None:
    torch.manual_seed(0)
    x = {"paper": torch.zeros(1100, 1000), "author": torch.randn(300, 4), "term": torch.randn(200, 900)}
    x["paper"][torch.randint(1100, (4000,)), torch.randint(1000, (4000,))] = 1.0
    ends = {"paper": 1100, "author": 300, "term": 200}
    kinds = [
        ("author", "writes", "paper"),
        ("term", "in", "paper"),
        ("paper", "has", "term"),
        ("author", "likes", "term"),
    ]
    edges = {one: torch.stack([torch.randint(ends[kind], (2000,)) for kind in one[::2]]) for one in kinds}
    with pytest.warns(UserWarning, match="do not get updated"):
        layer = HeteroConv({one: SAGEConv((x[one[0]].shape[1], x[one[2]].shape[1]), 5) for one in kinds})
    ours = compare(layer, x, edges, "paper__has__term: x of mostly zeros", needed=("author", "term"))
    assert ours.convs["paper", "has", "term"].refused is None


def test_each_relation_is_mapped_before_or_after_its_sum() -> None:
    many, few = torch.randn(500, 6), torch.randn(20, 6)
    kinds = [("many", "to", "few"), ("few", "to", "many"), ("few", "again", "many"), ("many", "in", "many")]
    ends = {"many": 500, "few": 20}
    edges = {one: torch.stack([torch.randint(ends[kind], (900,)) for kind in one[::2]]) for one in kinds}
    for aggr in ("mean", "sum", "max"):
        layer = HeteroConv({one: SAGEConv((6, 6), 6, aggr=aggr) for one in kinds})
        ours = compare(layer, {"many": many, "few": few}, edges)
        ours({"many": many, "few": few}, edges)
        derived = [item for one in edges.values() for item in known_edges(one).derived.items()]
        plans = [found[1] for key, found in derived if key[0] == aggr]
        orders = {place for plan in plans for place in plan.places}
        assert orders == ({-1} if aggr == "max" else {-1, 0})


def test_gradients_by_some_types_only() -> None:
    compare(made(sage()), rows_of(), edges_of(), needed=("author",))
    frozen = made(sage())
    for one in list(frozen.convs.parameters())[::2]:
        one.requires_grad_(False)
    compare(frozen, rows_of(), edges_of())


@pytest.mark.parametrize("conv", [sage(), graph_conv(aggr="max")], ids=["sum", "max"])
def test_second_derivatives_are_pygs(conv: Any) -> None:
    def penalty(layer: nn.Module) -> list[Tensor]:
        x = {kind: rows.requires_grad_() for kind, rows in rows_of(dtype=torch.float64).items()}
        outs = layer({kind: rows.sin() for kind, rows in x.items()}, edges_of())
        inputs = [x["paper"], x["author"], *layer.parameters()]
        loss = sum(out.square().sum() for out in outs.values())
        grads = torch.autograd.grad(loss, inputs, create_graph=True)
        sum(one.square().sum() for one in grads).backward()
        return [x["paper"].grad, x["author"].grad, x["term"].grad, *(one.grad for one in layer.parameters())]

    layer = made(conv).double()
    ours = accelerate(copy.deepcopy(layer))
    for found, expected in zip(penalty(ours), penalty(layer), strict=True):
        assert_same(found, expected, torch.float64)
    assert ours.refused is None


def without(values: dict[Any, Any], *keys: Any) -> dict[Any, Any]:
    return {key: value for key, value in values.items() if key not in keys}


@pytest.mark.parametrize(
    ("x", "edges"),
    [
        (rows_of(), without(edges_of(), ("author", "writes", "paper"), ("paper", "has", "term"))),
        (without(rows_of(), "lonely"), without(edges_of(), ("lonely", "none", "author"), ("paper", "none", "lonely"))),
        (
            {**rows_of(), "unknown": torch.ones(2, 3)},
            {**edges_of(), ("unknown", "to", "paper"): edges_of()[("term", "in", "paper")]},
        ),
        (rows_of(), {one: index[:, :0] for one, index in edges_of().items()}),
        (rows_of(), {one: edges_of()[one] for one in [("author", "writes", "paper"), ("term", "in", "paper")]}),
    ],
    ids=["missing relations", "missing type", "unknown keys", "no edges", "two relations"],
)
def test_relations_and_types_may_be_missing(x: dict[str, Tensor], edges: dict[Any, Tensor]) -> None:
    compare(made(sage()), x, edges)


def test_rows_may_be_pairs_and_keyed_by_relation() -> None:
    x, edges = rows_of(), edges_of()
    pair = (torch.randn(40, 6), torch.randn(40, 6))
    reason = "paper__cites__paper: other targets or columns than those of another relation into the type"
    compare(made(sage()), {**x, CITES: pair}, edges, reason)
    back = ("paper", "back", "paper")
    layer = HeteroConv({CITES: SAGEConv((6, 6), 5), back: SAGEConv((6, 6), 5)})
    compare(layer, {"paper": pair}, {CITES: edges[CITES], back: edges[CITES].flip(0)})


def test_sources_may_change_before_the_backward_pass_as_in_pygs() -> None:
    kinds = [("author", "writes", "paper"), ("term", "in", "paper")]
    edges, grads = {one: edges_of()[one] for one in kinds}, []
    with pytest.warns(UserWarning, match="do not get updated"):
        layer = HeteroConv({one: SAGEConv((6, 6), 50, root_weight=False) for one in kinds})
    for one in (layer, accelerate(copy.deepcopy(layer))):
        leaves = {kind: rows.requires_grad_() for kind, rows in rows_of().items()}
        x = {kind: rows * 2 for kind, rows in leaves.items()}
        out = one(x, edges)["paper"]
        x["author"].mul_(3)
        out.square().sum().backward()
        grads.append([*(rows.grad for rows in leaves.values()), *(weight.grad for weight in one.parameters())])
    for found, expected in zip(grads[1], grads[0], strict=True):
        assert_same(found, expected, torch.float32)
    x = {kind: rows.requires_grad_() * 2 for kind, rows in rows_of().items()}
    out = accelerate(layer)(x, edges)["paper"].square().sum()
    x["author"].mul_(3)
    with pytest.raises(RuntimeError, match="changed in place"):
        torch.autograd.grad(out, list(layer.parameters()), create_graph=True)


def test_a_convolution_may_be_shared() -> None:
    conv = SAGEConv((6, 6), 5)
    layer = HeteroConv(dict.fromkeys(RELATIONS, conv))
    ours = compare(layer, rows_of(), edges_of())
    assert len({id(one) for one in ours.convs.values()}) == 1


def test_lazy_layers_take_their_first_call_as_pygs() -> None:
    ours = accelerate(made(lambda *_: SAGEConv((-1, -1), 5), OTHER_WIDTHS))
    x, edges = rows_of(OTHER_WIDTHS), edges_of()
    x.pop("lonely"), edges.pop(("lonely", "none", "author")), edges.pop(("paper", "none", "lonely"))
    first = ours(x, edges)
    assert "lin_l has hooks" in (ours.refused or "")
    second = ours(x, edges)
    assert ours.refused is None
    for kind in first:
        assert_same(second[kind], first[kind], torch.float32)


def doubled() -> type:
    class Doubled(SAGEConv):
        def message(self, x_j: Tensor) -> Tensor:
            return 2 * x_j

    return Doubled


@pytest.mark.parametrize(
    ("conv", "reason"),
    [
        (lambda s, t: SAGEConv((s, t), 5, normalize=True), "normalize or project"),
        (lambda s, t: SAGEConv((s, t), 5, project=True), "normalize or project"),
        (lambda s, t: GATConv((s, t), 5, add_self_loops=False), "GATConv is not joined"),
        (lambda s, t: SAGEConv((s, t), 5, aggr="min"), "aggr='min'"),
        (lambda s, t: SAGEConv((s, t), 5, flow="target_to_source"), "flow='target_to_source'"),
        (lambda s, t: doubled()((s, t), 5), "Doubled is not joined"),
    ],
    ids=["normalize", "project", "GATConv", "min", "flow", "subclass"],
)
def test_a_relation_that_is_not_joined_runs_alone(conv: Any, reason: str) -> None:
    layer = made(sage(), aggr="mean")
    layer.convs[CITES] = conv(6, 6)
    compare(layer, rows_of(), edges_of(), f"paper__cites__paper: {reason}")


@pytest.mark.parametrize("aggr", ["max", "min", "cat", None, "mul"])
def test_other_aggregations_of_relations_are_pygs(aggr: Any) -> None:
    layer = made(sage(), aggr=aggr)
    if aggr == "mul":
        for one in (layer, accelerate(copy.deepcopy(layer))):
            with pytest.raises(TypeError):
                one(rows_of(), edges_of())
        return
    ours = compare(layer, rows_of(), edges_of(), f"aggr={aggr!r}")
    assert layers(ours)[0].reason == f"aggr={aggr!r}"
    assert {one.reason for one in layers(ours)[1:]} == {None}


@pytest.mark.parametrize("form", ["csr", "EdgeIndex"])
def test_other_forms_of_edges_are_pygs(form: str) -> None:
    edges = edges_of()
    index = edges[CITES]
    index = index[:, index[1].argsort(stable=True)]
    if form == "csr":
        edges[CITES] = to_torch_csr_tensor(index.flip(0), size=(40, 40))  # adj_t
    else:
        edges[CITES] = EdgeIndex(index, sparse_size=(40, 40), sort_order="col")
    compare(made(sage()), rows_of(), edges, "paper__cites__paper: edge_index is no dense tensor on the CPU")


def test_more_arguments_are_pygs() -> None:
    layer, x, edges = made(graph_conv()), rows_of(), edges_of()
    weights = {one: torch.rand(index.shape[1]) for one, index in edges.items()}
    ours, expected = accelerate(copy.deepcopy(layer)), layer(x, edges, edge_weight_dict=weights)
    found = ours(x, edges, edge_weight_dict=weights)
    for kind in expected:
        assert_same(found[kind], expected[kind], torch.float32)
    assert ours.refused == "arguments other than x_dict and edge_index_dict"
    for found in (ours(x, edge_index_dict=edges), ours(x_dict=x, edge_index_dict=edges)):
        assert ours.refused is None
        for kind, rows in layer(x, edges).items():
            assert_same(found[kind], rows, torch.float32)
    with pytest.raises(ValueError, match="need to end with '_dict'"):
        ours(x, edge_index=edges)


def test_edges_out_of_range_raise_pygs_error() -> None:
    edges = edges_of()
    edges[CITES] = edges[CITES].clone()
    edges[CITES][0, 3] = 40
    with pytest.raises(IndexError):
        made(sage())(rows_of(), edges)
    with pytest.raises(IndexError):
        accelerate(made(sage()))(rows_of(), edges)


def test_outputs_of_different_widths_raise_pygs_error() -> None:
    layer = made(sage())
    layer.convs[CITES] = SAGEConv((6, 6), 1)
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        layer(rows_of(), edges_of())
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        accelerate(layer)(rows_of(), edges_of())


def test_hooks_of_convolutions_run() -> None:
    seen: list[str] = []
    ours = accelerate(made(sage()))
    conv = ours.convs["author", "writes", "paper"]
    conv.register_forward_hook(lambda *_: seen.append("forward"))
    ours.convs["term", "in", "paper"].lin_l.register_forward_hook(lambda *_: seen.append("lin_l"))
    ours.register_forward_hook(lambda *_: seen.append("layer"))
    expected = made(sage())(rows_of(), edges_of())
    for kind, rows in ours(rows_of(), edges_of()).items():
        assert_same(rows, expected[kind], torch.float32)
    assert sorted(seen) == ["forward", "layer", "lin_l"]


def assert_close_in_bfloat16(found: Tensor | None, expected: Tensor | None) -> None:
    if expected is None or found is None or not expected.numel():
        assert not any(one is not None and bool(one.any()) for one in (found, expected))
        return
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05 * max(1.0, float(expected.detach().abs().max())))


@pytest.mark.parametrize("name", CONVS)
@pytest.mark.parametrize("aggr", ["sum", "mean"])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16], ids=str)
def test_relations_are_joined_under_autocast(name: str, aggr: str, given: torch.dtype) -> None:
    layer = made(CONVS[name], OTHER_WIDTHS, aggr)
    ours, found = accelerate(copy.deepcopy(layer)), []
    for one in (layer, ours):
        leaves = {kind: rows.to(given).requires_grad_() for kind, rows in rows_of(OTHER_WIDTHS).items()}
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outs = one(leaves, edges_of())
        sum((out.float() * weights_of(out)).sum() for out in outs.values()).backward()
        grads = [*(rows.grad for rows in leaves.values()), *(weight.grad for weight in one.parameters())]
        found.append([*outs.values(), *(one for one in grads if one is not None and one.numel())])
    for mine, theirs in zip(*reversed(found), strict=True):
        assert mine.dtype is theirs.dtype
        assert_close_in_bfloat16(mine, theirs)
    assert ours.refused is None


def test_other_autocast_runs_one_relation_after_another() -> None:
    layer = made(sage())
    ours = accelerate(copy.deepcopy(layer))
    with torch.autocast("cpu", dtype=torch.float16):
        found, expected = ours(rows_of(), edges_of()), layer(rows_of(), edges_of())
    assert ours.refused == "autocast to torch.float16"
    for kind in expected:
        assert found[kind].dtype is expected[kind].dtype
        torch.testing.assert_close(found[kind], expected[kind], rtol=0.05, atol=0.1)


def test_names_prints_copies_and_pickles_are_pygs() -> None:
    layer = made(sage())
    names, state = [name for name, _ in layer.named_modules()], list(layer.state_dict())
    ours = accelerate(made(sage()))
    assert repr(ours) == repr(layer)
    assert [name for name, _ in ours.named_modules()] == names
    assert list(ours.state_dict()) == state
    layer.load_state_dict(ours.state_dict())
    expected = ours(rows_of(), edges_of())
    for other in (copy.deepcopy(ours), copy.copy(ours), pickle.loads(pickle.dumps(ours))):
        found = other(rows_of(), edges_of())
        assert isinstance(other, HeteroConv)
        assert {one.reason for one in layers(other)} == {None}
        assert all(torch.equal(found[kind], expected[kind]) for kind in expected)


def _of_sums(conv: Any) -> None:
    conv.aggr, conv.aggr_module = "add", SumAggregation()


#: Each with the result that relations are still joined, or not.
CHANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "normalized": (lambda conv: setattr(conv, "normalize", True), False),
    "sums": (_of_sums, True),
    "another message": (lambda conv: setattr(conv, "message", lambda x_j: 2 * x_j), False),
    "another map": (lambda conv: setattr(conv, "lin_l", nn.Linear(6, 5)), True),
    "other weights": (lambda conv: setattr(conv.lin_l, "weight", nn.Parameter(torch.randn(5, 6))), True),
    "a parametrization": (lambda conv: register_parametrization(conv.lin_l, "weight", nn.Tanh()), False),
    "a hook of the map": (lambda conv: conv.lin_r.register_forward_hook(lambda *args: 2 * args[2]), False),
    "a hook": (lambda conv: conv.register_forward_hook(lambda *args: 2 * args[2]), False),
    "other hooks": (lambda conv: setattr(conv, "_forward_hooks", {0: lambda *args: 2 * args[2]}), False),
    "a hook of messages": (lambda conv: conv.register_message_forward_hook(lambda *args: 2 * args[2]), False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_convolution_between_calls_are_seen(name: str) -> None:
    (change, joined), layer = CHANGES[name], made(sage())
    ours = accelerate(copy.deepcopy(layer))
    for _ in range(2):
        before = ours(rows_of(), edges_of())
    assert ours.refused is None
    for one in (layer, ours):
        torch.manual_seed(9)
        change(one.convs[CITES])
    found, expected = run(ours, rows_of(), edges_of()), run(layer, rows_of(), edges_of())
    assert not torch.equal(expected[0]["paper"], before["paper"])
    for kind in expected[0]:
        assert_same(found[0][kind], expected[0][kind], torch.float32)
    for mine, theirs in zip(found[2], expected[2], strict=True):
        assert_same(mine, theirs, torch.float32)
    assert (ours.refused is None) == joined


def test_global_hooks_of_modules_are_seen() -> None:
    ours, seen = accelerate(made(sage())), []
    ours(rows_of(), edges_of())
    handle = register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        ours(rows_of(), edges_of())
    finally:
        handle.remove()
    assert seen.count("Linear") == 2 * len(RELATIONS)


def test_convolutions_may_be_exchanged() -> None:
    ours = accelerate(made(sage()))
    ours(rows_of(), edges_of())
    layer = made(sage())
    torch.manual_seed(5)
    layer.convs[CITES] = ours.convs[CITES] = SAGEConv((6, 6), 5)
    found, expected = ours(rows_of(), edges_of()), layer(rows_of(), edges_of())
    for kind in expected:
        assert_same(found[kind], expected[kind], torch.float32)
    assert ours.refused == "paper__cites__paper: SAGEConv is not joined"


def test_changed_edges_are_seen() -> None:
    ours, layer, edges, x = accelerate(made(sage())), made(sage()), edges_of(), rows_of()
    ours(x, edges)
    for one in (("author", "writes", "paper"), ("term", "in", "paper")):
        edges[one][0, :5] = 0
        found, expected = ours(x, edges), layer(x, edges)
        assert_same(found["paper"], expected["paper"], torch.float32)
    edges[CITES] = edges_of(seed=3)[CITES]
    assert_same(ours(x, edges)["paper"], layer(x, edges)["paper"], torch.float32)


def test_threads_share_a_layer() -> None:
    ours, layer = accelerate(made(sage())), made(sage())
    graphs = [edges_of(seed=seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda edges: ours(rows_of(), edges)["paper"].detach(), graphs * 3))
    for rows, edges in zip(found, graphs * 3, strict=True):
        assert_same(rows, layer(rows_of(), edges)["paper"], torch.float32)


class Model(nn.Module):
    """Two layers, a linear map, and trimming if asked."""

    def __init__(self, kinds: Any, trims: bool = False, aggr: str = "sum") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trims = trims
        self.first = HeteroConv({one: SAGEConv((6, 6), 7) for one in kinds}, aggr)
        self.second = HeteroConv({one: SAGEConv((7, 7), 8, aggr="sum") for one in kinds}, aggr)
        self.last = nn.Linear(8, 3)

    def forward(self, batch: HeteroData) -> dict[str, Tensor]:
        """Returns the outputs of each type."""
        x, edges = batch.x_dict, batch.edge_index_dict
        nodes, sampled = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
        for number, layer in enumerate((self.first, self.second)):
            if self.trims:
                x, edges, _ = trim_to_layer(number, nodes, sampled, x, edges)
            x = {kind: rows.relu() for kind, rows in layer(x, edges).items()}
        return {kind: self.last(rows) for kind, rows in x.items()}


@pytest.fixture
def loader() -> Loader:
    data = HeteroData()
    for kind, rows in rows_of().items():
        data[kind].x = rows
    for one, index in edges_of().items():
        data[one].edge_index = index
    return Loader(data, [3, 2], "paper", batch_size=6)


def gradients(model: Model, batch: HeteroData, kinds: Any, rows: int | None) -> tuple[Any, ...]:
    """Returns the read outputs, and the gradients by rows and parameters."""
    model.zero_grad()
    for store in batch.node_stores:
        store.x = store.x.detach().clone().requires_grad_()
    outs = model(batch)
    read = [outs[kind][:rows] for kind in kinds]
    sum((one * weights_of(one)).sum() for one in read).backward()
    return read, [store.x.grad for store in batch.node_stores], [one.grad for one in model.parameters()]


@pytest.mark.parametrize("trims", [False, True])
@pytest.mark.parametrize("aggr", ["sum", "mean"])
@pytest.mark.parametrize("read", ["seeds", "all papers", "all types"])
def test_mini_batches_equal_pygs(loader: Loader, trims: bool, aggr: str, read: str) -> None:
    model = Model(loader.data.edge_types, trims, aggr)
    ours = accelerate(copy.deepcopy(model))
    for number, batch in enumerate(loader):
        rows = batch["paper"].batch_size if read == "seeds" else None
        kinds = ("paper", "author", "term") if read == "all types" else ("paper",)
        found, expected = gradients(ours, batch, kinds, rows), gradients(model, batch, kinds, rows)
        for mine, theirs in zip(found[0], expected[0], strict=True):
            assert_same(mine, theirs, torch.float32)
        for mine, theirs in zip(found[1] + found[2], expected[1] + expected[2], strict=True):
            assert (mine is None) == (theirs is None)
            assert_same(mine, theirs, torch.float32)
        assert {one.reason for one in layers(ours)} == {None}
        assert number < 20


def test_mini_batches_in_bfloat16_are_close_to_pygs(loader: Loader) -> None:
    class Seeds(Model):
        def forward(self, batch: HeteroData) -> Tensor:
            return super().forward(batch)["paper"][:6]

    model = Seeds(loader.data.edge_types)
    ours, batch = accelerate(copy.deepcopy(model), "bfloat16"), next(iter(loader))
    for one in (model, ours):
        out = one(batch)
        assert out.dtype is torch.float32
        out.square().sum().backward()
    for mine, theirs in zip(ours.parameters(), model.parameters(), strict=True):
        assert_close_in_bfloat16(mine.grad, theirs.grad)
    assert_close_in_bfloat16(ours(batch), model(batch))
    assert not torch.equal(ours(batch), model(batch))
    assert {one.reason for one in layers(ours)} == {None}
    assert_same(ours.eval()(batch), model.eval()(batch), torch.float32)


def test_a_mini_batch_computes_the_rows_that_are_read(loader: Loader) -> None:
    ours = accelerate(Model(loader.data.edge_types))
    batch = next(iter(loader))
    hidden = ours.first(batch.x_dict, batch.edge_index_dict)
    for kind, rows in hidden.items():
        assert isinstance(rows, LazyRows)
        assert len(rows.first) == sum(batch[kind].num_sampled_nodes[:2])
    outs = ours.second(hidden, batch.edge_index_dict)
    assert {kind: len(rows.first) for kind, rows in outs.items()} == {"paper": 6, "author": 0, "term": 0, "lonely": 0}
    assert all(rows.recipe is not None for kind, rows in hidden.items() if len(rows) > len(rows.first))


def test_rows_that_wait_have_the_values_of_the_call(loader: Loader) -> None:
    model = Model(loader.data.edge_types)
    ours = accelerate(copy.deepcopy(model))
    batch = next(iter(loader))
    expected, found = model(batch), ours(batch)
    with torch.no_grad():
        for one in ours.parameters():
            one.zero_()
    for index in batch.edge_index_dict.values():
        index.zero_()
    for kind in expected:
        assert_same(found[kind] + 0, expected[kind], torch.float32)
    batch = next(iter(loader))
    outs = accelerate(copy.deepcopy(model))(batch)
    batch["paper"].x.add_(1)
    with pytest.raises(RuntimeError, match="before its inputs or parameters are changed"):
        outs["paper"].sum()


def test_a_layer_whose_rows_are_all_read_computes_them_at_once(loader: Loader) -> None:
    ours = accelerate(Model(loader.data.edge_types))
    for _ in range(3):
        batch = next(iter(loader))
        outs = ours.first(batch.x_dict, batch.edge_index_dict)
        outs["paper"].sum()
    outs = ours.first(batch.x_dict, batch.edge_index_dict)
    assert len(outs["paper"].first) == batch["paper"].num_nodes
    assert len(outs["author"].first) < batch["author"].num_nodes


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluation_equals_pygs(loader: Loader, mode: Any) -> None:
    model = Model(loader.data.edge_types).eval()
    ours = accelerate(copy.deepcopy(model))
    with mode():
        for batch in loader:
            found, expected = ours(batch), model(batch)
            for kind in expected:
                assert_same(found[kind] + 0, expected[kind], torch.float32)
        edges, x = {one: index.clone() for one, index in edges_of().items()}, rows_of()
        for _ in range(2):
            assert_same(ours.first(x, edges)["paper"], model.first(x, edges)["paper"], torch.float32)
    assert {one.reason for one in layers(ours)} == {None}


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_has_pygs_gradients(loader: Loader, reentrant: bool) -> None:
    model = Model(loader.data.edge_types)
    ours, batch = accelerate(copy.deepcopy(model)), next(iter(loader))
    for one in (ours, model):
        x = {kind: rows.clone().requires_grad_() for kind, rows in batch.x_dict.items()}

        def layer(*rows: Tensor, one: Model = one) -> Tensor:
            return one.first(dict(zip(batch.x_dict, rows, strict=True)), batch.edge_index_dict)["paper"]

        checkpoint(layer, *x.values(), use_reentrant=reentrant)[:6].square().sum().backward()
    for mine, theirs in zip(ours.first.parameters(), model.first.parameters(), strict=True):
        assert_same(mine.grad, theirs.grad, torch.float32)


@pytest.mark.parametrize("name", CONVS)
def test_gradients_add_up_in_place_as_pygs(name: str) -> None:
    x, edges, layer = rows_of(), edges_of(), made(CONVS[name])
    grads = []
    for one in (layer, accelerate(copy.deepcopy(layer))):
        for part in range(3):
            out = one(x, edges)
            sum(out[kind].sum() * (place + part) for place, kind in enumerate(out)).backward()
            for weight in one.parameters():
                if weight.grad is not None:
                    weight.grad *= 0.5
        grads.append([weight.grad for weight in one.parameters()])
    for found, expected in zip(grads[1], grads[0], strict=True):
        assert_same(found, expected, torch.float32)


@pytest.mark.parametrize("conv", [sage(), graph_conv()])
@pytest.mark.parametrize("aggr", ["sum", "mean"])
def test_gradients_of_several_passes_add_up(conv: Any, aggr: str) -> None:
    layer = made(conv, aggr=aggr)
    ours, x, edges = accelerate(copy.deepcopy(layer)), rows_of(), edges_of()
    for one in (layer, ours):
        for _ in range(3):
            torch.stack([(out * weights_of(out)).sum() for out in one(x, edges).values()]).sum().backward()
    for mine, theirs in zip(ours.parameters(), layer.parameters(), strict=True):
        assert_same(mine.grad, theirs.grad, torch.float32)
    grads = [one.grad for one in ours.parameters() if one.grad is not None and one.grad.numel()]
    assert len({one.data_ptr() for one in grads}) == len(grads) > 0  # clipping in place changes each once


def test_a_mixture_with_attention_equals_pygs_and_says_which_run_alone() -> None:
    """Attention is within each relation, so its output is added to the joined one."""

    def conv(relation: Any, source: int, target: int) -> nn.Module:
        attends = relation[1] in ("writes", "has")
        return GATConv((source, target), 5, add_self_loops=False) if attends else SAGEConv((source, target), 5)

    for aggr in ("sum", "mean"):
        ours = compare(
            made(conv, OTHER_WIDTHS, aggr), rows_of(OTHER_WIDTHS), edges_of(), "paper__has__term: GATConv is not joined"
        )
        reasons = {one.name: one.reason for one in layers(ours)}
        assert reasons.pop("") == "paper__has__term: GATConv is not joined"
        assert set(reasons.values()) == {None}  # each runs natively


def test_only_attention_runs_one_by_one() -> None:
    layer = made(lambda _, source, target: GATConv((source, target), 5, add_self_loops=False))
    ours = compare(layer, rows_of(), edges_of(), "paper__none__lonely: GATConv is not joined")
    assert {one.reason for one in layers(ours)[1:]} == {None}


def heterogeneous_layers() -> dict[str, tuple[nn.Module, Any]]:
    """Returns PyG's other layers of relations, and their inputs."""
    kinds = {one: index for one, index in edges_of().items() if "lonely" not in one}
    x = {kind: rows for kind, rows in rows_of().items() if kind != "lonely"}
    metadata = (list(x), list(kinds))
    nodes, edge_index, edge_type = torch.randn(30, 6), torch.randint(30, (2, 90)), torch.randint(4, (90,))
    by_relation = nodes, edge_index, edge_type
    return {
        "HGTConv": (HGTConv(6, 8, metadata, heads=2), (x, kinds)),
        "RGCNConv": (RGCNConv(6, 5, 4, num_bases=2), by_relation),
        "FastRGCNConv": (FastRGCNConv(6, 5, 4), by_relation),
        "HANConv": (HANConv(6, 8, metadata, heads=2), (x, kinds)),
        "HeteroDictLinear": (HeteroDictLinear(6, 5, types=list(x)), (x,)),
    }


@pytest.mark.parametrize("name", ["HGTConv", "RGCNConv", "FastRGCNConv", "HANConv", "HeteroDictLinear"])
def test_other_layers_of_relations_run_pygs_code(name: str) -> None:
    torch.manual_seed(0)
    layer, given = heterogeneous_layers()[name]
    ours = accelerate(copy.deepcopy(layer))
    assert type(ours) is type(layer)
    found, expected = [], []
    for one, kept in ((ours, found), (layer, expected)):
        out = one(*given)
        outs = [one for one in out.values() if one is not None] if isinstance(out, dict) else [out]
        sum((rows * weights_of(rows)).sum() for rows in outs).backward()
        kept += [*outs, *(weight.grad for weight in one.parameters())]
    assert len(found) == len(expected) > 1
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or torch.equal(mine, theirs)
    reasons = {one.layer: one.reason for one in layers(ours)}
    assert name == "HeteroDictLinear" or reasons[name] == "no native form of this class"
