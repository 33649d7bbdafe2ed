"""DistributedDataParallel that reads the graph of the outputs: accelerated models train as PyG's do."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from a3gnn import accelerate
from a3gnn.acceleration.lazy_rows import LazyRows
from tests.acceleration.graphs import assert_same, batches


class Net(nn.Module):
    """A model with a module that a pass doesn't use."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.spare = kind(6, 8), kind(8, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)  # type: ignore[no-any-return]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def trained(model: nn.Module, forward: Any) -> list[Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = batches()
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            out = forward(batch.x, batch.edge_index)[: batch.batch_size]
            cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    return [one.detach() for one in model.parameters()]


@pytest.mark.parametrize("options", [{"find_unused_parameters": True}, {"static_graph": True}], ids=str)
@pytest.mark.parametrize("kind", [SAGEConv, GCNConv, GATConv])
def test_unused_parameters(group: None, kind: Any, options: dict[str, bool]) -> None:
    found = []
    for model in (Net(kind), accelerate(Net(kind))):
        torch.manual_seed(1)
        found.append(trained(model, DistributedDataParallel(model, **options)))
    for one, expected in zip(found[1], found[0], strict=True):
        assert_same(one, expected, torch.float32)


def test_a_head_of_its_own_reads_rows_that_wait(group: None) -> None:
    encoder, head = Net(SAGEConv), nn.ModuleDict({"used": nn.Linear(3, 3), "spare": nn.Linear(3, 3)})
    head.forward = lambda x: head["used"](x.relu())  # type: ignore[method-assign]
    found = []
    for first, last in ((encoder, head), (accelerate(copy.deepcopy(encoder)), copy.deepcopy(head))):
        last.forward = lambda x, last=last: last["used"](x.relu())  # type: ignore[misc]
        wrapped = DistributedDataParallel(last, find_unused_parameters=True)
        torch.manual_seed(1)
        found.append(trained(nn.ModuleList([first, last]), lambda *inputs, f=first, w=wrapped: w(f(*inputs))))
    for one, expected in zip(found[1], found[0], strict=True):
        assert_same(one, expected, torch.float32)


def test_rows_wait_under_plain_ddp(group: None) -> None:
    model = DistributedDataParallel(accelerate(Net(SAGEConv)))
    batch = next(iter(batches()))
    assert type(model(batch.x, batch.edge_index)) is LazyRows
