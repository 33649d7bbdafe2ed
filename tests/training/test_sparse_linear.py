from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from a3gnn.models.layers import sparse_linear as by_tile
from a3gnn.models.layers.block import first_rows
from a3gnn.models.layers.sparse_linear import _spare, by_column, sparse_linear
from a3gnn.storage.csr_tensor import csr
from a3gnn.threads import pool


def sparse_rows(rows: int = 40, columns: int = 23, dtype: torch.dtype = torch.float32, ids=torch.int32) -> Tensor:
    """Returns CSR rows, some of them empty, one column in most of them, and one in none."""
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(rows, columns, generator=generator, dtype=dtype)
    dense[dense < 0.8] = 0
    dense[:, 3] = 1.5
    dense[:, 7] = 0
    dense[::6] = 0
    found = dense.to_sparse_csr()
    return csr(found.crow_indices().to(ids), found.col_indices().to(ids), found.values(), (rows, columns))


def dense_of(x: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(
        x.crow_indices().long(), x.col_indices().long(), x.values(), tuple(x.shape)
    ).to_dense()


@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("order", ["by row", "by column"])
@pytest.mark.parametrize("width", [1, 5, 64])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("tile_rows", [7, 1024])
def test_outputs_and_gradients_equal_those_of_the_dense_product(tile_rows, biased, width, order, ids, monkeypatch):
    monkeypatch.setattr(by_tile, "_TILE_ROWS", tile_rows)
    x = sparse_rows(ids=ids)
    torch.manual_seed(1)
    weight, bias = nn.Parameter(torch.randn(width, 23)), nn.Parameter(torch.randn(width)) if biased else None
    if order == "by column":
        by_column(weight)
    wanted = [weight] if bias is None else [weight, bias]
    outs = [sparse_linear(x, weight, bias), functional.linear(dense_of(x), weight, bias)]
    torch.testing.assert_close(*outs, rtol=1e-5, atol=1e-5)
    cotangent = torch.randn(outs[0].shape)
    for one, other in zip(*(torch.autograd.grad(out, wanted, cotangent) for out in outs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        assert one.abs().sum() > 0


def test_first_rows_are_mapped_alike():
    x = sparse_rows()
    weight = torch.randn(6, 23)
    assert torch.equal(sparse_linear(first_rows(x, 17), weight), sparse_linear(x, weight)[:17])


def test_gradients_equal_finite_differences():
    x = sparse_rows(rows=9, columns=11, dtype=torch.float64)
    weight = torch.randn(4, 11, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, b: sparse_linear(x, w, b), (weight, bias))


def test_no_stored_entry_leaves_the_bias_and_no_gradient():
    indptr, none = torch.zeros(6, dtype=torch.int32), torch.zeros(0, dtype=torch.int32)
    x = csr(indptr, none, torch.zeros(0), (5, 8))
    weight, bias = torch.randn(3, 8, requires_grad=True), torch.randn(3)
    out = sparse_linear(x, weight, bias)
    assert torch.equal(out, bias.expand(5, 3))
    (by_weight,) = torch.autograd.grad(out.sum(), weight)
    assert not by_weight.any()


@pytest.mark.parametrize("tile_rows", [7, 64, 1024])
def test_threads_change_no_bit(tile_rows, monkeypatch):
    monkeypatch.setattr(pool, "_GRAIN_BYTES", 64)
    monkeypatch.setattr(by_tile, "_TILE_ROWS", tile_rows)
    x, results = sparse_rows(200, 31), []
    weight = torch.randn(16, 31, requires_grad=True)
    for threads in (1, 5):
        with pool.limited(threads):
            out = sparse_linear(x, weight)
            results.append((out, torch.autograd.grad(out.square().sum(), weight)[0]))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_a_weight_ordered_by_column_keeps_shape_and_values_and_takes_its_gradient_uncopied():
    weight = nn.Parameter(torch.randn(5, 23))
    before = weight.detach().clone()
    by_column(weight)
    assert torch.equal(weight, before)
    assert weight.stride() == (1, 5)
    sparse_linear(sparse_rows(), weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.stride() == (1, 5)


def test_a_gradients_memory_is_taken_again_once_nothing_uses_it():
    weight, x = nn.Parameter(torch.randn(5, 23)), sparse_rows()
    by_column(weight)

    def gradient() -> Tensor:
        return torch.autograd.grad(sparse_linear(x, weight).sum(), weight)[0]

    first, second = gradient(), gradient()
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, second)
    kept, place = first.clone(), second.data_ptr()
    view = second[2:]
    del second
    third = gradient()
    assert third.data_ptr() not in (place, first.data_ptr())
    del view
    end = time.monotonic() + 60  # a thread of the pool may hold what it wrote for a moment longer, on a busy machine
    while not any(memory.data_ptr() == place for memory in _spare[weight]):
        assert time.monotonic() < end
        time.sleep(0.001)
    assert gradient().data_ptr() == place
    assert torch.equal(first, kept)
