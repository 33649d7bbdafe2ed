"""Commands on a graph with node types: described, tuned with a model of the user's own, trained and predicted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from a3gnn import Task, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import Sampler
from a3gnn.training.describe import described
from a3gnn.training.trainer import Trainer
from a3gnn.training.tuned import TunedConfig
from tests.commands import a3gnn, process
from tests.graphs.test_typed_task import papers


@pytest.mark.slow
def test_a_graph_with_types_is_tuned_trained_and_predicted(tmp_path: Path) -> None:
    file, options = tmp_path / "papers.pt", ("--target", "paper", "--fanouts", "4,3", "--budget", "1")
    torch.save(papers(), file)
    assert "author" in a3gnn("graph", "info", file).stdout
    described = json.loads(a3gnn("graph", "info", f"target:paper:{file}", "--json").stdout)
    assert (described["relations"], described["num_train"]) == (6, 18)
    own = "tests.typed_models:gat"
    # The baseline lies outside, so what is tried must keep the limits on any machine.
    fixed = ("--fix", "batch_size=9", "--max-accuracy-drop", "60")
    done = process("tune", "--dataset", file, *options, "--model", own, "--out", tmp_path / "tune", *fixed)
    assert done.returncode == 0, done.stderr
    assert "edges of 6 relations" in done.stderr
    assert TunedConfig.read(tmp_path / "tune").setting.task.model == own
    done = a3gnn("train", tmp_path / "tune", "--epochs", 2, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    done = a3gnn("predict", tmp_path / "run", "--dataset", file, "--out", tmp_path / "found.npy")
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "found.npy").shape == (30, 3)
    assert a3gnn("recommend", "--dataset", file).returncode == 2


def test_a_target_that_does_not_fit_is_said(tmp_path: Path) -> None:
    torch.save(papers(), tmp_path / "papers.pt")
    done = a3gnn("train", "--model", "rsage", "--dataset", tmp_path / "papers.pt", "--target", "papr")
    assert (done.returncode, "must be one of the node types author, paper, topic" in done.stderr) == (2, True)
    assert "did you mean 'paper'?" in done.stderr
    done = a3gnn("train", "--model", "rsage", "--target", "paper")
    assert (done.returncode, "--target paper needs --dataset" in done.stderr) == (2, True)


def test_what_a_mini_batch_traverses_counts_the_edges_of_all_relations() -> None:
    graph = Graph.from_pyg(papers())
    task = described(Task(model="rsage", hidden_channels=8, fanouts=(2, 3)), graph)
    with Trainer(graph, TrainConfig(batch_size=5), task) as trainer:
        step = next(trainer.steps(0))
        (subgraph, *_) = trainer.first_samples(1)
    hops = Sampler(graph.edges, (2,), seed=task.seed).sample(subgraph.n_id[:5], 0, 0)
    assert step.traversed.nodes == sum(subgraph.hop_sizes)
    assert step.traversed.edges == 2 * hops.num_edges + (subgraph.num_edges - hops.num_edges)
