"""The loader's rows of full aggregates: equal to aggregates computed directly, readable by the right layer only."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GIN, GraphSAGE

from a3gnn import accelerate
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.models.input_rows import InputRows
from a3gnn.process.heap import trim_heap
from a3gnn.process.memory_guard import host_bytes
from a3gnn.task import OwnCost, OwnModel, Task
from a3gnn.training.tuned import TunedConfig

FULL = TrainConfig(batch_size=64, input_aggregation="full")
_COST = OwnCost(1, 1.0, 1.0, 1.0, 1.0, 1.0)


@pytest.fixture
def tuned_of(write_tuned: Callable[..., Path]) -> Callable[..., TunedConfig]:
    """Returns a maker of tuned configurations: of a model, and of knobs that differ from `FULL`."""
    plain = TunedConfig.read(write_tuned())

    def make(model: str = "sage", takes: str = "", **knobs: Any) -> TunedConfig:
        own = OwnModel("", "", takes, "mean", _COST) if takes else None
        setting = dataclasses.replace(plain.setting, task=Task(model=model, fanouts=(4, 3), own=own))
        return dataclasses.replace(plain, config=FULL.replace(**knobs), setting=setting)

    return make


def aggregates(graph: Graph, model: str) -> np.ndarray:
    """Returns the rows of the table, computed node by node in float64."""
    x = np.asarray(graph.features.array, dtype=np.float64)
    degrees = np.array([len(set(neighbors_of(graph, node)) - {node}) for node in range(graph.num_nodes)])
    found = []
    for node in range(graph.num_nodes):
        near = neighbors_of(graph, node)
        if model == "sage":
            found.append(np.concatenate([x[near].mean(0) if len(near) else 0 * x[node], x[node]]))
        elif model == "gin":
            found.append(x[near].sum(0) + x[node])
        else:
            near = near[near != node]
            scale = 1 / np.sqrt((degrees[near] + 1.0) * (degrees[node] + 1.0))
            found.append((scale[:, None] * x[near]).sum(0) + x[node] / (degrees[node] + 1.0))
    return np.array(found)


def neighbors_of(graph: Graph, node: int) -> np.ndarray:
    return np.asarray(graph.indices[graph.indptr[node] : graph.indptr[node + 1]])


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"cache_bytes": 5000, "parallel_mode": "mode1", "num_workers": 2},
        {"feature_tier": "disk"},
        {"num_partitions": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["graph", "data"])
@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_rows_are_the_aggregates_of_all_in_neighbors(
    model: str, form: str, knobs: dict[str, Any], tuned_of: Callable[..., TunedConfig], tiny_graph: Graph
) -> None:
    data = tiny_graph if form == "graph" else tiny_graph.to_pyg()
    expected = aggregates(tiny_graph, model)
    batches = list(Loader(data, [4, 3], shuffle=True, config=tuned_of(model, **knobs)))
    assert sorted(torch.cat([batch.n_id[: batch.batch_size] for batch in batches]).tolist()) == list(
        range(tiny_graph.num_nodes)
    )
    for batch in batches:
        assert isinstance(batch.x, InputRows)
        assert batch.x.shape == (len(batch.n_id), tiny_graph.num_features)
        assert len(batch.num_sampled_nodes) == 2  # the seeds and one hop
        rows = batch.x.read(batch.x.aggregator, batch.edge_index)
        np.testing.assert_allclose(rows.numpy(), expected[batch.n_id.numpy()], rtol=1e-4, atol=1e-5)


def test_a_copy_serves_the_same_rows(tuned_of: Callable[..., TunedConfig], tiny_graph: Graph) -> None:
    loader = Loader(tiny_graph.to_pyg(), [4, 3], config=tuned_of())
    for one, other in zip(copy.deepcopy(loader), loader, strict=True):
        assert torch.equal(one.x.rows, other.x.rows)


@pytest.mark.parametrize("model", ["sage", "gin"])
def test_shares_read_the_table_too(model: str, tuned_of: Callable[..., TunedConfig]) -> None:
    """The weighted gradients of shares within a memory limit equal those of the whole mini-batch."""
    data = Graph.load("synthetic:nodes=4000,degree=8,classes=4,features=16").to_pyg()
    torch.manual_seed(0)
    kind = {"sage": GraphSAGE, "gin": GIN}[model]
    net = accelerate(kind(16, 128, num_layers=3, out_channels=4))
    found = []
    for cut in (False, True):
        trim_heap()
        limit = {"memory_limit": host_bytes() + (24 << 20), "model": net} if cut else {}
        loader = Loader(data, [5, 5, 5], batch_size=500, config=tuned_of(model, batch_size=500), **limit)
        gradients = []
        for batch in islice(loader, 3):
            net.zero_grad()
            for share in batch.shares() if cut else [batch]:
                out = net(share.x, share.edge_index)[: share.batch_size]
                part = share.batch_size / batch.batch_size
                (part * torch.nn.functional.cross_entropy(out, share.y[: share.batch_size])).backward()
            gradients.append(torch.cat([weight.grad.ravel() for weight in net.parameters()]))
        found.append(gradients)
    assert loader.limited is not None
    assert loader.limited.cut >= 1
    for whole, shares in zip(*found, strict=True):
        torch.testing.assert_close(shares, whole, rtol=1e-4, atol=1e-6)


def test_limits_that_a_table_does_not_support(tuned_of: Callable[..., TunedConfig], tiny_graph: Graph) -> None:
    net = GraphSAGE(tiny_graph.num_features, 8, 2, 4)
    for name, model, message in (
        ("sage", None, "needs model=model, got none"),
        ("gcn", net, "sampled for gcn, got full"),
    ):
        with pytest.raises(UsageError, match=message):
            Loader(tiny_graph, [4, 3], config=tuned_of(name), memory_limit=1 << 50, model=model)


def test_a_folder_names_the_table_too(tuned_of: Callable[..., TunedConfig], tiny_graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "gin").mkdir()
    tuned_of("gin").write(tmp_path / "gin" / "tuned.json")
    batch = next(iter(Loader(tiny_graph, [4, 3], config=tmp_path / "gin")))
    assert batch.x.aggregator == "sum"


def test_no_other_use_of_the_rows_is_possible(tuned_of: Callable[..., TunedConfig], tiny_graph: Graph) -> None:
    data = tiny_graph.to_pyg()
    batch = next(iter(Loader(data, [4, 3], config=tuned_of())))
    x = batch.x
    assert (x.size(0), x.dtype, x.device.type, len(x), x.requires_grad) == (
        len(batch.n_id), torch.float32, "cpu", len(batch.n_id), False
    )  # fmt: skip
    assert x.to("cpu") is x
    assert x.float() is x
    assert "InputRows(mean" in repr(x)
    uses: list[Callable[[], Any]] = [
        lambda: x + 1,
        lambda: x.relu(),
        lambda: x.mul_(2),
        lambda: x[:3],
        lambda: x.T,
        lambda: x.data,
        lambda: x.double(),
        lambda: x.tolist(),
        lambda: x.numpy(),
        lambda: torch.cat([x, x]),
        lambda: torch.nn.functional.dropout(x, 0.5, training=False),
        lambda: torch.nn.Linear(x.shape[1], 2)(x),
        lambda: x.clone(),
    ]
    for use in uses:
        with pytest.raises(
            UsageError, match=r"needs an accelerated first layer that reads x, got \w+ of x; call apply"
        ):
            use()
    plain = GraphSAGE(data.num_features, 8, 2, 4)
    with pytest.raises(UsageError, match="needs an accelerated first layer that reads x"):
        plain(x, batch.edge_index)
    model = accelerate(plain)
    assert model(x, batch.edge_index).shape == (len(x), 4)
    with pytest.raises(UsageError, match="needs the mini-batch's own edge_index in the first layer, got another one"):
        model(x, batch.edge_index.flip(0))
    with pytest.raises(UsageError, match="reads the tuned table of mean, got sum"):
        x.read("sum", batch.edge_index)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subgraph_type": "induced"}, "subgraph_type='induced' needs input_aggregation sampled, got full"),
        ({"subgraph_type": "bidirectional"}, "subgraph_type='bidirectional' needs input_aggregation sampled"),
        ({"weight_attr": "weight"}, "weight_attr needs input_aggregation sampled, got full"),
        (
            {"adjs": True},
            "adjs must be False with input_aggregation full for a model that takes x and edge_index, got T",
        ),
        ({"config": FULL}, "input_aggregation full needs the result of a tune, .*, got a configuration alone; give"),
        ({"config": {"input_aggregation": "full"}}, "needs the result of a tune"),
    ],
)
def test_combinations_without_a_meaning_are_refused(
    arguments: dict[str, Any], message: str, tuned_of: Callable[..., TunedConfig], tiny_graph: Graph
) -> None:
    data = tiny_graph.to_pyg()
    data.weight = torch.rand(data.num_edges)
    with pytest.raises(UsageError, match=message):
        Loader(data, [4, 3], **{"config": tuned_of(), **arguments})


def test_data_without_a_table_is_refused(tuned_of: Callable[..., TunedConfig], tiny_graph: Graph) -> None:
    data = tiny_graph.to_pyg()
    with pytest.raises(
        UsageError, match="needs a model whose input layer learns nothing before it aggregates, got gat"
    ):
        Loader(data, [4, 3], config=tuned_of("gat"))
    doubled = Data(x=data.x, edge_index=torch.cat([data.edge_index, data.edge_index[:, :5]], dim=1))
    with pytest.raises(UsageError, match=r"needs distinct edges, got 5 repeated ones; give data\.coalesce"):
        Loader(doubled, [4, 3], config=tuned_of())
    data.x = data.x.double()
    with pytest.raises(UsageError, match="needs a dense, finite, 2-dimensional x"):
        Loader(data, [4, 3], config=tuned_of())


def test_unlabeled_data_has_a_table(tuned_of: Callable[..., TunedConfig], tiny_graph: Graph) -> None:
    data = tiny_graph.to_pyg()
    bare = Data(x=data.x, edge_index=data.edge_index)
    rows = [next(iter(Loader(one, [4, 3], config=tuned_of()))).x.rows for one in (bare, data)]
    assert torch.equal(*rows)


def test_a_model_that_takes_adjs_gets_one_edge_per_mean(
    tuned_of: Callable[..., TunedConfig], tiny_graph: Graph
) -> None:
    tuned = tuned_of("package.module:make", "adjs")
    with pytest.raises(UsageError, match="adjs must be True with input_aggregation full for a model that takes adjs"):
        Loader(tiny_graph, [4, 3], config=tuned)
    expected = torch.from_numpy(aggregates(tiny_graph, "sage")).float()
    for batch in Loader(tiny_graph.to_pyg(), [4, 3], adjs=True, config=tuned):
        mean, own = expected[batch.n_id].chunk(2, dim=1)
        first, second = batch.adjs
        torch.testing.assert_close(first @ batch.x, mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(batch.x[: len(own)], own)
        assert second.shape == (batch.batch_size, len(own))
        assert "edge_index" not in batch
