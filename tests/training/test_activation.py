from __future__ import annotations

import pytest
import torch

from a3gnn.training.layers.activation import relu_dropout


def test_without_training_it_is_relu():
    x = torch.randn(50, 7)
    assert torch.equal(relu_dropout(x.clone(), 0.5, training=False), x.relu())


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9])
def test_entries_are_kept_at_their_rate_and_scaled(probability):
    torch.manual_seed(0)
    x = torch.randn(2001, 99)
    out = relu_dropout(x.clone(), probability, training=True)
    positive = x > 0
    kept = (out > 0) & positive
    count, total = int(kept.sum()), int(positive.sum())
    deviation = (total * probability * (1 - probability)) ** 0.5
    assert abs(count - total * (1 - probability)) <= 4 * deviation
    assert (out[~positive] == 0).all()
    torch.testing.assert_close(out[kept], x[kept] / (1 - probability), rtol=1e-4, atol=0)
    columns = kept.float().sum(dim=0) / positive.float().sum(dim=0)
    assert (columns - (1 - probability)).abs().max() < 0.1  # no column is favoured


def test_the_gradient_is_that_of_what_was_kept():
    torch.manual_seed(1)
    x = torch.randn(40, 6, requires_grad=True)
    out = relu_dropout(x * 1.0, 0.25, training=True)
    grad = torch.randn_like(out)
    (found,) = torch.autograd.grad(out, x, grad)
    torch.testing.assert_close(found, torch.where(out > 0, grad / 0.75, 0.0))
    assert (out > 0).any()


def test_the_generator_decides_what_is_dropped():
    x = torch.rand(30, 5) + 0.1
    outs = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        outs.append(relu_dropout(x.clone(), 0.5, training=True))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
