"""`LazyRows`: rows that are read equal those of all rows, whatever a user does with them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, TransformerConv

from a3gnn import accelerate
from a3gnn.acceleration.lazy_rows import LazyRows, joined
from tests.acceleration.graphs import assert_same, batches, in_turns

BATCH = next(iter(batches()))
NODES, SEEDS = BATCH.num_nodes, BATCH.batch_size


def lazy(log: list[int] | None = None, width: int = 4, grad: bool = True) -> tuple[LazyRows, Tensor]:
    """Returns lazy rows of `x * 2`, 3 computed, and the leaf `x`; `log` gets the numbers of rows that are computed."""
    x = torch.linspace(-1, 1, 10 * width, dtype=torch.float64).view(10, width).requires_grad_(grad)

    def double(rows: Tensor) -> Tensor:
        if log is not None:
            log.append(len(rows))
        return rows * 2

    return joined(double(x[:3]), 10, lambda inputs, _: double(inputs[0]), [x]), x


class Net(nn.Module):
    """Two convolutions with `between` in between."""

    def __init__(self, kind: Any, between: Callable[..., Tensor]) -> None:
        super().__init__()
        self.first, self.second = kind(6, 8), kind(8, 3)
        self.between = between
        self.norm = nn.LayerNorm(8)
        self.batch_norm = nn.BatchNorm1d(8)
        self.lin = nn.Linear(8, 8)
        self.bias = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.second(self.between(self, self.first(x, edges), x), edges)


BETWEEN: dict[str, Callable[..., Tensor]] = {
    "relu": lambda net, h, x: h.relu(),
    "relu_": lambda net, h, x: h.relu_(),
    "F.relu": lambda net, h, x: functional.relu(h),
    "F.relu in place": lambda net, h, x: functional.relu(h, inplace=True),
    "module in place": lambda net, h, x: nn.ReLU(inplace=True)(h),
    "elu": lambda net, h, x: functional.elu(h, 0.5),
    "leaky_relu": lambda net, h, x: functional.leaky_relu(h, 0.1),
    "tanh": lambda net, h, x: h.tanh(),
    "layer norm": lambda net, h, x: net.norm(h).relu(),
    "batch norm": lambda net, h, x: net.batch_norm(h).relu(),
    "linear": lambda net, h, x: net.lin(h).relu() + h,
    "residual": lambda net, h, x: h + x.repeat(1, 2)[:, :8],
    "bias": lambda net, h, x: (h + net.bias) * 2 - 1,
    "minus": lambda net, h, x: 1 / (2 + h.sigmoid()) - h,
    "normalize": lambda net, h, x: functional.normalize(h, dim=-1),
    "cat": lambda net, h, x: torch.cat([h[:, :4], h.relu()[:, 4:]], dim=-1),
    "cat lazily": lambda net, h, x: net.lin(torch.cat([h, h.relu()], dim=1)[:, :8]),
    "mean of all": lambda net, h, x: h - h.mean(dim=0),
    "in place": lambda net, h, x: h.add_(1),
    "augmented": lambda net, h, x: _augmented(h),
    "set": lambda net, h, x: _set(h),
    "clone": lambda net, h, x: h.clone().mul_(2),
    "softmax": lambda net, h, x: h.log_softmax(dim=-1) + torch.softmax(h, 1),
    "numpy": lambda net, h, x: h + float(h.detach().numpy().max()),
    "own function": lambda net, h, x: Halved.apply(h),
    "checkpoint": lambda net, h, x: torch.utils.checkpoint.checkpoint(torch.tanh, h, use_reentrant=True),
}


def _augmented(h: Tensor) -> Tensor:
    before = h.relu()
    h += 1
    return before + h


def _set(h: Tensor) -> Tensor:
    h[3:5] = 0
    return h


class Halved(torch.autograd.Function):
    """A user's autograd function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x / 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad / 2


READ: dict[str, Callable[[Tensor], Tensor]] = {
    "seeds": lambda out: out[:SEEDS],
    "all": lambda out: out,
    "mask": lambda out: out[torch.arange(NODES) % 2 == 0],
    "narrow": lambda out: out.narrow(0, 0, SEEDS),
    "seeds, then all": lambda out: torch.cat([out[:SEEDS], out]),
    "log_softmax": lambda out: functional.log_softmax(out, dim=-1)[:SEEDS],
    "chunks": lambda out: torch.cat(out.split(7)),
}


@pytest.mark.parametrize(
    ("between", "case", "whole"),
    in_turns(BETWEEN, [*((SAGEConv, read) for read in READ), (GCNConv, "seeds"), (GATConv, "seeds")], [False, True]),
    ids=str,
)
def test_outputs_and_gradients_equal_pygs(between: str, case: tuple[Any, str], whole: bool) -> None:
    kind, read = case
    edges = BATCH.edge_index.clone() if whole else BATCH.edge_index  # only the latter is known to be a mini-batch's
    torch.manual_seed(0)
    theirs = Net(kind, BETWEEN[between]).double()
    ours = accelerate(copy.deepcopy(theirs))
    outs = []
    for net in (ours, theirs):
        x = BATCH.x.double().requires_grad_()
        outs.append(READ[read](net(x, edges)))
        outs[-1].square().sum().backward()
        outs.append(x.grad)
    assert type(outs[0]) in (Tensor, LazyRows)
    assert_same(outs[0].clone(), outs[2], torch.float64)
    assert_same(outs[1], outs[3], torch.float64)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_same(one.grad, other.grad, torch.float64)


def test_rows_that_wait_are_computed_when_they_are_read() -> None:
    log: list[int] = []
    rows, _ = lazy(log)
    out = functional.dropout(rows.relu() + 1, 0.0)
    assert out.shape == (10, 4)
    assert out[:3].shape == (3, 4)
    assert log == [3]
    out.sum()
    assert log == [3, 10]


def test_a_model_computes_few_rows() -> None:
    hidden = []
    net = accelerate(Net(SAGEConv, lambda net, h, x: hidden.append(h) or h.relu()))
    out = net(BATCH.x, BATCH.edge_index)
    assert len(hidden[0].first) == BATCH.num_sampled_nodes[0] + BATCH.num_sampled_nodes[1] < NODES
    assert len(out.first) == SEEDS


def test_dropout_is_the_same_for_later_rows() -> None:
    torch.manual_seed(0)
    rows, _ = lazy(width=50)
    out = functional.dropout(rows, 0.5)
    few = out[:3].clone()
    assert torch.equal(out.clone()[:3], few)
    kept = (out.clone() / rows.clone()).detach()
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert abs(float(kept.detach().mean()) - 1) < 0.2
    torch.manual_seed(0)
    assert torch.equal(functional.dropout(lazy(width=50)[0], 0.5)[:3], few)
    assert functional.dropout(rows, 0.5, training=False) is rows


def test_derivatives_by_hidden_rows() -> None:
    """Hooks, gradients and second derivatives by rows of which only some are computed."""
    torch.manual_seed(0)
    found = []
    plain = Net(SAGEConv, lambda net, h, x: h.tanh()).double()
    for net in (accelerate(copy.deepcopy(plain)), plain):
        hidden = net.first(BATCH.x.double().requires_grad_(), BATCH.edge_index)
        seen: list[Tensor] = []
        hidden.register_hook(seen.append)
        out = net.second(hidden.tanh(), BATCH.edge_index)
        hidden.retain_grad()
        loss = out[:SEEDS].square().sum()
        (by_hidden,) = torch.autograd.grad(loss, hidden, create_graph=True)
        asked = [net.first.lin_l.weight, net.second.lin_l.weight]
        twice = torch.autograd.grad(by_hidden.sin().sum(), asked, retain_graph=True)
        loss.backward()
        found += [by_hidden.detach(), *twice, hidden.grad.clone(), seen[-1].clone()]
    for one, other in zip(found[:5], found[5:], strict=True):
        assert_same(one, other, torch.float64)


def test_weights_that_are_exchanged_before_rows_are_read() -> None:
    torch.manual_seed(0)
    plain = Net(GATConv, lambda net, h, x: net.lin(net.norm(h))).double()
    net, x = accelerate(copy.deepcopy(plain)), BATCH.x.double()
    expected = plain(x, BATCH.edge_index).detach()
    out = net(x, BATCH.edge_index)
    for one in net.parameters():
        one.data.mul_(3)
    net.eval()
    assert_same(out + 0, expected, torch.float64)
    other = {name: one * 2 for name, one in plain.named_parameters()}
    swapped = [torch.func.functional_call(one, other, (x, BATCH.edge_index)) for one in (net.train(), plain)]
    assert_same(swapped[0].clone(), swapped[1], torch.float64)


@pytest.mark.parametrize("kind", [SAGEConv, GCNConv])
@pytest.mark.parametrize("edges", [BATCH.edge_index, BATCH.edge_index.clone()], ids=["mini-batch", "whole graph"])
def test_reentrant_checkpoints_train_all_parameters(kind: Any, edges: Tensor) -> None:
    def between(net: Any, h: Tensor, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(net.third, h, edges, use_reentrant=True)

    plain = Net(kind, between).double()
    plain.third = kind(8, 8).double()
    nets = accelerate(copy.deepcopy(plain)), plain
    for net in nets:
        net(BATCH.x.double().requires_grad_(), edges)[:SEEDS].square().sum().backward()
        assert all(one.grad is not None for one in net.third.parameters())
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert_same(one.grad, other.grad, torch.float64)


@pytest.mark.parametrize("edges", [BATCH.edge_index, BATCH.edge_index.clone()], ids=["mini-batch", "whole graph"])
def test_many_layers(edges: Tensor) -> None:
    conv = accelerate(SAGEConv(6, 6).double())
    x = BATCH.x.double()
    for _ in range(3):
        x = conv(x, edges)
    assert type(x) is Tensor  # deeper than the mini-batch
    x = conv(BATCH.x.double(), edges)
    for _ in range(700):
        x = x + (x * 0.001).tanh()
    x.sum().backward()
    assert all(one.grad is not None for one in conv.parameters())


def test_inputs_that_change_before_rows_are_read() -> None:
    rows, x = lazy(grad=False)
    x.add_(1)
    with pytest.raises(RuntimeError, match="must be read before its inputs or parameters are changed in place"):
        rows.sum()


def test_rows_that_a_user_changes() -> None:
    rows, x = lazy(grad=False)
    rows[:3].add_(1)
    expected = x * 2
    expected[:3] += 1
    assert torch.equal(rows.clone(), expected)


def test_a_change_beside_a_slice_in_use() -> None:
    rows, _ = lazy(grad=False)
    part = rows[:3]
    with pytest.raises(RuntimeError, match=r"call \.clone\(\) on the output first"):
        rows.add_(1)
    del part
    rows.add_(1)


CHANGED_BY_VIEWS: dict[str, Callable[[Tensor], Any]] = {
    "column": lambda h: h[:, 1].mul_(2),
    "first rows": lambda h: h[:3].mul_(2),
    "twice": lambda h: [view.mul_(2) for view in [h[:, 1]] for _ in range(2)],
    "beside all": lambda h: [h[:, 1].mul_(2), h.mul_(2), h[3].mul_(2)],
}


@pytest.mark.parametrize("change", CHANGED_BY_VIEWS)
def test_changes_through_views_have_gradients(change: str) -> None:
    torch.manual_seed(0)
    plain, found = Net(SAGEConv, lambda net, h, x: h).double(), []
    for net in (accelerate(copy.deepcopy(plain)), plain):
        x, seen = BATCH.x.double().requires_grad_(), []
        hidden = net.first(x, BATCH.edge_index) * 1
        CHANGED_BY_VIEWS[change](hidden)
        hidden.register_hook(seen.append)
        net.second(hidden, BATCH.edge_index).square().sum().backward()
        found.append([x.grad, *seen, *(one.grad for one in net.first.parameters())])
    for one, other in zip(*found, strict=True):
        assert_same(one, other, torch.float64)


@pytest.mark.parametrize(
    "function",
    [lambda h: Halved.apply(h), lambda h: torch.utils.checkpoint.checkpoint(torch.sin, h, use_reentrant=True)],
)
def test_a_change_through_a_view_that_an_autograd_function_can_not_see(function: Any) -> None:
    rows, _ = lazy()
    rows[:, 1].mul_(2)
    with pytest.raises(RuntimeError, match=r"through a slice or view of it.* call \.clone\(\) on the output before"):
        function(rows)


def test_a_change_through_a_view_after_rows_were_computed_from_it() -> None:
    """PyG's backward pass refuses it, too."""
    rows, _ = lazy()
    hidden = rows * 1
    sines = joined(hidden[:3].sin(), 10, lambda inputs, _: inputs[0].sin(), [hidden])
    total = sines.sum()
    hidden[:, 1].mul_(2)
    with pytest.raises(RuntimeError, match="rows of an accelerated model's output must be read before"):
        total.backward()


def test_hooks_of_parameters_that_are_not_used_stay_silent() -> None:
    seen: list[Any] = []
    conv = accelerate(TransformerConv(6, 4, root_weight=False))
    for name, one in conv.named_parameters():
        one.register_hook(lambda grad, name=name: seen.append((name, grad)))
    conv(BATCH.x, BATCH.edge_index).square().sum().backward()
    assert {name for name, _ in seen} == {name for name, one in conv.named_parameters() if one.grad is not None}
    assert all(grad is not None for _, grad in seen)


def test_readers_keep_the_values_before_a_change() -> None:
    rows, x = lazy(grad=False)
    before = rows.relu()
    rows.add_(1)
    assert torch.equal(before.clone(), (x * 2).relu())
    assert torch.equal(rows.clone(), x * 2 + 1)


def test_grad_modes_are_torchs() -> None:
    rows, _ = lazy()
    with torch.no_grad():
        assert rows.relu().requires_grad is False
        assert rows[:2].requires_grad
    with torch.no_grad():
        rows, _ = lazy()
    assert not rows[:2].requires_grad
    with torch.inference_mode():
        out = accelerate(SAGEConv(6, 3))(BATCH.x, BATCH.edge_index)
    assert type(out) is Tensor


def test_what_needs_no_rows() -> None:
    log: list[int] = []
    rows, _ = lazy(log)
    facts = rows.shape, rows.size(0), len(rows), rows.dtype, rows.device.type, rows.ndim, rows.requires_grad
    assert facts == ((10, 4), 10, 10, torch.float64, "cpu", 2, True)
    assert log == [3]
    assert "tensor" in repr(rows)
    assert torch.equal(copy.deepcopy(rows.detach()), rows.detach())


@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid, partial(torch.softmax, dim=1), torch.relu, torch.sin])
@pytest.mark.parametrize("clones", [False, True])
def test_a_hook_sees_all_of_second_derivatives_or_none(function: Callable[[Tensor], Tensor], clones: bool) -> None:
    """Torch's derivative of tanh reads its result, so a hook of the result also gets second derivatives by it."""

    def second(out: Tensor, x: Tensor) -> Tensor:
        out = out.clone() if clones else out
        out.register_hook(lambda grad: grad * 1.5)
        first = torch.autograd.grad(out[:3].sin().sum(), x, create_graph=True)[0]
        found: Tensor = torch.autograd.grad(first.square().sum(), x)[0]
        return found

    rows, x = lazy()
    whole = x.detach().clone().requires_grad_()
    expected = second(function(whole * 2), whole)
    if clones or function in (torch.relu, torch.sin):
        torch.testing.assert_close(second(function(rows), x), expected)
    else:
        with pytest.raises(RuntimeError, match=r"call \.clone\(\) on the output"):
            second(function(rows), x)
