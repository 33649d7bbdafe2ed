from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.nn.norm import BatchNorm

from a3gnn.ranks.shared_norm import SharedBatchNorm, Statistics
from tests.training.ranks.threads import BUILDING, ThreadRanks, together

#: Which of ten rows each of two has; rows 4 and 5 are with both, and owned by one each.
ROWS = [[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 9]]
OWNED = [[True, True, True, True, True, False], [False, True, True, True, True, True]]


def norm_of(seed: int = 0) -> BatchNorm:
    with BUILDING:
        torch.manual_seed(seed)
        norm = BatchNorm(3, allow_single_element=True).double()
        torch.nn.init.normal_(norm.module.weight)
        torch.nn.init.normal_(norm.module.bias)
    return norm


def shared(norm: BatchNorm, ranks: ThreadRanks, owned: list[bool]) -> tuple[SharedBatchNorm, Statistics]:
    statistics = Statistics(ranks)
    holder = torch.nn.ModuleList([norm])
    statistics.join(holder)
    statistics.owned = torch.tensor(owned)
    made = holder[0]
    assert isinstance(made, SharedBatchNorm)
    return made, statistics


@pytest.mark.parametrize("batches", [1, 2])
def test_shares_of_rows_are_normalized_as_all_rows_are(batches):
    x = torch.randn(10, 3, dtype=torch.float64) * torch.tensor([1.0, 1e-3, 40.0]) + 100
    upstream = torch.randn(10, 3, dtype=torch.float64)
    whole, given = norm_of(), x.clone().requires_grad_()
    for _ in range(batches):
        out = whole(given)
    out.backward(upstream)

    def work(ranks: ThreadRanks) -> Any:
        norm, statistics = shared(norm_of(), ranks, OWNED[ranks.rank])
        rows = x[ROWS[ranks.rank]].clone().requires_grad_()
        for _ in range(batches):
            out = norm(rows)
            statistics.keep()
        # What passes back to a row that both have arrives in parts.
        part = upstream[ROWS[ranks.rank]].clone()
        part[4 if not ranks.rank else 0] *= 0.25 if not ranks.rank else 0.75
        part[5 if not ranks.rank else 1] *= 0.5
        out.backward(part)
        return out.detach(), rows.grad, norm

    found = together(2, work)
    by_x = torch.zeros_like(x)
    for (part, by_rows, norm), rows in zip(found, ROWS, strict=True):
        assert torch.allclose(part, out.detach()[rows], atol=1e-9)
        by_x[rows] += by_rows
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            assert torch.allclose(getattr(norm.module, name), getattr(whole.module, name), atol=1e-9)
    assert torch.allclose(by_x, given.grad, atol=1e-9)
    for name in ("weight", "bias"):
        sums = sum(getattr(norm.module, name).grad for *_, norm in found)
        assert torch.allclose(sums, getattr(whole.module, name).grad, atol=1e-9)


def test_a_single_row_has_no_variance():
    x = torch.randn(1, 3, dtype=torch.float64)
    whole = norm_of()

    def work(ranks: ThreadRanks) -> Any:
        norm, statistics = shared(norm_of(), ranks, [not ranks.rank])
        out = norm(x)
        statistics.keep()
        return out, norm

    for out, norm in together(2, work):
        assert torch.equal(out, whole(x))
        assert not norm.module.num_batches_tracked


def test_running_statistics_change_only_with_the_step():
    def work(ranks: ThreadRanks) -> Any:
        norm, statistics = shared(norm_of(), ranks, OWNED[ranks.rank])
        norm(torch.randn(6, 3, dtype=torch.float64))
        before = norm.module.running_mean.clone()
        statistics.keep()
        return before, norm.module.running_mean

    for before, after in together(2, work):
        assert not before.any()
        assert after.any()


def test_names_of_weights_stay():
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList([BatchNorm(3), BatchNorm(3)])

    model = Two()
    names = list(model.state_dict())
    Statistics(ThreadRanks(None, 0)).join(model)  # type: ignore[arg-type]
    assert list(model.state_dict()) == names
    assert all(isinstance(norm, SharedBatchNorm) for norm in model.norms)
