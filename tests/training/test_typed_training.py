"""Training, evaluation and prediction of the nodes of one type, compared with plain PyG."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from a3gnn import Task, TrainConfig, predict, train
from a3gnn.apply.predict import check_types
from a3gnn.errors import ConfigError, GraphError, ModelError, UsageError
from a3gnn.evaluation.own_evaluator import EvaluationPlan, planned_outputs
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.factory import Factory
from a3gnn.models.own.user_model import UserModel
from a3gnn.models.relational import RelationalSAGE
from a3gnn.training.describe import described
from a3gnn.training.saved_model import SavedModel
from a3gnn.training.trainer import Trainer
from tests.graphs.test_typed_task import papers

MODELS = ("rsage", "tests.typed_models:hgt", "tests.typed_models:gat", "tests.typed_models:converted")
CPU = torch.device("cpu")


@pytest.fixture
def graph() -> Graph:
    return Graph.from_pyg(papers())


def task_of(model: str, **fields: Any) -> Task:
    plain = {"hidden_channels": 8, "dropout": 0.0} if model == "rsage" else {}
    return Task(model=model, fanouts=(-1, -1), learning_rate=0.01, **{**plain, **fields})


def fresh(task: Task, graph: Graph) -> nn.Module:
    """Returns the model as training begins with it, on PyG's own code."""
    options = task.factory_options
    return Factory.of(task.model).build(graph.in_channels, graph.num_classes, task.seed, **options)


def whole(data: HeteroData) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Returns the arguments of a model for the whole graph, from the data itself, in the order of the metadata.

    HGTConv computes something else with relations in another order than in its metadata.
    """
    x = {kind: data[kind].get("x") for kind in data.node_types}
    x = {kind: torch.arange(data[kind].num_nodes) if one is None else one.to_dense() for kind, one in x.items()}
    relations = [one for kind in data.node_types for one in data.edge_types if one[2] == kind]
    return x, {one: data[one].edge_index.unique(dim=1) for one in relations}


def outputs(model: nn.Module, data: HeteroData) -> torch.Tensor:
    found = model(*whole(data))
    return found["paper"] if isinstance(found, dict) else found


@pytest.mark.parametrize("model", MODELS)
def test_an_epoch_of_whole_neighborhoods_is_plain_pyg(model: str, graph: Graph) -> None:
    task = described(task_of(model), graph)
    reference, data = fresh(task, graph), papers()
    adam = torch.optim.Adam(reference.parameters(), lr=0.01)
    ids = graph.train_ids - 7
    with Trainer(graph, TrainConfig(batch_size=64), task) as trainer:
        for epoch in range(3):
            (step,) = trainer.steps(epoch)
            adam.zero_grad()
            loss = functional.cross_entropy(outputs(reference, data)[ids], data["paper"].y[ids])
            loss.backward()
            adam.step()
            assert step.loss == pytest.approx(loss.item(), rel=1e-4)
        for (name, one), other in zip(trainer.model.state_dict().items(), reference.state_dict().values(), strict=True):
            assert torch.allclose(one, other, atol=2e-4), name
        found = outputs(reference.eval(), data)[graph.val_ids - 7].argmax(dim=1)
        right = (found == data["paper"].y[graph.val_ids - 7]).float().mean().item()
        assert trainer.validate() == pytest.approx(right)


@pytest.mark.parametrize("model", MODELS)
def test_all_ways_to_evaluate_agree(model: str, graph: Graph) -> None:
    task = described(task_of(model), graph)
    assert task.own is not None
    module = fresh(task, graph).eval()
    user, ids = UserModel.of(model, module, graph.target_type), np.arange(7, 37, dtype=np.int32)
    expected = outputs(module, papers()).detach()
    plans = [
        EvaluationPlan("whole", (), (ids,), 0.0, 0.0, ""),
        EvaluationPlan("full", (-1, -1), (ids[:11], ids[11:]), 0.0, 0.0, ""),
        EvaluationPlan("sampled", (40, 40), (ids[:1], ids[1:]), 0.0, 0.0, ""),
    ]
    for plan in plans:
        parts = planned_outputs(plan, user, graph, task, num_outputs=3, device=CPU, on_chunk=lambda: None)
        assert torch.allclose(torch.cat([some for _, some in parts]), expected, atol=1e-5), plan.kind
    least = EvaluationPlan.of(graph, task, ids, 1)
    assert least.kind == "sampled"
    assert EvaluationPlan.of(graph, task, ids, 1 << 30).kind == "whole"


@pytest.mark.parametrize("config", [{}, {"parallel_mode": "mode1", "num_workers": 2}, {"feature_dtype": "float16"}])
def test_training_and_prediction_by_file(config: dict[str, Any], tmp_path: Path) -> None:
    data = papers()
    data["paper"].x = data["paper"].x.half().float()
    torch.save(data, tmp_path / "papers.pt")
    task = Task(model="rsage", hidden_channels=8, fanouts=(3, 2))
    file, config = tmp_path / "papers.pt", {"batch_size": 5, **config}
    result = train(TrainConfig(**config), file, task=task, epochs=4, out=tmp_path / "run")
    assert result.epochs == 4
    found = predict(tmp_path / "run", file)
    assert found.shape == (30, 3)
    assert torch.allclose(found.sum(dim=1), torch.ones(30))
    graph = Graph.load(file)
    model = fresh(task, graph)
    model.load_state_dict(SavedModel.read(tmp_path / "run").weights)
    mirrored = copy.copy(data)
    mirrored["paper", "rev_cites", "paper"].edge_index = data["paper", "cites", "paper"].edge_index.flip(0)
    assert torch.allclose(outputs(model.eval(), mirrored).softmax(dim=1), found, atol=1e-5)
    assert torch.equal(predict(tmp_path / "run", file, nodes=[4, 2]), found[[4, 2]])
    del data["paper"].y
    torch.save(data, tmp_path / "unlabeled.pt")
    assert torch.equal(predict(tmp_path / "run", tmp_path / "unlabeled.pt"), found)


def test_a_resumed_training_has_the_same_bits(tmp_path: Path) -> None:
    torch.save(papers(), tmp_path / "papers.pt")
    given = TrainConfig(batch_size=4), tmp_path / "papers.pt"
    task = Task(model="rsage", hidden_channels=8)
    train(*given, task=task, epochs=4, out=tmp_path / "whole")
    train(*given, task=task, epochs=2, out=tmp_path / "parts")
    train(*given, task=task, epochs=4, out=tmp_path / "parts", resume=True)
    one, other = (SavedModel.read(tmp_path / name).weights for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("labels", "metric", "shape"),
    [
        (torch.arange(30)[:, None] % torch.tensor([2, 3]) == 0, "micro_f1", (30, 2)),
        (torch.linspace(0, 1, 30), "mae", (30,)),
    ],
)
def test_labels_of_other_kinds(labels: torch.Tensor, metric: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    data = papers()
    data["paper"].y = labels.to(torch.uint8) if labels.ndim == 2 else labels
    result = train(TrainConfig(batch_size=8), data, epochs=2, out=tmp_path / "run")
    assert (result.metric.name, result.task.model) == (metric, "rsage")
    assert predict(tmp_path / "run", data).shape == shape


def test_a_model_or_setting_that_does_not_fit_types_is_refused(graph: Graph, tmp_path: Path) -> None:
    for model, rule in (("gcn", "the model must be rsage, or your own"), ("tests.typed_models:of_layers", "got adjs")):
        with pytest.raises((ConfigError, ModelError), match=rule):
            train(TrainConfig(), graph, model=model, epochs=1, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="for a graph without node types, got rsage"):
        train(TrainConfig(), "synthetic:nodes=60", model="rsage", epochs=1, out=tmp_path / "run")
    for name, value in (("num_partitions", 2), ("seed_order", "proximity")):
        with pytest.raises(ConfigError, match=f"{name} must be .* on a graph with node types, got {value}"):
            train(TrainConfig(**{name: value}), graph, epochs=1, out=tmp_path / "run")
    with pytest.raises(UsageError, match="adapt must be left out for a graph with node types"):
        train(TrainConfig(), graph, adapt=True, epochs=1, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="heads must be left out for this model, got 2"):
        Task(model="rsage", heads=2)


@pytest.mark.filterwarnings("ignore:There exist type names")
@pytest.mark.parametrize("name", ["r#t", "r___t", "training"])
def test_names_that_pyg_confuses_are_refused(name: str, tmp_path: Path) -> None:
    data = papers()
    data["topic", name, "paper"].edge_index = data["topic", "of", "paper"].edge_index
    with pytest.raises(GraphError, match=f"names without # and ___.*got {name}"):
        train(TrainConfig(), data, epochs=1, out=tmp_path / "run")


def test_prediction_needs_the_types_of_the_training(graph: Graph) -> None:
    task = described(task_of("rsage"), graph)
    saved = SavedModel.of(fresh(task, graph), task, graph)
    check_types(saved, graph)
    others = papers(), papers(), Graph.load("synthetic:nodes=60")
    others[0]["author"].num_nodes = 9  # which have embeddings
    del others[1]["topic", "of", "paper"]
    for other, rule in zip(others, ("num_nodes", "metadata", "must have the node types"), strict=True):
        with pytest.raises(GraphError, match=rule):
            check_types(saved, other if isinstance(other, Graph) else Graph.from_pyg(other))
    more = papers()
    more["paper"].x = torch.randn(31, 4)
    more["paper"].y = torch.arange(31) % 3
    check_types(saved, Graph.from_pyg(more))


def test_the_last_layer_computes_the_target_alone(graph: Graph) -> None:
    model = fresh(task_of("rsage"), graph)
    assert isinstance(model, RelationalSAGE)
    kinds = [{key[2] for key, _ in conv.convs.items()} for conv in model.convs]
    assert kinds == [{"author", "paper", "topic"}, {"paper"}]


def test_a_type_that_no_relation_ends_in_keeps_its_rows(tmp_path: Path) -> None:
    data = papers()
    del data["paper", "rev_writes", "author"]
    train(TrainConfig(batch_size=8), data, task=Task(model="rsage", hidden_channels=8), epochs=1, out=tmp_path / "run")
    assert predict(tmp_path / "run", data).shape == (30, 3)


def test_rsage_reads_sparse_features_as_they_are_and_other_models_dense_ones(graph: Graph) -> None:
    for model in ("rsage", "tests.typed_models:hgt"):
        seen: list[torch.layout] = []
        task = described(task_of(model), graph)
        with Trainer(graph, TrainConfig(batch_size=64), task) as trainer:
            trainer.model.register_forward_pre_hook(
                lambda _, given, seen=seen: seen.append(given[0]["topic"].layout)  # type: ignore[misc]
            )
            assert len(list(trainer.steps(0))) == 1
            trainer.validate()
        assert seen == [torch.sparse_csr if model == "rsage" else torch.strided] * 2


@pytest.mark.parametrize("narrow", [False, True])
def test_rsage_maps_sparse_features_as_dense_ones(narrow: bool, graph: Graph) -> None:
    model = fresh(task_of("rsage"), graph)
    x = torch.randn(40, 5) * (torch.rand(40, 5) < 0.3)
    grads, outs = [], []
    for rows in (x, x.to_sparse_csr()):
        lin = copy.deepcopy(model.inputs["topic"])
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow and rows.is_sparse_csr):
            outs.append(lin(rows))
        outs[-1].square().sum().backward()
        grads += [lin.weight.grad, lin.bias.grad]
    torch.testing.assert_close(outs[1], outs[0])  # in float32 under autocast, too
    torch.testing.assert_close(grads[2:], grads[:2])
