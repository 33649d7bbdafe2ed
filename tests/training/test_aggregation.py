from __future__ import annotations

import dataclasses

import pytest
import torch

from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.aggregation import aggregated
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.gat import GATLayer, attended
from a3gnn.threads import pool

AGGREGATORS = ["mean", "sum", "gcn"]


def by_torch(block: LayerBlock) -> LayerBlock:
    """The same block with its destinations as ids, which compiled kernels don't read."""
    return dataclasses.replace(block, dst=torch.arange(block.num_dst))


@pytest.mark.parametrize("dropout", [None, Dropout.of(0.0), Dropout.of(0.3, 7)], ids=["none", "relu", "dropped"])
@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_kernels_equal_torch_forward_and_backward(aggregator, dropout, make_block):
    block = make_block(20, 90, num_edges=400)
    x = torch.randn(90, 11, requires_grad=True)
    outs, grads = [], []
    for one in (block, by_torch(block)):
        out = aggregated(aggregator, one, x * 1.0, dropout)
        cotangent = torch.sin(torch.arange(out.numel())).view_as(out)
        outs.append(out)
        grads.append(torch.autograd.grad(out, x, cotangent)[0])
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-6)
    assert grads[0].abs().sum() > 0


@pytest.mark.parametrize("aggregator", [*AGGREGATORS, "attention"])
def test_threads_change_no_bit(aggregator, make_block, monkeypatch):
    monkeypatch.setattr(pool, "_GRAIN_BYTES", 256)
    maps = torch.randn(2, 3, 16)
    results = []
    for threads in (1, 5):
        block = make_block(40, 200, num_edges=900)
        x = torch.randn(200, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
        with pool.limited(threads):
            if aggregator == "attention":
                drops = {"attention": Dropout.of(0.2, 1), "before": Dropout.of(0.5, 1)}
                out = attended(block, x * 1.0, maps[0], maps[1], **drops)
            else:
                out = aggregated(aggregator, block, x * 1.0, Dropout.of(0.5, 1))
            results.append((out, torch.autograd.grad(out.square().sum(), x)[0]))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("concat", [True, False], ids=["concat", "mean"])
@pytest.mark.parametrize("dropout", [None, Dropout.of(0.3, 7)], ids=["input", "hidden"])
def test_attention_of_either_order_agrees(dropout, concat, make_block, monkeypatch):
    torch.manual_seed(0)
    block = make_block(20, 90, num_edges=400)
    layer = GATLayer(11, 12, heads=3, concat=concat, dropout=0.5).eval()
    x = torch.randn(90, 11, requires_grad=True)
    outs, grads = [], []
    for first in (True, False):
        monkeypatch.setattr(layer, "_attends_first", lambda _, first=first: first)
        out = layer(block, x * 1.0, dropout)
        cotangent = torch.sin(torch.arange(out.numel())).view_as(out)
        outs.append(out)
        grads.append(torch.autograd.grad(out, [x, *layer.parameters()], cotangent))
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-4, atol=1e-5)
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_dropped_attention_is_scaled_and_has_the_gradient_of_what_was_kept():
    """With equal scores a slot weighs 1 / slots, times 2 or 0: its sum over columns that name the sources tells which.

    Finite differences then check the gradient by the scores' maps, through the same mask.
    """
    slots = 400
    block = LayerBlock(
        torch.tensor([0, slots - 1], dtype=torch.int32), torch.arange(1, slots, dtype=torch.int32), slots, slice(0, 1)
    )
    x = torch.eye(slots)
    drops = {"attention": Dropout.of(0.5, 3), "before": None}
    weights = attended(block, x, torch.zeros(1, slots), torch.zeros(1, slots), **drops)[0, 0] * slots
    kept = weights > 0
    torch.testing.assert_close(weights, torch.where(kept, 2.0, 0.0), rtol=1e-5, atol=0)
    assert abs(int(kept.sum()) - slots / 2) < 4 * (slots / 4) ** 0.5

    source_map = torch.randn(1, slots, generator=torch.Generator().manual_seed(1)).requires_grad_()
    direction = torch.cos(torch.arange(slots))
    out = (attended(block, x, source_map, torch.ones(1, slots), **drops)[0, 0] * direction).sum()
    (found,) = torch.autograd.grad(out, source_map)
    attention_by_torch = torch.nn.functional.leaky_relu(source_map[0] + 1, 0.2).softmax(0)
    (expected,) = torch.autograd.grad((attention_by_torch * kept * 2 * direction).sum(), source_map)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
