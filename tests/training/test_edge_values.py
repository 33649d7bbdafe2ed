"""Built-in models that read edge_attr or edge_weight: beside PyG's modules, in every way of training, and in files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from a3gnn.apply.predict import predict
from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, GraphError, UsageError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.evaluation.evaluate import edges_of
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.models.model import Model, build_model
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.pyg_edges import edge_index
from a3gnn.sampling.share import Shares
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn.training.batch_model import BatchModel
from a3gnn.training.pyg_modules import from_pyg_state_dict, pyg_module, to_pyg_state_dict
from a3gnn.training.trainer import Trainer, TrainerOptions

MODELS = ["gcn", "gat", "gatv2", "transformer"]


def task_of(graph: Graph, model: str, **fields: object) -> Task:
    return with_metric(Task(model=model, hidden_channels=8, heads=2, fanouts=(5, 3), **fields), None, graph, print)


def shaken(model: Model) -> Model:
    for one in model.parameters():
        torch.nn.init.normal_(one, std=0.3)
    return model


def by_pyg(task: Task, model: torch.nn.Module, graph: Graph) -> torch.Tensor:
    module, data = pyg_module(task, graph.num_features, graph.num_classes), graph.to_pyg()
    module.load_state_dict(to_pyg_state_dict(model.state_dict(), task))
    with torch.no_grad():
        found: torch.Tensor = module.eval()(data.x, data.edge_index, **{one: data[one] for one in task.edge_values})
    return found


@pytest.mark.parametrize(("chunk_bytes", "in_place"), [(1 << 30, True), (100_000, True), (100_000, False)])
@pytest.mark.parametrize("model", MODELS)
def test_evaluation_layer_by_layer_equals_pyg(model, chunk_bytes, in_place, valued_graph, tmp_path) -> None:
    task = task_of(valued_graph, model)
    ours = shaken(build_model(task, valued_graph.num_features, valued_graph.num_classes)).eval()
    ids = np.sort(np.random.default_rng(0).choice(valued_graph.num_nodes, 700, replace=False)).astype(np.int32)
    options = {"scratch": Scratch(tmp_path), "chunk_bytes": chunk_bytes, "in_place": in_place}
    for some in (ids, np.arange(valued_graph.num_nodes, dtype=np.int32)):
        inference = Inference(valued_graph, some, 2, edges=edges_of(valued_graph, task), **options)
        found = torch.cat([rows for _, rows in inference.logits(ours)])
        torch.testing.assert_close(
            found, by_pyg(task, ours, valued_graph)[torch.from_numpy(some).long()], rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("model", MODELS)
def test_mini_batches_equal_pyg(model, dtype, valued_graph, tmp_path) -> None:
    task = task_of(valued_graph, model, dropout=0.0)
    config = TrainConfig(batch_size=64, compute_dtype=dtype)
    with Trainer(valued_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        batch = next(iter(trainer._pipeline.epoch(0)))
        shaken(trainer.model)
        module = pyg_module(task, valued_graph.num_features, valued_graph.num_classes)
        module.load_state_dict(to_pyg_state_dict(trainer.model.state_dict(), task))
        loss = trainer._learner.loss(batch)
        loss.backward()
        values, edges = batch.edges[task.edge_values[0]], edge_index(batch.indptr, batch.indices)
        out = module(batch.x.float(), edges, **{task.edge_values[0]: values})[: batch.num_seeds]
        theirs = torch.nn.functional.cross_entropy(out, batch.y)
        theirs.backward()
        close = {"rtol": 1e-3, "atol": 1e-4} if dtype == "float32" else {"rtol": 0.1, "atol": 0.1}
        torch.testing.assert_close(loss, theirs, **close)
        for name, one in trainer.model.named_parameters():
            torch.testing.assert_close(one.grad, module.get_parameter(name).grad, **close)


def weights_after(graph: Graph, config: TrainConfig, task: Task, folder) -> dict[str, torch.Tensor]:
    with Trainer(graph, config, task, TrainerOptions(scratch=folder)) as trainer:
        losses = [sum(step.loss for step in trainer.steps(epoch)) for epoch in range(3)]
        assert losses[-1] < losses[0]
        return {name: one.clone() for name, one in trainer.model.state_dict().items()}


@pytest.mark.parametrize("model", ["gcn", "gat", "transformer"])
def test_every_way_of_training_learns(model, valued_graph, tmp_path) -> None:
    task, config = task_of(valued_graph, model, learning_rate=0.01), TrainConfig(batch_size=128)
    plain = weights_after(valued_graph, config, task, tmp_path)
    for changes in (
        {"parallel_mode": "mode1", "num_workers": 2},
        {"cache_bytes": 60_000},
        {"feature_tier": "disk"},
    ):
        found = weights_after(valued_graph, config.replace(**changes), task, tmp_path)
        assert all(torch.equal(one, plain[name]) for name, one in found.items())
    for changes in ({"num_partitions": 3}, {"cache_bytes": 60_000, "bias_rate": 4.0}):
        found = weights_after(valued_graph, config.replace(**changes), task, tmp_path)
        assert not all(torch.equal(one, plain[name]) for name, one in found.items())
    with pytest.raises((ConfigError, UsageError), match="input_aggregation"):
        Trainer(valued_graph, config.replace(input_aggregation="full"), task)


@pytest.mark.parametrize(
    ("model", "sampling"),
    # The degrees of gcn differ in shares that are sampled alone, also without weights.
    [*((model, "whole") for model in MODELS), ("gat", "independent"), ("transformer", "independent")],
)
def test_several_trainers_equal_one(model, sampling, valued_graph, tmp_path) -> None:
    task, found = task_of(valued_graph, model, dropout=0.3), []
    task = dataclasses.replace(task, fanouts=(-1, -1))  # shares that sample alone then see the same edges
    for place, trainers in enumerate([None, "cpu:1,cpu:1"]):
        result = train(
            TrainConfig(batch_size=200),
            valued_graph,
            task=task if sampling == "whole" else dataclasses.replace(task, dropout=0.0),
            epochs=2,
            patience=None,
            trainers=trainers,
            trainer_sampling=sampling if trainers else "whole",
            out=tmp_path / str(place),
            notify=lambda line: None,
        )
        found.append(torch.load(result.folder / "model.pt", weights_only=True))
    for name, one in found[0].items():
        if name.endswith("lin_key.bias"):
            continue  # softmax leaves it no gradient, and Adam steps by the signs of rounding errors
        torch.testing.assert_close(found[1][name], one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_losses_of_shares_add_up(model, valued_graph, tmp_path) -> None:
    task, config, losses = task_of(valued_graph, model, dropout=0.3), TrainConfig(batch_size=200), []
    with Trainer(valued_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        shaken(trainer.model)
        values = {name: valued_graph.edge_values[name] for name in task.edge_values}
        for shares in (None, Shares.equal(0, 2), Shares.equal(1, 2)):
            options = PipelineOptions(seed=task.seed, edge_values=values, shares=shares)
            with Pipeline(valued_graph, config, task.fanouts, options) as pipeline:
                losses.append(trainer._learner.loss(next(iter(pipeline.epoch(0)))).item())
    assert losses[0] == pytest.approx(losses[1] + losses[2], rel=1e-5)
    assert min(losses) > 0


@pytest.mark.parametrize("model", [*MODELS, "sage"])
def test_training_and_prediction_say_what_they_read(model, valued_graph, tmp_path) -> None:
    lines: list[str] = []
    task = Task(model=model, hidden_channels=8, heads=2, fanouts=(5, 3))
    result = train(
        TrainConfig(batch_size=256),
        valued_graph,
        task=task,
        epochs=2,
        patience=None,
        out=tmp_path / "run",
        notify=lines.append,
    )
    read, *left = {"gcn": ["edge_weight", "edge_attr"], "sage": ["", "edge_attr and edge_weight"]}.get(
        model, ["edge_attr", "edge_weight"]
    )
    assert (f"{model} takes {read} of the graph's edges" in lines) == bool(read)
    assert any(line.startswith(f"{left[0]} of the graph's edges") and "not read by" in line for line in lines)
    found = predict(result.folder, valued_graph, notify=lines.append)
    state = torch.load(result.folder / "model.pt", weights_only=True)
    known = task_of(valued_graph, model)
    net = build_model(known, valued_graph.num_features, valued_graph.num_classes)
    net.load_state_dict(state)
    torch.testing.assert_close(found, by_pyg(known, net, valued_graph).softmax(dim=1), rtol=1e-3, atol=1e-4)
    plain = dataclasses.replace(valued_graph, edge_attr=None, edge_weight=None)
    if model == "sage":
        assert known == dataclasses.replace(task, edge_dim=0)
        torch.testing.assert_close(predict(result.folder, plain), found)
        return
    with pytest.raises(GraphError, match=f"must have {read} with {known.edge_dim} column"):
        predict(result.folder, plain)
    assert from_pyg_state_dict(to_pyg_state_dict(state, known), known).keys() == state.keys()


def test_a_graph_without_values_has_the_keys_that_it_had(small_graph, valued_graph) -> None:
    for model in MODELS:
        task = Task(model=model)
        assert with_metric(task, None, small_graph, print) == task
        assert "edge_dim" not in task.to_dict()
        valued = with_metric(task, None, valued_graph, print)
        assert valued.edge_dim == (1 if model == "gcn" else 3)
        assert valued.key() != task.key()
        assert Task.from_dict(valued.to_dict()) == valued
        assert with_metric(valued, None, small_graph, print) == task
        assert valued.with_model("sage").edge_dim == 0


def test_what_can_not_be_is_refused(valued_graph, small_graph) -> None:
    negative = dataclasses.replace(valued_graph, edge_weight=valued_graph.edge_weight - 0.5)
    with pytest.raises(GraphError, match=r"edge_weight must be >= 0 for gcn.*got -0"):
        task_of(negative, "gcn")
    assert task_of(negative, "gat").edge_dim == 3
    with pytest.raises(GraphError, match=r"must have edge_attr with 3 columns, .* got 0 columns"):
        Trainer(small_graph, TrainConfig(), task_of(valued_graph, "gat"))
    with pytest.raises(ConfigError, match="edge_dim must be 0, or columns of edge_attr"):
        Task(model="sage", edge_dim=1)
    with pytest.raises(ConfigError, match="or 1 for gcn, got 3"):
        Task(model="gcn", edge_dim=3)
    with pytest.raises(ConfigError, match=r"Loader\.minibatches have no values of edges"):
        BatchModel(task_of(valued_graph, "gat"), 32, 5)


def test_a_tune_leaves_out_what_reads_no_values(valued_graph, small_graph, hardware: Hardware) -> None:
    found = {}
    for graph in (small_graph, valued_graph):
        setting = Setting(task_of(graph, "gcn"), graph.characteristics(), hardware)
        space = SearchSpace.of(setting)
        found[graph.name] = {name: space.knob(name).values for name in ("input_aggregation", "sampling_device")}
    assert found["valued"] == {"input_aggregation": ("sampled",), "sampling_device": ("cpu",)}
    assert "full" in found[small_graph.name]["input_aggregation"]
