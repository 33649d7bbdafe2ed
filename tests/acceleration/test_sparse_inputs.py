"""Inputs of mostly zeros: found, kept and forgotten, and layers on them against PyG's."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GraphConv, GraphSAGE, SAGEConv, TransformerConv

from a3gnn import accelerate
from a3gnn.acceleration import sparse_inputs, twice
from a3gnn.acceleration.sparse_inputs import sparse_rows
from a3gnn.kernels.sparse import take_entries
from tests.acceleration.graphs import assert_same, batches, random_edges, weights_of


@pytest.fixture(autouse=True)
def small_ones_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices are looked at, too."""
    monkeypatch.setattr(sparse_inputs, "_LEAST_ENTRIES", 0)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of all sparse products."""
    seen = list[tuple[int, ...]]()
    product = twice.sparse_linear

    def counting(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        seen.append((*x.shape, len(weight)))
        return product(x, weight, bias)

    monkeypatch.setattr(twice, "sparse_linear", counting)
    return seen


def words(nodes: int, width: int = 200, share: float = 0.02, dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns rows of which a share of the entries are not 0."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(nodes, width, generator=generator, dtype=dtype)
    return x * (torch.rand(nodes, width, generator=generator) < share)


def test_the_rows_are_those_of_the_matrix() -> None:
    for dtype in (torch.float32, torch.float64):
        x = words(300, dtype=dtype)
        x[7] = 0
        x[8, 3], x[9, 4] = float("nan"), float("inf")
        rows = sparse_rows(x)
        assert rows is not None
        assert rows.dtype is dtype
        torch.testing.assert_close(rows.to_dense(), x, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "x",
    [
        words(300, share=0.2),
        words(300).to(torch.bfloat16),
        words(300).requires_grad_(),
        words(300).t(),
        torch.cat([torch.zeros(64, 1, 200), torch.ones(64, 1, 200)], dim=1).flatten(0, 1),
    ],
    ids=["dense", "bfloat16", "with a gradient", "by column", "dense between the sampled rows"],
)
def test_others_have_none(x: Tensor) -> None:
    assert sparse_rows(x) is None


def test_small_ones_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_inputs, "_LEAST_ENTRIES", 300 * 200 + 1)
    assert sparse_rows(words(300)) is None


def test_rows_are_found_once_per_tensor_and_forgotten_with_it() -> None:
    x = words(300)
    rows, count = sparse_rows(x), len(sparse_inputs._known)
    assert sparse_rows(x) is rows
    first = sparse_rows(x[:100])
    assert rows is not None
    assert first is not None
    assert first.values().data_ptr() == rows.values().data_ptr()
    assert torch.equal(first.to_dense(), x[:100])
    later = sparse_rows(x[100:])
    assert later is not None
    assert torch.equal(later.to_dense(), x[100:])
    x[0, 0] += 1
    changed = sparse_rows(x)
    assert changed is not None
    assert torch.equal(changed.to_dense(), x)
    del x
    gc.collect()
    assert len(sparse_inputs._known) == count - 1


def test_writes_that_torch_does_not_see_are_found_in_sampled_rows() -> None:
    x = words(300)
    assert sparse_rows(x) is not None
    x.numpy()[:] = words(600)[300:].numpy()
    rows = sparse_rows(x)
    assert rows is not None
    assert torch.equal(rows.to_dense(), x)
    x.numpy()[:] = 1
    assert sparse_rows(x) is None


def test_what_has_too_many_entries_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, read = torch.cat([torch.zeros(64, 1, 200), torch.ones(64, 1, 200)], dim=1).flatten(0, 1), list[Tensor]()
    entries = sparse_inputs._entries
    monkeypatch.setattr(sparse_inputs, "_entries", lambda one: (read.append(one), entries(one))[1])
    assert sparse_rows(x) is None
    assert sparse_rows(x[:50]) is None
    assert len(read) == 1


@pytest.mark.parametrize("width", [1, 31, 32, 64, 75])
def test_any_width_and_any_number_of_threads(width: int) -> None:
    x = words(20_000, width)
    rows = sparse_rows(x)
    assert rows is not None
    assert torch.equal(rows.to_dense(), x)


@pytest.mark.parametrize("more", [-1, 1])
def test_rows_that_change_after_they_were_counted_stay_in_their_places(more: int) -> None:
    x = words(50)
    rows = sparse_rows(x)
    assert rows is not None
    starts = rows.crow_indices().numpy()
    counted = np.concatenate([[0], np.cumsum(np.maximum(np.diff(starts) + more, 0))])
    indices, values = np.full(counted[-1] + 8, -7, dtype=np.int32), np.full(counted[-1] + 8, -7, dtype=np.float32)
    take_entries(x.numpy(), x.numpy().view("u4"), counted, indices, values, 0, len(x))
    assert (indices[: counted[-1]] >= 0).all()
    assert (indices[counted[-1] :] == -7).all()
    assert (values[counted[-1] :] == -7).all()


def test_inference_mode_has_no_versions() -> None:
    with torch.inference_mode():
        x = words(300)
        for _ in range(2):
            rows = sparse_rows(x)
            assert rows is not None
            assert torch.equal(rows.to_dense(), x)
            x[0, 0] += 1


CONVS = [
    (SAGEConv, {}),
    (SAGEConv, {"aggr": "max"}),
    (SAGEConv, {"project": True, "normalize": True}),
    (GCNConv, {}),
    (GraphConv, {}),
    (GATConv, {"heads": 2}),
    (GATConv, {"heads": 2, "residual": True, "add_self_loops": False}),
    (GATv2Conv, {"heads": 2}),
    (TransformerConv, {"heads": 2, "beta": True}),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kind", "options"), CONVS, ids=str)
def test_layers_equal_those_of_pyg(
    kind: Any, options: dict[str, Any], dtype: torch.dtype, products: list[tuple[int, ...]]
) -> None:
    edges, x = random_edges(300, 300, 1500), words(300, dtype=dtype)
    theirs = kind(200, 4, **options).to(dtype)
    ours = accelerate(copy.deepcopy(theirs))
    outs = [one(x, edges) for one in (theirs, ours)]
    for out in outs:
        (out * weights_of(out)).sum().backward()
    assert_same(outs[1], outs[0], dtype)
    for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_same(found.grad, expected.grad, dtype)
    assert products


def test_a_mini_batch_reads_sparse_rows(products: list[tuple[int, ...]]) -> None:
    theirs = GraphSAGE(200, 16, 2, 3)
    ours = accelerate(copy.deepcopy(theirs))
    for batch in batches(features=200):
        batch.x = words(batch.num_nodes)
        outs = [one(batch.x, batch.edge_index)[: batch.batch_size] for one in (theirs, ours)]
        assert_same(outs[1], outs[0], torch.float32)
        sources, targets = products[-2:]
        assert sources[0] == batch.num_nodes > targets[0]
        for out in outs:
            out.square().sum().backward()
        for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert_same(found.grad, expected.grad, torch.float32)


@pytest.mark.parametrize("kind", [SAGEConv, GraphConv, GATConv, TransformerConv])
def test_pairs_of_other_rows(kind: Any, products: list[tuple[int, ...]]) -> None:
    options = {"add_self_loops": False} if kind is GATConv else {}
    edges, theirs = random_edges(300, 120, 900), kind((200, 150), 4, **options)
    ours, x = accelerate(copy.deepcopy(theirs)), (words(300), words(120, 150))
    assert_same(ours(x, edges), theirs(x, edges), torch.float32)
    with torch.no_grad():
        assert_same(ours(x, edges), theirs(x, edges), torch.float32)
    assert {shape[1] for shape in products} == {200, 150}


def test_a_step_between_two_backward_passes_is_allowed_as_in_pyg(products: list[tuple[int, ...]]) -> None:
    edges, x = random_edges(300, 300, 1500), words(300)
    theirs = GCNConv(200, 4)
    ours = accelerate(copy.deepcopy(theirs))
    for conv in (theirs, ours):
        out = conv(x, edges)
        out.sum().backward(retain_graph=True)
        torch.optim.SGD(conv.parameters(), lr=0.1).step()
        conv.zero_grad()
        out.square().sum().backward()
    for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_same(found.grad, expected.grad, torch.float32)
    assert products


def test_few_columns_are_summed_before_they_are_mapped(products: list[tuple[int, ...]]) -> None:
    edges, x = random_edges(300, 300, 6000), words(300, 37)
    ours = accelerate(SAGEConv(37, 256, root_weight=False))
    ours(x, edges).sum().backward()
    assert products == []


def test_bfloat16_rounds_the_sums_alone(products: list[tuple[int, ...]]) -> None:
    edges, x = random_edges(300, 300, 1500), words(300)
    conv = SAGEConv(200, 16)
    ours = accelerate(copy.deepcopy(conv))
    exact = conv(x, edges)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = ours(x, edges)
    assert products
    assert rounded.dtype is torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=0.02, atol=0.02)
    for out in (exact, rounded):
        out.float().square().sum().backward()
    for found, expected in zip(ours.parameters(), conv.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=0.02, atol=0.02 * float(expected.grad.abs().max()))


def test_second_derivatives_by_the_weights(products: list[tuple[int, ...]]) -> None:
    edges, x = random_edges(60, 60, 200), words(60, 40, dtype=torch.float64)
    conv = accelerate(SAGEConv(40, 2).double())
    weights = dict(conv.named_parameters())

    def penalty(layer: nn.Module, given: dict[str, Tensor]) -> Tensor:
        out = layer(x, edges).sin().sum()
        return sum(one.square().sum() for one in torch.autograd.grad(out, [*given.values()], create_graph=True))  # type: ignore[return-value]

    plain = SAGEConv(40, 2).double()
    plain.load_state_dict(conv.state_dict())
    penalty(conv, weights).backward()
    penalty(plain, dict(plain.named_parameters())).backward()
    for found, expected in zip(conv.parameters(), plain.parameters(), strict=True):
        assert_same(found.grad, expected.grad, torch.float64)
    assert products
