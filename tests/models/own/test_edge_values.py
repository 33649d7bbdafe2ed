"""Models of the user's that read edge_attr or edge_weight: training, evaluation and prediction."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from a3gnn.apply.predict import predict
from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import GraphError, ModelError
from a3gnn.evaluation.own_evaluator import OwnEvaluator
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.factory import Factory
from a3gnn.models.own.user_model import UserModel
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer, TrainerOptions

MODELS = """
import torch
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.nn.models import GAT, GCN


class Attributes(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            [GATConv(in_channels, 8, heads=2, edge_dim=3), GATConv(16, out_channels, edge_dim=3)]
        )

    def forward(self, x, edge_index, edge_attr):
        assert edge_attr.shape == (edge_index.shape[1], 3)
        return self.convs[1](self.convs[0](x, edge_index, edge_attr).relu(), edge_index, edge_attr)


class Weights(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.convs = torch.nn.ModuleList([GCNConv(in_channels, 16), GCNConv(16, out_channels)])

    def forward(self, x, edge_index, edge_weight=None):
        return self.convs[1](self.convs[0](x, edge_index, edge_weight).relu(), edge_index, edge_weight)


class Both(Weights):
    def forward(self, x, edge_index, *, edge_attr, edge_weight):
        return super().forward(x, edge_index, edge_attr[:, 0].abs() * edge_weight)


class Layered(Weights):
    def forward(self, x, adjs, edge_attr):
        return x


def gat(in_channels, out_channels):
    return GAT(in_channels, 16, 2, out_channels)


def gat_of_attributes(in_channels, out_channels):
    return GAT(in_channels, 16, 2, out_channels, edge_dim=3)


def gcn(in_channels, out_channels):
    return GCN(in_channels, 16, 2, out_channels)
"""
CPU = torch.device("cpu")
READ = {"Attributes": ("edge_attr",), "Weights": ("edge_weight",), "Both": ("edge_attr", "edge_weight")}


@pytest.fixture
def task_of(own_task, package):
    """Returns a maker of tasks of `MODELS`, described for a graph."""
    package.write("valued", MODELS)
    return lambda graph, name: own_task(graph, f"{package.name}.valued:{name}")


def place_of(graph: Graph) -> dict[tuple[int, int], int]:
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return {ends: place for place, ends in enumerate(zip(graph.indices.tolist(), targets.tolist(), strict=True))}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_partitions": 3},
        {"cache_bytes": 60_000, "bias_rate": 4.0},
        {"parallel_mode": "mode1", "num_workers": 2},
        {"parallel_mode": "mode2", "num_workers": 2, "seed_order": "proximity"},
    ],
    ids=str,
)
def test_mini_batches_have_the_values_of_their_edges(changes, valued_graph) -> None:
    config, values, places = TrainConfig(batch_size=128).replace(**changes), valued_graph.edge_values, {}
    places = place_of(valued_graph)
    options = [PipelineOptions(seed=1), PipelineOptions(seed=1, edge_values=values)]
    with (
        Pipeline(valued_graph, config, (5, 3), options[0]) as plain,
        Pipeline(valued_graph, config, (5, 3), options[1]) as valued,
    ):
        for one, batch in zip(plain.epoch(0), valued.epoch(0), strict=True):
            assert not one.edges
            assert np.array_equal(one.subgraph.n_id, batch.subgraph.n_id)
            assert torch.equal(one.indices, batch.indices)
            n_id, rows = batch.subgraph.n_id, np.repeat(np.arange(len(batch.indptr) - 1), batch.indptr.diff().numpy())
            ends = zip(n_id[batch.indices.numpy()].tolist(), n_id[rows].tolist(), strict=True)
            expected = [places[pair] for pair in ends]
            assert len(expected) > 128
            assert {*batch.edges} == {"edge_attr", "edge_weight"}
            for name, found in batch.edges.items():
                assert np.array_equal(found.numpy(), values[name][expected])


@pytest.mark.parametrize("name", READ)
def test_whole_and_sampled_evaluation_agree(name, task_of, valued_graph) -> None:
    task = task_of(valued_graph, name)
    assert task.own.edge_values == READ[name]
    factory = Factory.of(task.model)
    model = UserModel.of(name, factory.build(valued_graph.num_features, valued_graph.num_classes, task.seed))
    model = model.on(valued_graph.edge_values)
    model.module.eval()
    found = {}
    whole = task.own.cost.bytes(valued_graph.num_nodes, valued_graph.num_edges)
    for budget in (1 << 40, round(whole) - 1):
        evaluator = OwnEvaluator(valued_graph, task, model, device=CPU, budget_bytes=budget, on_chunk=lambda: None)
        found[evaluator.plan.kind] = torch.cat([out for _, out in evaluator.outputs(evaluator.plan)])
    if name == "Attributes":  # GCN's degrees differ at the last hop, as in PyG
        torch.testing.assert_close(found["full"], found["whole"], rtol=1e-4, atol=1e-5)
    data = valued_graph.to_pyg()
    with torch.no_grad():
        expected = model.module(data.x, data.edge_index, **{value: data[value] for value in READ[name]})
    ids = torch.from_numpy(valued_graph.val_ids).long()
    torch.testing.assert_close(found["whole"], expected[ids], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("suffix", ["npz", "pt", "folder"])
@pytest.mark.parametrize("name", READ)
def test_they_train_and_predict_from_every_form(name, suffix, task_of, valued_graph, tmp_path) -> None:
    data, path = valued_graph.to_pyg(), tmp_path / f"graph.{suffix}"
    if suffix == "pt":
        torch.save(data, path)
    elif suffix == "npz":
        np.savez(path, **{key: value.numpy() for key, value in data.to_dict().items() if key != "num_nodes"})
    else:
        path = valued_graph.folder
    lines: list[str] = []
    task = Task(model=task_of(valued_graph, name).model, fanouts=(5, 3), learning_rate=0.01)
    result = train(
        TrainConfig(batch_size=256), path, task=task, epochs=2, out=tmp_path / "run", patience=None, notify=lines.append
    )
    assert any(f"forward takes {' and '.join(READ[name])}" in line for line in lines)
    found = predict(result.folder, path)
    weights = torch.load(result.folder / "model.pt", weights_only=True)
    module = Factory.of(task.model).build(valued_graph.num_features, valued_graph.num_classes, 0)
    module.load_state_dict(weights)
    with torch.no_grad():
        outputs = module.eval()(data.x, data.edge_index, **{value: data[value] for value in READ[name]})
    torch.testing.assert_close(found, outputs.softmax(dim=1), rtol=1e-4, atol=1e-5)
    other = dataclasses.replace(valued_graph, edge_attr=None, edge_weight=None)
    with pytest.raises(GraphError, match=f"must have {' and '.join(READ[name])}, which .* read in its training"):
        predict(result.folder, other)


def test_values_change_the_training(task_of, valued_graph, tmp_path) -> None:
    rolled = dataclasses.replace(valued_graph, edge_weight=np.roll(valued_graph.edge_weight, 1))
    losses = []
    for graph in (valued_graph, rolled, dataclasses.replace(valued_graph, edge_weight=None)):
        task = task_of(graph, "Weights")
        with Trainer(graph, TrainConfig(batch_size=128), task, TrainerOptions(scratch=tmp_path)) as trainer:
            losses.append(sum(step.loss for step in trainer.steps(0)))
            assert task.own.edge_values == (() if graph.edge_weight is None else ("edge_weight",))
            if graph.edge_weight is None:
                assert "edge_values" not in task.to_dict()["own"]
            assert Task.from_dict(task.to_dict()) == task
    assert len({*losses}) == 3


@pytest.mark.parametrize(
    ("name", "read"), [("gat", ()), ("gat_of_attributes", ("edge_attr",)), ("gcn", ("edge_weight",))]
)
def test_pygs_models_get_what_they_can_read(name, read, task_of, valued_graph) -> None:
    assert task_of(valued_graph, name).own.edge_values == read


def test_a_table_is_not_read_with_weights_in_the_first_layer(task_of, valued_graph) -> None:
    assert task_of(valued_graph, "Weights").aggregates is None
    assert task_of(dataclasses.replace(valued_graph, edge_weight=None), "Weights").aggregates == "gcn"


def test_missing_values_are_an_error(task_of, small_graph) -> None:
    with pytest.raises(ModelError, match="forward needs edge_attr, which the graph lacks"):
        task_of(small_graph, "Attributes")
    with pytest.raises(ModelError, match=r"forward must take \(x, edge_index\) or \(x, adjs\) and nothing else"):
        task_of(small_graph, "Layered")
