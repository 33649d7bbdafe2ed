"""A trainer over parts ends with the weights, and the quality, of one that holds the graph."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.evaluation.evaluate import validated
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.graphs.graph import Graph
from a3gnn.models.model import build_model
from a3gnn.parts.graph import PartedGraph, check_over_parts
from a3gnn.task import Task, names_factory
from a3gnn.training.trainer import Trainer, TrainerOptions

EPOCHS = 2
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mode1": {"parallel_mode": "mode1", "num_workers": 2},
    "mode2": {"parallel_mode": "mode2", "num_workers": 2},
    "cached": {"cache_bytes": 100_000},
    "clock in mode1": {"cache_bytes": 100_000, "cache_policy": "clock", "parallel_mode": "mode1", "num_workers": 2},
    "halves": {"feature_dtype": "float16"},
    "bfloat16": {"compute_dtype": "bfloat16", "seed_fanout": 4, "learning_rate_scale": 2.0},
}
MODELS = ["sage", "gcn", "gin", "gat"]


def trained(graph: Graph, config: TrainConfig, task: Task, folder: Path) -> tuple[list[torch.Tensor], float, float]:
    """Returns the weights after some epochs, and the qualities on validation and test nodes."""
    with Trainer(graph, config, task, TrainerOptions(scratch=folder)) as trainer:
        for epoch in range(EPOCHS):
            for _ in trainer.steps(epoch):
                pass
        return [weight.detach().clone() for weight in trainer.model.parameters()], trainer.validate(), trainer.test()


def check_same_training(graph: Graph, parted: PartedGraph, config: TrainConfig, task: Task, folder: Path) -> None:
    here, there = (trained(one, config, task, folder) for one in (graph, parted))
    for mine, theirs in zip(here[0], there[0], strict=True):
        assert torch.equal(mine, theirs)
    assert here[1:] == there[1:]


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_are_those_of_one_process(small_graph: Graph, parted: PartedGraph, tmp_path: Path, name: str) -> None:
    config = TrainConfig(batch_size=256, **CONFIGS[name])
    before = parted.client.traffic.requests
    check_same_training(small_graph, parted, config, Task(hidden_channels=16, fanouts=(5, 5)), tmp_path)
    assert parted.client.traffic.requests > before


@pytest.mark.parametrize("model", MODELS)
def test_every_model_trains_and_is_evaluated_the_same(
    small_graph: Graph, parted: PartedGraph, tmp_path: Path, model: str
) -> None:
    task = Task(model=model, hidden_channels=16, fanouts=(5, 5))  # type: ignore[arg-type]
    check_same_training(small_graph, parted, TrainConfig(batch_size=512), task, tmp_path)


def logits(graph: Graph, task: Task, folder: Path) -> torch.Tensor:
    model = build_model(task, graph.num_features, graph.num_classes).eval()
    inference = Inference(
        graph, validated(graph, task), task.num_layers, aggregator=model.aggregator, scratch=Scratch(folder)
    )
    return torch.cat([rows for _, rows in inference.logits(model)])


@pytest.mark.parametrize("hidden", [8, 64])  # narrow layers map before they aggregate
@pytest.mark.parametrize("model", MODELS)
def test_outputs_of_evaluation_are_bit_equal(
    small_graph: Graph, small_folder_graph: Graph, parted: PartedGraph, tmp_path: Path, model: str, hidden: int
) -> None:
    task = Task(model=model, hidden_channels=hidden)  # type: ignore[arg-type]
    found = logits(parted, task, tmp_path)
    assert torch.equal(found, logits(small_graph, task, tmp_path))
    # On disk the input layer reads a table, whose products are of other shapes: equal but for rounding.
    torch.testing.assert_close(found, logits(small_folder_graph, task, tmp_path), rtol=1e-5, atol=1e-5)


def test_a_model_of_ones_own_is_refused() -> None:
    name = "my_package.models:make"
    assert names_factory(name)
    with pytest.raises(ConfigError, match=r"the model must be a built-in one over parts, got my_package.models:make"):
        check_over_parts(TrainConfig(), Task(model=name))


@pytest.mark.parametrize(("hidden", "times"), [(64, 1), (8, 2)])  # narrow layers map rows before they aggregate
def test_rows_are_asked_for_once_or_twice(parted: PartedGraph, tmp_path: Path, hidden: int, times: int) -> None:
    task = Task(hidden_channels=hidden)
    few = validated(parted, task)[:3]
    model = build_model(task, parted.num_features, parted.num_classes).eval()
    inference = Inference(parted, few, 2, scratch=Scratch(tmp_path))
    around = np.unique(np.concatenate([few, parted.in_edges(few)[1]])).astype(np.int32)
    sources = np.unique(np.concatenate([around, parted.in_edges(around)[1]]))
    before = parted.client.traffic
    list(inference.logits(model))
    edges, rows = int(parted.counts(few).sum() + parted.counts(around).sum()), len(sources) + (times - 1) * len(around)
    assert parted.client.traffic.since(before).bytes_received == 4 * edges + 128 * rows
