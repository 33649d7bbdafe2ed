from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn.norm import BatchNorm

from a3gnn.models.layers.norm import norm_relu
from a3gnn.models.layers.norm_kernels import BLOCK_ROWS
from a3gnn.threads import pool


def make_norm(width: int = 9) -> BatchNorm:
    torch.manual_seed(0)
    norm = BatchNorm(width, allow_single_element=True)
    with torch.no_grad():
        norm.module.weight.uniform_(-1, 2)
        norm.module.bias.normal_()
    return norm


@pytest.mark.parametrize("offset", [0.0, 100.0], ids=["centred", "far"])
@pytest.mark.parametrize("rows", [2, 3, BLOCK_ROWS, BLOCK_ROWS + 1, 5 * BLOCK_ROWS - 7])
def test_outputs_gradients_and_statistics_equal_torchs_in_double_precision(rows, offset):
    norm = make_norm()
    exact = copy.deepcopy(norm).double()
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x = (torch.randn(rows, 9, generator=generator) + offset).requires_grad_()
        wide = x.detach().double().requires_grad_()
        outs = [norm_relu(x, norm), functional.relu(exact(wide))]
        scale = 1 + offset
        torch.testing.assert_close(outs[0].double(), outs[1], rtol=1e-4, atol=1e-5 * scale)
        cotangent = torch.randn(rows, 9, generator=generator)
        wanted = [[x, norm.module.weight, norm.module.bias], [wide, exact.module.weight, exact.module.bias]]
        found = torch.autograd.grad(outs[0], wanted[0], cotangent)
        expected = torch.autograd.grad(outs[1], wanted[1], cotangent.double())
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4 * scale)
    for name, value in norm.state_dict().items():
        torch.testing.assert_close(value.double(), exact.state_dict()[name].double(), rtol=1e-5, atol=1e-6)
    assert norm.module.num_batches_tracked == 3


def test_a_constant_column_gives_its_bias_and_no_gradient_by_the_rows():
    norm = make_norm(2)
    x = torch.full((10, 2), 3.0, requires_grad=True)
    out = norm_relu(x, norm)
    torch.testing.assert_close(out, norm.module.bias.relu().expand(10, 2), rtol=0, atol=1e-5)
    (by_x,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(by_x, torch.zeros(10, 2), rtol=0, atol=1e-4)


def test_nan_is_not_rectified_away():
    x = torch.randn(10, 2)
    x[4, 1] = torch.nan
    out = norm_relu(x, make_norm(2))
    assert out[:, 1].isnan().all()
    assert not out[:, 0].isnan().any()


def test_in_evaluation_running_statistics_are_read_and_left():
    norm = make_norm()
    norm_relu(torch.randn(30, 9), norm)
    norm.eval()
    before = copy.deepcopy(norm.state_dict())
    x = torch.randn(20, 9)
    assert torch.equal(norm_relu(x, norm), functional.relu(norm(x)))
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(pool, "_GRAIN_BYTES", 64)
    x, results = torch.randn(7 * BLOCK_ROWS + 5, 9, requires_grad=True), []
    for threads in (1, 5):
        norm = make_norm()
        with pool.limited(threads):
            out = norm_relu(x, norm)
            grads = torch.autograd.grad(out.square().sum(), [x, norm.module.weight, norm.module.bias])
        results.append([out, *grads, *norm.state_dict().values()])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
