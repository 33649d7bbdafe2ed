"""Values of edges in graphs with node types: models of the user's own get them by relation, as in plain PyG."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from a3gnn import Task, TrainConfig, predict, predict_links, train
from a3gnn.errors import GraphError, ModelError
from a3gnn.evaluation.own_evaluator import EvaluationPlan, planned_outputs
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.user_model import UserModel
from a3gnn.training.describe import described
from a3gnn.training.saved_model import SavedModel
from a3gnn.training.trainer import Trainer
from tests.graphs.test_typed_task import papers
from tests.training.test_edge_tasks import RATES, ratings, run
from tests.training.test_typed_training import CPU, fresh

MODELS = ("tests.typed_models:valued", "tests.typed_models:converted_valued")
ATTRIBUTES = {("author", "writes", "paper"): 3, ("paper", "rev_writes", "author"): 3, ("paper", "cites", "paper"): 2}


def with_values() -> HeteroData:
    """Returns papers with edge_attr of some relations, and edge_weight of the others."""
    data, rng = papers(), torch.Generator().manual_seed(4)
    for relation in data.edge_types:
        count = data[relation].edge_index.shape[1]
        if relation in ATTRIBUTES:
            data[relation].edge_attr = torch.randn(count, ATTRIBUTES[relation], generator=rng)
        else:
            data[relation].edge_weight = torch.rand(count, generator=rng)
    return data


def task_of(model: str) -> Task:
    return Task(model=model, fanouts=(-1, -1), learning_rate=0.01)


def arguments(data: HeteroData, model: str) -> tuple[Any, ...]:
    """Returns the arguments of a model for the whole graph, from the data itself, duplicates added up."""
    relations = [one for kind in data.node_types for one in data.edge_types if one[2] == kind]
    x = {kind: data[kind].get("x") for kind in data.node_types}
    x = {kind: torch.arange(data[kind].num_nodes) if one is None else one.to_dense() for kind, one in x.items()}
    edges, values = {}, {"edge_attr": {}, "edge_weight": {}}
    for one in relations:
        store = data[one]
        edges[one], place = store.edge_index.unique(dim=1, return_inverse=True)
        for name, of in values.items():
            if name in store:
                of[one] = torch.zeros(edges[one].shape[1], *store[name].shape[1:]).index_add_(0, place, store[name])
    return x, edges, *(values.values() if model == MODELS[0] else [values["edge_weight"]])


def outputs(module: nn.Module, data: HeteroData, model: str) -> torch.Tensor:
    return module(*arguments(data, model))["paper"]


def test_values_are_stored_by_relation_and_come_back(tmp_path: Path) -> None:
    data = with_values()
    graph = Graph.from_pyg(data)
    assert graph.types is not None
    found = graph.in_channels.edge_values
    assert found["edge_attr"] == ATTRIBUTES
    assert found["edge_weight"] == dict.fromkeys([("topic", "of", "paper"), ("paper", "rev_of", "topic")], 1)
    again = Graph.from_pyg(graph.to_pyg())
    assert again.fingerprint == graph.fingerprint
    stored = graph.save(tmp_path / "stored")
    assert stored.in_channels == graph.in_channels
    assert stored.fingerprint == graph.fingerprint
    expected = arguments(data, MODELS[0])
    store = graph.to_pyg()["paper", "cites", "paper"]
    reference = expected[1]["paper", "cites", "paper"]
    by_target = np.lexsort((reference[0].numpy(), reference[1].numpy()))
    torch.testing.assert_close(store.edge_attr, expected[2]["paper", "cites", "paper"][by_target])
    wrong = dataclasses.replace(graph.types, edge_columns={**graph.types.edge_columns, "edge_weight": (1,)})
    with pytest.raises(GraphError, match="columns of each relation"):
        dataclasses.replace(graph, types=wrong)


@pytest.mark.parametrize("model", MODELS)
def test_an_epoch_of_whole_neighborhoods_is_plain_pyg(model: str) -> None:
    data = with_values()
    graph = Graph.from_pyg(data)
    task = described(task_of(model), graph)
    reference = fresh(task, graph)
    adam = torch.optim.Adam(reference.parameters(), lr=0.01)
    ids = graph.train_ids - 7
    with Trainer(graph, TrainConfig(batch_size=64), task) as trainer:
        for epoch in range(3):
            (step,) = trainer.steps(epoch)
            adam.zero_grad()
            loss = functional.cross_entropy(outputs(reference, data, model)[ids], data["paper"].y[ids])
            loss.backward()
            adam.step()
            assert step.loss == pytest.approx(loss.item(), rel=1e-4)
        for (name, one), other in zip(trainer.model.state_dict().items(), reference.state_dict().values(), strict=True):
            assert torch.allclose(one, other, atol=2e-4), name


@pytest.mark.parametrize("model", MODELS)
def test_all_ways_to_evaluate_agree(model: str) -> None:
    data = with_values()
    graph = Graph.from_pyg(data)
    task = described(task_of(model), graph)
    module = fresh(task, graph).eval()
    user = UserModel.of(model, module, graph.target_type).on(graph.edge_values)
    ids, expected = np.arange(7, 37, dtype=np.int32), outputs(module, data, model).detach()
    plans = [
        EvaluationPlan("whole", (), (ids,), 0.0, 0.0, ""),
        EvaluationPlan("full", (-1, -1), (ids[:11], ids[11:]), 0.0, 0.0, ""),
        EvaluationPlan("sampled", (40, 40), (ids[:1], ids[1:]), 0.0, 0.0, ""),
    ]
    for plan in plans:
        parts = planned_outputs(plan, user, graph, task, num_outputs=3, device=CPU, on_chunk=lambda: None)
        assert torch.allclose(torch.cat([some for _, some in parts]), expected, atol=1e-5), plan.kind


def test_prediction_is_that_of_plain_pyg_and_needs_the_same_values(tmp_path: Path) -> None:
    data, model = with_values(), MODELS[0]
    lines: list[str] = []
    train(TrainConfig(batch_size=5), data, task=task_of(model), epochs=2, out=tmp_path / "run", notify=lines.append)
    assert any("forward takes edge_attr and edge_weight" in line for line in lines)
    saved = SavedModel.read(tmp_path / "run")
    graph = Graph.from_pyg(data)
    module = fresh(saved.task, graph)
    module.load_state_dict(saved.weights)
    expected = torch.softmax(outputs(module.eval(), data, model), dim=1).detach()
    torch.testing.assert_close(predict(tmp_path / "run", data), expected, atol=1e-5, rtol=1e-4)
    other = with_values()
    other["paper", "cites", "paper"].edge_attr = torch.ones(53, 3)
    with pytest.raises(GraphError, match="edge_values of the model's training"):
        predict(tmp_path / "run", other)
    with pytest.raises(ModelError, match="forward needs edge_weight, which the graph lacks"):
        train(TrainConfig(), papers(), task=task_of(MODELS[1]), epochs=1, out=tmp_path / "lacks")


def test_an_unread_value_is_named_and_does_not_matter_to_prediction(tmp_path: Path) -> None:
    lines: list[str] = []
    task = Task(model="rsage", hidden_channels=8)
    train(TrainConfig(), with_values(), task=task, epochs=1, out=tmp_path / "run", notify=lines.append)
    assert "edge_attr and edge_weight of the graph's edges are not read by rsage" in lines
    torch.testing.assert_close(predict(tmp_path / "run", papers()), predict(tmp_path / "run", with_values()))


def test_the_encoder_of_links_and_of_values_gets_weights_of_other_train_edges_alone(tmp_path: Path) -> None:
    path = ratings(tmp_path)
    graph = Graph.load(f"target:{RATES}=edge_weight:{path}")
    assert graph.links is not None
    data = graph.edge_values["edge_weight"]
    train_values = graph.labels[graph.train_ids]
    assert sorted(data.tolist()) == sorted([*train_values.tolist(), *train_values.tolist()])  # and of the reverse
    fields = {"model": "tests.typed_models:link_encoder", "hidden_channels": 256, "dropout": 0.5}
    run(f"target:{RATES}=edge_weight:{path}", tmp_path / "run", task=fields)
    run(f"target:{RATES}:{path}", tmp_path / "links", task=fields)
    assert next(predict_links(tmp_path / "links", path, notify=lambda line: None)).scores.shape == (40, 10)


def test_predict_counts_the_columns_of_a_model_without_types(tmp_path: Path) -> None:
    from torch_geometric.data import Data

    def data(columns: int) -> Data:
        edges = torch.randint(20, (2, 90), generator=torch.Generator().manual_seed(0))
        return Data(torch.randn(20, 4), edges, torch.randn(90, columns), torch.arange(20) % 2)

    run(
        data(3),
        tmp_path / "run",
        task={"model": "tests.typed_models:attributed", "hidden_channels": 256, "dropout": 0.5},
    )
    with pytest.raises(GraphError, match="edge_attr with 3 columns, as in the model's training, got 2 columns"):
        predict(tmp_path / "run", data(2))
