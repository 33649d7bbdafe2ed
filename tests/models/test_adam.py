from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from a3gnn.errors import ConfigError
from a3gnn.models.adam import Adam
from a3gnn.models.layers.sparse_linear import by_column
from a3gnn.threads import pool

SHAPES = [(7, 40), (12,), (1, 3, 5)]


def make_weights(order: str = "by row") -> list[nn.Parameter]:
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    if order == "by column":
        by_column(weights[0])
    return weights


def grads(step: int, *, given: int = 40) -> list[torch.Tensor]:
    """Returns gradients of step `step`, those of the first weight's columns from `given` on zero."""
    generator = torch.Generator().manual_seed(step)
    found = [torch.randn(shape, generator=generator) * 10.0 ** (-step) for shape in SHAPES]
    found[0][:, given:] = 0
    return found


def take_steps(optimizer: torch.optim.Optimizer, weights: list[nn.Parameter], steps: range, given: int = 40) -> None:
    for step in steps:
        for weight, grad in zip(weights, grads(step, given=given), strict=True):
            weight.grad = torch.empty_like(weight, requires_grad=False).copy_(grad)
        optimizer.step()


@pytest.mark.parametrize("weight_decay", [0.0, 0.02])
@pytest.mark.parametrize("order", ["by row", "by column"])
def test_steps_equal_those_of_torch(order, weight_decay):
    ours, theirs = make_weights(order), make_weights()
    mine = Adam(ours, 0.01, weight_decay)
    torch_adam = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay)
    for steps, given in ((range(3), 20), (range(3, 6), 40)):
        take_steps(mine, ours, steps, given)
        take_steps(torch_adam, theirs, steps, given)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one.data, other.data, rtol=1e-6, atol=1e-6)
            for name in ("step", "exp_avg", "exp_avg_sq"):
                expected = torch_adam.state[other][name]
                torch.testing.assert_close(mine.state[one][name], expected, rtol=1e-5, atol=1e-9)


def test_columns_that_never_had_a_gradient_keep_their_bits_and_others_keep_moving():
    weights = make_weights("by column")
    before = weights[0].detach().clone()
    optimizer = Adam(weights, 0.01, 0.0)
    take_steps(optimizer, weights, range(2), given=20)
    after = weights[0].detach().clone()
    assert torch.equal(after[:, 20:], before[:, 20:])
    assert not (after[:, :20] == before[:, :20]).any()
    for weight in weights:
        weight.grad = torch.zeros_like(weight, requires_grad=False)
    optimizer.step()
    assert not (weights[0][:, :20] == after[:, :20]).any()


@pytest.mark.parametrize("orders", [("by row", "by column"), ("by column", "by column"), ("by column", "by row")])
def test_a_saved_state_goes_on_alike_in_either_order_of_memory(orders):
    first, whole = make_weights(orders[0]), make_weights(orders[1])
    optimizer, throughout = Adam(first, 0.01, 0.0), Adam(whole, 0.01, 0.0)
    take_steps(optimizer, first, range(2), given=20)
    take_steps(throughout, whole, range(4), given=20)
    state = copy.deepcopy(optimizer.state_dict())
    again = make_weights(orders[1])
    for weight, saved in zip(again, first, strict=True):
        weight.data.copy_(saved.data)
    restored = Adam(again, 0.01, 0.0)
    restored.load_state_dict(state)
    take_steps(restored, again, range(2, 4), given=20)
    assert all(torch.equal(one, other) for one, other in zip(again, whole, strict=True))


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(pool, "_GRAIN_BYTES", 64)
    results = []
    for threads in (1, 5):
        weights = make_weights("by column")
        with pool.limited(threads):
            take_steps(Adam(weights, 0.01, 0.0), weights, range(3))
        results.append(weights)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("order", ["by row", "by column"])
def test_a_state_of_torchs_adam_goes_on_and_goes_back(order):
    ours, theirs = make_weights(order), make_weights()
    mine, torch_adam = Adam(ours, 0.01, 0.02), torch.optim.Adam(theirs, lr=0.01, weight_decay=0.02, fused=True)
    take_steps(torch_adam, theirs, range(3))
    mine.load_state_dict(torch_adam.state_dict())
    for one, other in zip(ours, theirs, strict=True):
        one.data.copy_(other.data)
    take_steps(mine, ours, range(3, 5))
    take_steps(torch_adam, theirs, range(3, 5))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.data, other.data, rtol=1e-6, atol=1e-6)
    again = torch.optim.Adam(make_weights(), lr=0.5)
    again.load_state_dict(mine.state_dict())
    assert again.param_groups[0]["lr"] == 0.01
    assert [float(state["step"]) for state in again.state.values()] == [5.0, 5.0, 5.0]


def test_a_state_of_other_weights_is_refused():
    weights = make_weights()
    with pytest.raises(ValueError, match=r"must have \[3\] weights, got \[2\]"):
        Adam(weights, 0.01, 0.0).load_state_dict(Adam(weights[:2], 0.01, 0.0).state_dict())


def test_gradients_are_forgotten_or_zero():
    weights = make_weights()
    optimizer = Adam(weights, 0.01, 0.0)
    take_steps(optimizer, weights, range(1))
    optimizer.zero_grad(set_to_none=False)
    assert all(not weight.grad.any() for weight in weights)
    optimizer.zero_grad()
    assert all(weight.grad is None for weight in weights)


def test_sparse_gradients_update_their_rows_as_sparse_adam_does() -> None:
    draw = torch.Generator().manual_seed(3)
    start = torch.randn(40, 6, generator=draw)
    ours, theirs = (nn.Embedding(40, 6, sparse=True) for _ in range(2))
    for table in (ours, theirs):
        table.load_state_dict({"weight": start})
    adam = Adam(ours.parameters(), 0.01, 0.0)
    reference = torch.optim.SparseAdam(list(theirs.parameters()), lr=0.01)
    touched = torch.zeros(40, dtype=torch.bool)
    for step in range(30):
        ids = torch.randint(20, (9,), generator=draw)  # repeats included
        touched[ids] = True
        for table, optimizer in ((ours, adam), (theirs, reference)):
            optimizer.zero_grad()
            (table(ids) * (step + 1.0)).pow(2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-5, atol=1e-6)
    assert torch.equal(ours.weight[~touched], start[~touched])
    assert not torch.equal(ours.weight[touched], start[touched])


def test_a_weight_decay_is_refused_for_sparse_gradients() -> None:
    table = nn.Embedding(4, 2, sparse=True)
    adam = Adam(table.parameters(), 0.01, 0.1)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ConfigError, match="weight_decay must be 0"):
        adam.step()
