"""PyG's `model.inference(loader)`, layer by layer, with a `Loader` in place of its own."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE
from torch_geometric.nn.models.basic_gnn import BasicGNN

from a3gnn import Loader, accelerate
from a3gnn.errors import UsageError
from a3gnn.graphs.as_graph import as_graph
from tests.acceleration.graphs import random_edges

NODES = 100
DATA = Data(torch.randn(NODES, 6), random_edges(NODES, NODES, 600), y=torch.randint(3, (NODES,)))


def made(kind: type[BasicGNN]) -> BasicGNN:
    torch.manual_seed(0)
    return kind(6, 8, 2, 3).eval()


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("kind", [GraphSAGE, GIN, GAT])
def test_inference_by_layers(kind: type[BasicGNN], accelerated: bool, cache: bool) -> None:
    model = made(kind)
    expected = model(DATA.x, DATA.edge_index)
    loader = Loader(DATA, [-1], batch_size=40, num_workers=1)
    assert isinstance(loader, NeighborLoader)
    found = (accelerate(copy.deepcopy(model)) if accelerated else model).inference(loader, cache=cache)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_degrees_are_the_mini_batches_as_with_pygs_loader() -> None:
    loader, model = Loader(DATA, [-1], batch_size=40), made(GCN)
    rows = []
    x = DATA.x
    with torch.no_grad():
        for layer in range(2):
            rows = [model.inference_per_layer(layer, x[b.n_id], b.edge_index, b.batch_size) for b in loader]
            x = torch.cat(rows)
    torch.testing.assert_close(accelerate(model).inference(loader), x, rtol=1e-4, atol=1e-5)


REFUSED: list[tuple[list[int], dict[str, Any], str]] = [
    ([5], {}, "num_neighbors=[5]"),
    ([-1, -1], {}, "num_neighbors=[-1, -1]"),
    ([-1], {"subgraph_type": "bidirectional"}, "subgraph_type='bidirectional'"),
    ([-1], {"shuffle": True}, "nodes in another order"),
    ([-1], {"drop_last": True}, "not all of them"),
    ([-1], {"sampler": torch.utils.data.SequentialSampler(range(NODES))}, "nodes in another order"),
    ([-1], {"input_nodes": torch.arange(NODES).flip(0)}, "nodes in another order"),
    ([-1], {"input_nodes": torch.arange(NODES).clamp(max=98)}, "nodes in another order"),
    ([-1], {"share": (0, 2)}, "share=(0, 2)"),
    ([-1], {"config": {"num_partitions": 4}}, "nodes in another order"),
    ([-1], {"memory_limit": "64GiB"}, "a memory_limit"),
]


@pytest.mark.parametrize(("fanouts", "options", "reason"), REFUSED, ids=lambda one: str(one)[:40])
def test_mini_batches_of_other_rows_are_refused(fanouts: list[int], options: dict[str, Any], reason: str) -> None:
    loader = Loader(DATA, fanouts, **{"batch_size": 40} | options)
    with pytest.raises(UsageError, match=re.escape(reason)) as error:
        made(GraphSAGE).inference(loader)
    assert "give it Loader(data, [-1])" in str(error.value)


def test_a_graph_without_tensors_is_refused() -> None:
    data = copy.copy(DATA)
    for index, name in enumerate(("train_mask", "val_mask", "test_mask")):
        data[name] = torch.arange(NODES) % 3 == index
    with pytest.raises(UsageError, match="got Graph in place of a PyG Data"):
        made(GraphSAGE).inference(Loader(as_graph(data), [-1]))
