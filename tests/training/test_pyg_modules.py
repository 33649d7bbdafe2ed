"""PyG's plain modules answer what the built-in models answer, with the weights of one in the other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.graphs.graph import Graph
from a3gnn.models.model import Model, build_model
from a3gnn.task import NORMS, Task
from a3gnn.training.pyg_modules import from_pyg_state_dict, pyg_module, to_pyg_state_dict
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.training.pyg import logits_of, pyg_logits

MODELS = ["sage", "gcn", "gin", "gat", "gatv2", "transformer"]


def make_task(model: str, layers: int = 3, **fields) -> Task:
    return Task(model=model, hidden_channels=12, fanouts=(5,) * layers, heads=2, **fields)


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Returns `model` with weights, biases and statistics that all matter."""
    generator = torch.Generator().manual_seed(3)
    for name, value in model.state_dict().items():
        if value.is_floating_point() and not name.endswith("eps"):
            value.add_(torch.rand(value.shape, generator=generator), alpha=0.3)
    return model


def our_logits(model: Model, graph: Graph, folder) -> Tensor:
    ids = np.arange(graph.num_nodes, dtype=np.int32)
    inference = Inference(graph, ids, len(model.layers), scratch=Scratch(folder))
    return torch.cat([logits for _, logits in inference.logits(model.eval())])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_the_plain_module_answers_the_same_of_the_whole_graph(model, layers, norm, tiny_graph, tmp_path):
    task, widths = make_task(model, layers, norm=norm), (tiny_graph.num_features, tiny_graph.num_classes)
    ours = shaken(build_model(task, *widths))
    expected = pyg_logits(task, ours, tiny_graph)
    torch.testing.assert_close(our_logits(ours, tiny_graph, tmp_path), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", MODELS)
def test_weights_come_back_as_they_went(model, norm):
    task = make_task(model, norm=norm)
    ours, theirs = shaken(build_model(task, 7, 4)), pyg_module(task, 7, 4)
    theirs.load_state_dict(to_pyg_state_dict(ours.state_dict(), task))
    back = build_model(dataclasses.replace(task, seed=1), 7, 4)
    back.load_state_dict(from_pyg_state_dict(theirs.state_dict(), task))
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in ours.state_dict().items())


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2", "transformer"])
def test_a_module_that_pyg_trained_goes_on_here(model, tiny_graph, tmp_path):
    task = make_task(model, 2)
    theirs = shaken(pyg_module(task, tiny_graph.num_features, tiny_graph.num_classes))
    with Trainer(
        tiny_graph.on_disk(tmp_path), TrainConfig(batch_size=64), task, TrainerOptions(scratch=tmp_path)
    ) as trainer:
        trainer.model.load_state_dict(from_pyg_state_dict(theirs.state_dict(), task))
        found = logits_of(theirs, tiny_graph).argmax(dim=1).numpy()
        right = found[tiny_graph.val_ids] == tiny_graph.labels[tiny_graph.val_ids]
        assert trainer.validate() == pytest.approx(right.mean())
        list(trainer.steps(0))


def test_norms_that_change_rows_are_refused_where_the_task_has_none():
    task = make_task("gin")
    with pytest.raises(ConfigError, match=r"norms\.0.* must leave rows unchanged"):
        from_pyg_state_dict(shaken(pyg_module(task, 7, 4)).state_dict(), task)


def test_what_pyg_has_no_module_for_is_refused():
    with pytest.raises(ConfigError, match="model must be a built-in one, got my_models:make"):
        pyg_module(Task(model="my_models:make"), 7, 4)
    with pytest.raises(ConfigError, match="residual must be False"):
        to_pyg_state_dict({}, Task(residual=True))
