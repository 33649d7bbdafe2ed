"""`batch_size=all`: full-batch training beside PyG's, what stays the same between epochs, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig, check_whole
from a3gnn.errors import ConfigError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.graphs.graph import Graph
from a3gnn.knobs import ALL
from a3gnn.models.model import build_model
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.ranks.peers import Member
from a3gnn.task import MODELS, Task
from a3gnn.training.pyg_modules import pyg_module, to_pyg_state_dict
from a3gnn.training.saved_model import SavedModel
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.commands import a3gnn
from tests.training.pyg import whole

WHOLE = TrainConfig(batch_size=ALL)
#: Gradients of the whole graph are sums over thousands of rows, so they are compared with PyG's in double precision.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


class FullBatch(nn.Module):
    """PyG's layers with norms between them and residuals (docs/reference/models.md), for a whole graph."""

    def __init__(self, task: Task, graph: Graph) -> None:
        super().__init__()
        self.task, self.graph, widths = task, graph, (graph.num_features, graph.num_classes)
        self.layers = pyg_module(dataclasses.replace(task, residual=False), *widths)
        self.shortcuts = build_model(task, *widths).shortcuts

    def take(self, state: dict[str, torch.Tensor]) -> None:
        """Loads the weights of a3gnn's model."""
        task = dataclasses.replace(self.task, residual=False)
        own = {name: one for name, one in state.items() if not name.startswith("shortcuts.")}
        self.layers.load_state_dict(to_pyg_state_dict(own, task))
        self.shortcuts.load_state_dict({n.removeprefix("shortcuts."): one for n, one in state.items() if n not in own})

    def forward(self) -> torch.Tensor:
        x, edge_index = whole(self.graph)
        x, values = x.double(), {}
        if self.task.edge_dim:
            data = self.graph.to_pyg()
            edge_index = data.edge_index
            name = "edge_weight" if self.task.model == "gcn" else "edge_attr"
            values = {name: torch.as_tensor(data[name]).double()}
        for i, conv in enumerate(self.layers.convs):
            out = conv(x, edge_index, **values)
            if self.task.residual == "linear" or (self.task.residual and i):
                shortcut = self.shortcuts[i - (self.task.residual is True)]
                out = out + (shortcut(x) if isinstance(shortcut, nn.Linear) else x)
            if i == len(self.layers.convs) - 1:
                return out
            x = (out if self.task.norm == "none" else self.layers.norms[i](out)).relu()
        raise AssertionError("there is a last layer")


def check_epochs(graph: Graph, task: Task, folder: Path) -> None:
    """Checks that losses and gradients of two epochs are those of full-batch training by PyG."""
    train_ids = torch.from_numpy(np.array(graph.train_ids)).long()
    y = torch.from_numpy(np.array(graph.labels))[train_ids].long()
    theirs = FullBatch(task, graph)
    with Trainer(graph, WHOLE, task, TrainerOptions(scratch=folder)) as trainer:
        for epoch in range(2):
            theirs.float().take(copy.deepcopy(trainer.model.state_dict()))
            theirs.double().train().zero_grad()
            expected = functional.cross_entropy(theirs()[train_ids], y)
            expected.backward()
            (step,) = trainer.steps(epoch)
            assert step.loss == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
            assert step.seeds == len(train_ids)
            found = {name: one.grad for name, one in trainer.model.named_parameters()}
            names = to_pyg_names(theirs, task)
            for name, one in found.items():
                torch.testing.assert_close(one.double(), names[name].grad, **CLOSE, msg=lambda m, n=name: f"{n}: {m}")


def to_pyg_names(theirs: FullBatch, task: Task) -> dict[str, nn.Parameter]:
    """Returns the parameters of PyG's layers and the shortcuts, by the names of a3gnn's model."""
    return dict(theirs.layers.named_parameters()) | dict(theirs.shortcuts.named_parameters("shortcuts"))


@pytest.mark.parametrize(("norm", "residual"), [("none", False), ("batch", True), ("layer", True), ("layer", "linear")])
@pytest.mark.parametrize("model", MODELS)
def test_trains_as_pyg_does_in_full_batches(model: Any, norm: Any, residual: Any, small_graph, tmp_path) -> None:
    fields = {"hidden_channels": 16, "heads": 2, "dropout": 0.0, "fanouts": (2, 2, 2)}
    check_epochs(small_graph, Task(model=model, norm=norm, residual=residual, **fields), tmp_path)


@pytest.mark.parametrize(("layers", "residual"), [(1, True), (1, "linear"), (7, True), (7, "linear")])
@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_any_depth_is_exact(model: Any, layers: int, residual: Any, sparse_graph, tmp_path) -> None:
    task = Task(model=model, fanouts=(2,) * layers, hidden_channels=8, dropout=0.0, norm="layer", residual=residual)
    check_epochs(sparse_graph, task, tmp_path)


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_reads_values_of_edges(model: Any, valued_graph, tmp_path) -> None:
    task = Task(model=model, hidden_channels=8, heads=2, fanouts=(5, 3), dropout=0.0)
    check_epochs(valued_graph, with_metric(task, None, valued_graph, print), tmp_path)


def test_only_needed_nodes_are_computed_unless_layers_normalize_over_nodes(small_graph, tmp_path) -> None:
    few = dataclasses.replace(small_graph, train_ids=small_graph.train_ids[:20])
    sizes = {}
    for model, norm in (("sage", "layer"), ("sage", "batch"), ("gin", "none")):
        task = Task(model=model, norm=norm, fanouts=(2, 2), hidden_channels=8)  # type: ignore[arg-type]
        with Trainer(few, WHOLE, task, TrainerOptions(scratch=tmp_path)) as trainer:
            (one,) = trainer.first_samples(3)
            sizes[model, norm] = one.hop_sizes
            assert np.array_equal(one.n_id[:20], np.sort(few.train_ids))
    assert sizes["sage", "layer"][0] == 20 < sizes["sage", "layer"][1] < 2000
    assert sizes["sage", "batch"] == (20, 2000, 2000)
    assert sizes["gin", "none"] == (2000, 2000, 2000)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("graph", ["small_graph", "sparse_graph"])
def test_nothing_is_sampled_or_read_again(graph, compute_dtype, request, tmp_path) -> None:
    found = request.getfixturevalue(graph)
    config = WHOLE.replace(compute_dtype=compute_dtype)
    with Trainer(found, config, Task(hidden_channels=8), TrainerOptions(scratch=tmp_path)) as trainer:
        steps = [step for epoch in range(3) for step in trainer.steps(epoch)]
        assert not list(trainer.steps(3, start=1))
    assert [step.epoch for step in steps] == [0, 1, 2]
    assert all(step.seconds.sample == step.seconds.gather == 0 for step in steps[1:])
    assert steps[2].loss < steps[0].loss


def test_a_resumed_run_is_bit_identical(small_folder_graph, tmp_path) -> None:
    task, options = Task(hidden_channels=8, norm="batch", residual=True), {"progress": False, "notify": lambda _: None}
    for out, parts in (("whole", (4,)), ("parts", (2, 4))):
        for epochs in parts:
            given = {"task": task, "epochs": epochs, "out": tmp_path / out, "resume": epochs > parts[0]}
            found = train(WHOLE, small_folder_graph, **given, **options)
    assert found.config == WHOLE
    one, other = (SavedModel.read(tmp_path / out / "model.pt").weights for out in ("whole", "parts"))
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())


def test_the_command_takes_it_and_results_name_it(small_folder_graph, tmp_path) -> None:
    options = ("--dataset", small_folder_graph.folder, "--hidden", "8", "--epochs", "2", "--out", tmp_path / "a")
    run = a3gnn("train", "--model", "gcn", "--fix", "batch_size=all", "--json", *options)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["config"]["batch_size"] == "all"
    for value, message in (("batch_size=none", "batch_size must be a whole number"), ("batches=all", "batch_size")):
        run = a3gnn("train", "--model", "gcn", "--fix", value, *options[:-1], tmp_path / "b")
        assert run.returncode == 2
        assert message in run.stderr


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"typed": True}, "types or links"),
        ({}, {"typed": False, "parted": True}, "graph servers"),
        ({}, {"typed": False, "several": True}, "one process"),
        ({"trainers": 2}, {"typed": False}, "one trainer"),
        ({"feature_tier": "disk"}, {"typed": False}, "feature_tier disk"),
    ],
)
def test_what_has_no_whole_graph_is_refused(changes, options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        check_whole(WHOLE.replace(**changes), Task(), **options)
    check_whole(TrainConfig(**changes), Task(), **options)


def test_own_models_and_ranks_are_refused_before_training(small_graph, tmp_path) -> None:
    with pytest.raises(ConfigError, match="needs a built-in model, got tests"):
        check_whole(WHOLE, Task(model="tests.own_models:sage"), typed=False)
    with pytest.raises(ConfigError, match="features in RAM"):
        Trainer(small_graph, WHOLE.replace(feature_tier="disk"), Task(), TrainerOptions(scratch=tmp_path))
    with pytest.raises(ConfigError, match="one process"):
        Trainer(small_graph, WHOLE, Task(), member=Member(None, None))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a loop of your own"):
        Pipeline(small_graph, WHOLE, (-1, -1), PipelineOptions(seed=0))
