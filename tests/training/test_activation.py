from __future__ import annotations

import numpy as np
import pytest
import torch

from a3gnn.models.layers.activation import Dropout, rectify_in_place, relu_dropout
from a3gnn.threads import pool


def test_without_dropout_it_is_relu():
    x = torch.randn(50, 7)
    x[3, 2] = torch.nan
    torch.testing.assert_close(relu_dropout(x.clone(), Dropout.of(0.0)), x.relu(), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9])
def test_entries_are_kept_at_their_rate_and_scaled(probability):
    torch.manual_seed(0)
    x = torch.randn(2001, 99)
    out = relu_dropout(x.clone(), Dropout.of(probability, 5))
    positive = x > 0
    kept = (out > 0) & positive
    count, total = int(kept.sum()), int(positive.sum())
    deviation = (total * probability * (1 - probability)) ** 0.5
    assert abs(count - total * (1 - probability)) <= 4 * deviation
    assert (out[~positive] == 0).all()
    torch.testing.assert_close(out[kept], x[kept] / (1 - probability), rtol=1e-4, atol=0)
    columns = kept.float().sum(dim=0) / positive.float().sum(dim=0)
    assert (columns - (1 - probability)).abs().max() < 0.1  # no column is favored


def test_the_gradient_is_that_of_what_was_kept():
    torch.manual_seed(1)
    x = torch.randn(40, 6, requires_grad=True)
    out = relu_dropout(x * 1.0, Dropout.of(0.25, 1))
    grad = torch.randn_like(out)
    (found,) = torch.autograd.grad(out, x, grad)
    torch.testing.assert_close(found, torch.where(out > 0, grad / 0.75, 0.0))
    assert (out > 0).any()


def test_masks_of_different_keys_are_independent():
    masks = []
    for seed in range(12):
        x = torch.ones(100_000)
        rectify_in_place(x, Dropout.of(0.5, seed))
        masks.append((x > 0).numpy())
    # Agreements of two fair masks: mean 50,000, deviation 158.
    agreements = [(a == b).sum() for i, a in enumerate(masks) for b in masks[:i]]
    lagged = [(a[lag:] == a[:-lag]).sum() + lag / 2 for a in masks for lag in (1, 2, 8, 256)]
    assert np.abs(np.array(agreements + lagged) - 50_000).max() < 158 * 4.5


def test_the_key_alone_decides_on_any_number_of_threads():
    outs = []
    for seed, threads in ((3, 1), (3, 4), (4, 1)):
        x = torch.ones(700_001)
        with pool.limited(threads):
            rectify_in_place(x, Dropout.of(0.5, seed))
        outs.append(x)
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
