"""Norms between layers and residual connections: PyG's layers as the reference, and what holds of every model."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from a3gnn.apply.predict import predict
from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.graphs.graph import Graph
from a3gnn.models.batch_blocks import blocks_of
from a3gnn.models.layers.layer import LayerShapes
from a3gnn.models.model import Model, build_model
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.search_values import reads_a_table
from a3gnn.task import Task
from a3gnn.training.pyg_modules import pyg_module, to_pyg_state_dict
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.training.pyg import whole

MODELS = ["sage", "gcn", "gin", "gat", "gatv2", "transformer"]
#: Norm and residual, but for neither.
KINDS = [("batch", False), ("layer", False), ("none", True), ("batch", True), ("layer", True)]
KINDS += [("none", "linear"), ("batch", "linear")]
#: As they come in deep models.
PAIRS = [("batch", True), ("layer", True), ("batch", "linear")]
CONFIG = TrainConfig(batch_size=128)


def make_task(model: str, norm: Any, residual: Any, **fields: Any) -> Task:
    given = {"fanouts": (6, 4, 3), "hidden_channels": 16} | fields
    return Task(model=model, norm=norm, residual=residual, heads=2, **given)


def reference(
    model: Model, task: Task, widths: tuple[int, int]
) -> tuple[Callable[[Tensor, Tensor], Tensor], dict[str, Tensor]]:
    """Returns the model of docs/reference/models.md in PyG's layers, without dropout, and the weights of `model`."""
    plain = dataclasses.replace(task, residual=False)
    state = {name: value for name, value in model.state_dict().items() if not name.startswith("shortcuts")}
    pyg = pyg_module(plain, *widths)
    pyg.load_state_dict(to_pyg_state_dict(state, plain))
    pyg.train(model.training)

    def forward(x: Tensor, edge_index: Tensor) -> Tensor:
        for i, conv in enumerate(pyg.convs):
            out = conv(x, edge_index)
            if task.residual == "linear" or (task.residual and i):
                shortcut = model.shortcuts[i - (task.residual is True)]
                out = out + (x @ shortcut.weight.t() if isinstance(shortcut, nn.Linear) else x)
            if i == len(pyg.convs) - 1:
                return out
            x = (out if task.norm == "none" else pyg.norms[i](out)).relu()
        raise AssertionError("there is a last layer")

    return forward, dict(pyg.named_parameters()) | dict(model.shortcuts.named_parameters("shortcuts"))


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(("norm", "residual"), KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_outputs_and_gradients_are_those_of_pygs_layers(model, norm, residual, training, make_block):
    task = make_task(model, norm, residual, dropout=0.0)
    ours = build_model(task, 6, 3).train(training)
    theirs, weights = reference(ours, task, (6, 3))
    block, x = make_block(20, 20), torch.randn(20, 6)
    edge_index = torch.stack([block.indices.long(), block.rows])
    for _ in range(2):  # the second finds the statistics that the first left
        outs = ours(x, [block] * 3, seed=0), theirs(x, edge_index)
        torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-4)
    cotangent = torch.randn_like(outs[0])
    names = [name for name, _ in ours.named_parameters()]
    found = torch.autograd.grad(outs[0], list(ours.parameters()), cotangent)
    expected = torch.autograd.grad(outs[1], [weights[name] for name in names], cotangent)
    for name, one, other in zip(names, found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3, msg=name)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("norm", "residual"), PAIRS)
@pytest.mark.parametrize("model", MODELS)
def test_modes_tiers_and_caches_train_bit_identically(
    model, norm, residual, compute_dtype, small_folder_graph, tmp_path
):
    task = make_task(model, norm, residual, fanouts=(8, 4))
    others: list[dict[str, Any]] = [
        {"parallel_mode": "mode1", "num_workers": 2, "cache_bytes": 30_000, "cache_policy": "clock"},
        {"parallel_mode": "mode2", "num_workers": 3, "feature_tier": "disk"},
    ]
    states = []
    for changes in ({}, *others):
        config = CONFIG.replace(compute_dtype=compute_dtype, **changes)
        with Trainer(small_folder_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
            list(trainer.steps(0))
            states.append((trainer.model.state_dict(), trainer.validate()))
    for state, accuracy in states[1:]:
        assert accuracy == states[0][1]
        assert all(torch.equal(states[0][0][name], value) for name, value in state.items())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("norm", "residual"), PAIRS)
def test_evaluation_is_the_whole_graphs_pass(model, norm, residual, small_folder_graph, tmp_path):
    task = make_task(model, norm, residual)
    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer:
        list(trainer.steps(0))
        found = trainer.validate()
        net = trainer.model.eval()
        widths = small_folder_graph.num_features, small_folder_graph.num_classes
        with torch.no_grad():
            answers = reference(net, task, widths)[0](*whole(small_folder_graph)).argmax(dim=1).numpy()
    ids = small_folder_graph.val_ids
    assert found == pytest.approx((answers[ids] == small_folder_graph.labels[ids]).mean(), abs=2 / len(ids))


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("model", MODELS)
def test_models_learn_in_either_number_format(model, compute_dtype, small_folder_graph, tmp_path):
    config = CONFIG.replace(compute_dtype=compute_dtype)
    for norm, residual in (("batch", True), ("layer", False)):
        task = make_task(model, norm, residual, learning_rate=0.01, fanouts=(8, 4))
        with Trainer(small_folder_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
            losses = [np.mean([step.loss for step in trainer.steps(epoch)]) for epoch in range(4)]
            state = trainer.model.state_dict()
        assert losses[-1] < losses[0]
        assert all(value.dtype in (torch.float32, torch.int64) for value in state.values())


@pytest.mark.parametrize(("norm", "residual"), PAIRS)
@pytest.mark.parametrize("model", ["sage", "gin"])  # GCN then takes the whole graph's degrees
def test_an_input_layer_that_aggregates_in_full_learns_what_all_neighbors_teach(
    model, norm, residual, tiny_graph, tmp_path
):
    task = make_task(model, norm, residual, fanouts=(-1, -1))
    graph, states = tiny_graph.save(tmp_path / "graph"), []
    if model == "gin" and residual == "linear":
        assert not reads_a_table(task)
        with pytest.raises(ConfigError, match="must be sampled for gin with a linear residual, got full"):
            Trainer(graph, TrainConfig(input_aggregation="full"), task, TrainerOptions(scratch=tmp_path))
        return
    for full in ("sampled", "full"):
        config = TrainConfig(batch_size=64, input_aggregation=full)
        with Trainer(graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
            list(trainer.steps(0))
            states.append(trainer.model.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("norm", "residual"), PAIRS)
def test_a_run_that_was_cut_goes_on_bit_identically_and_only_as_the_same_model(
    norm, residual, small_folder_graph, tmp_path
):
    task, whole_run, halves = make_task("sage", norm, residual), tmp_path / "whole", tmp_path / "halves"
    train(CONFIG, small_folder_graph, task=task, epochs=2, out=whole_run)
    train(CONFIG, small_folder_graph, task=task, epochs=1, out=halves)
    with pytest.raises(ConfigError, match=f"norm was '{norm}' and is 'none'"):
        train(CONFIG, small_folder_graph, task=dataclasses.replace(task, norm="none"), out=halves, resume=True)
    train(CONFIG, small_folder_graph, task=task, epochs=2, out=halves, resume=True)
    states = [torch.load(out / "model.pt", weights_only=True) for out in (whole_run, halves)]
    assert any("norms" in name for name in states[0])
    assert any("shortcuts" in name for name in states[0])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("model", ["sage", "gcn", "gat"])
def test_predictions_are_of_the_same_model(model, small_folder_graph, tmp_path):
    task = make_task(model, "batch", "linear")
    found = train(CONFIG, small_folder_graph, task=task, epochs=1, out=tmp_path, progress=False)
    widths = small_folder_graph.num_features, small_folder_graph.num_classes
    net = build_model(found.task, *widths).eval()
    net.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    with torch.no_grad():
        expected = reference(net, found.task, widths)[0](*whole(small_folder_graph)).softmax(dim=1)
    torch.testing.assert_close(predict(tmp_path, small_folder_graph), expected, rtol=1e-4, atol=1e-5)


def test_a_restart_forgets_statistics(small_folder_graph, tmp_path):
    with Trainer(
        small_folder_graph, CONFIG, make_task("sage", "batch", True), TrainerOptions(scratch=tmp_path)
    ) as trainer:
        before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
        next(trainer.steps(0))
        assert trainer.model.state_dict()["norms.0.module.num_batches_tracked"] == 1
        trainer.restart()
        assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())


@pytest.mark.parametrize("model", MODELS)
def test_weights_of_the_layers_are_those_of_the_plain_model(model):
    """A norm or a residual connection is an ablation of nothing else."""
    plain = build_model(make_task(model, "none", False), 6, 3).state_dict()
    for norm, residual in itertools.product(("batch", "layer"), (False, True, "linear")):
        other = build_model(make_task(model, norm, residual), 6, 3).state_dict()
        assert all(torch.equal(plain[name], other[name]) for name in plain.keys() & other.keys())


def test_which_layers_have_a_shortcut_and_a_norm():
    net = build_model(make_task("gcn", "batch", True), 16, 3)
    assert [type(one) for one in net.shortcuts] == [nn.Identity, nn.Linear]
    assert [one.in_channels for one in net.norms] == [16, 16]
    assert [len(part) for part in (build_model(make_task("gcn", "none", False), 6, 3).norms, net.convs)] == [0, 3]
    linear = build_model(make_task("gcn", "batch", "linear"), 6, 3)
    assert [tuple(one.weight.shape) for one in linear.shortcuts] == [(16, 6), (16, 16), (3, 16)]
    alone = build_model(make_task("gcn", "layer", True, fanouts=(5,)), 6, 3)
    assert (len(alone.norms), len(alone.shortcuts)) == (0, 0)


@pytest.mark.parametrize("residual", [True, "linear"])
def test_aggregated_features_give_the_same_logits(residual: Any, small_folder_graph: Graph) -> None:
    task = make_task("sage", "layer", residual)
    net = build_model(task, small_folder_graph.num_features, small_folder_graph.num_classes)
    outs = []
    for aggregator in (None, net.aggregator):
        with Pipeline(
            small_folder_graph, CONFIG, task.fanouts, PipelineOptions(seed=0, aggregator=aggregator)
        ) as pipeline:
            batch = next(iter(pipeline.epoch(0)))
            outs.append(net(batch.x, blocks_of(batch, with_degrees=False), aggregated=aggregator is not None, seed=3))
    torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)


def test_norms_and_residuals_cost_something():
    work, costs = LayerShapes(900, 300, 4_000, trains=True, needs_input=True), []
    for norm, residual in itertools.product(("none", "batch"), (False, True)):
        costs.append(build_model(make_task("sage", norm, residual), 6, 3).cost(1, work))
    assert costs[0] < min(costs[1:3])
    assert costs[3] == pytest.approx(costs[1] + costs[2] - costs[0])


def test_what_a_task_may_say():
    with pytest.raises(ConfigError, match="norm must be"):
        Task(norm="bach")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="residual must be True, False or linear, got 1"):
        Task(residual=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="norm must be left out for a model of your own, got batch"):
        Task(model="my_models:make", norm="batch")
    task = Task(norm="layer", residual=True)
    assert Task.from_dict(task.to_dict()) == task
    assert task.key() != Task().key()
    assert Task(residual=True).to_dict()["residual"] is True  # keys of stored tasks stay
    linear = dataclasses.replace(task, residual="linear")
    assert Task.from_dict(json.loads(json.dumps(linear.to_dict()))) == linear
    assert linear.key() not in (task.key(), dataclasses.replace(task, residual=False).key())
