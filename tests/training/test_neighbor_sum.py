from __future__ import annotations

import pytest
import torch
from torch import Tensor

from a3gnn.models.layers.aggregation import neighbor_sum
from a3gnn.models.layers.block import LayerBlock
from a3gnn.threads import pool


def dense_matrix(block: LayerBlock, weights: Tensor) -> Tensor:
    matrix = torch.zeros(block.num_dst, block.num_src)
    matrix.index_put_((block.rows, block.indices.long()), weights, accumulate=True)
    return matrix


@pytest.mark.parametrize("added", [True, False], ids=["onto", "alone"])
@pytest.mark.parametrize("rule", ["sum", "mean", "weighted"])
def test_outputs_and_gradients_equal_those_of_a_dense_matrix(rule, added, make_block):
    block = make_block(20, 90, num_edges=400)
    torch.manual_seed(0)
    weights = {"sum": None, "mean": block.shares, "weighted": torch.randn(block.indices.numel())}[rule]
    matrix = dense_matrix(block, torch.ones(block.indices.numel()) if weights is None else weights)
    x, onto = torch.randn(90, 11, requires_grad=True), torch.randn(20, 11, requires_grad=True)
    wanted = [x, onto] if added else [x]
    outs = [neighbor_sum(block, x, weights, onto=onto * 1.0 if added else None), matrix @ x + (onto if added else 0)]
    torch.testing.assert_close(*outs, rtol=1e-5, atol=1e-5)
    cotangent = torch.randn(20, 11)
    for one, other in zip(*(torch.autograd.grad(out, wanted, cotangent) for out in outs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_mean_without_in_neighbors_is_zero(make_block):
    block = make_block(8, 30)
    empty = block.indptr.diff() == 0
    assert empty.any()
    assert not neighbor_sum(block, torch.randn(30, 3), block.shares)[empty].any()


def test_threads_change_no_bit(make_block, monkeypatch):
    monkeypatch.setattr(pool, "_GRAIN_BYTES", 64)
    x, results = torch.randn(200, 16, requires_grad=True), []
    for threads in (1, 5):
        block = make_block(40, 200, num_edges=900)
        with pool.limited(threads):
            out = neighbor_sum(block, x, block.shares)
            results.append((out, torch.autograd.grad(out.square().sum(), x)[0]))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
