"""What is counted before training is what real ranks count while they train."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.built_in import named
from a3gnn.hitgnn.algorithms.predict import PredictedIteration, dry_run
from a3gnn.hitgnn.platforms.performance import Conditions
from a3gnn.hitgnn.platforms.workload import Workload
from a3gnn.task import Task
from tests.hitgnn.algorithms.test_train import command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed"),
]


SPEC = "synthetic:nodes=12000,degree=8,features=16,classes=4"
BATCH_SIZE = TrainConfig().batch_size


@pytest.fixture
def trained(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Trains an epoch on two real ranks and returns its result.json."""

    def train(name: str) -> dict[str, Any]:
        asked = ["--dataset", SPEC, "--model", "sage", "--fanouts", "5,4", "--epochs", "1", "--quiet"]
        ended = command(*asked, "--algorithm", name, "--ranks", "2", "--out", tmp_path / name)
        assert ended.returncode == 0, ended.stderr[-4000:]
        found: dict[str, Any] = json.loads((tmp_path / name / "result.json").read_text())
        return found

    return train


@pytest.mark.parametrize("name", [pytest.param("distdgl", marks=pytest.mark.weekly), "pagraph"])
def test_rows_and_hits_of_each_rank(name: str, trained: Callable[[str], dict[str, Any]]) -> None:
    result = trained(name)
    run = dry_run(named(name), Graph.load(SPEC), Task.from_dict(result["task"]), BATCH_SIZE, 2)
    assert len(run.iterations) > 1
    for rank, told in enumerate(result["algorithm"]["ranks"]):
        own = [row[rank] for row in run.iterations if row[rank] is not None]
        assert told["rows"] == sum(one.counts.input_nodes for one in own if one is not None)
        assert told["hits"] == sum(one.hits for one in own if one is not None)
    nodes = sum(one.counts.traversed_nodes for one in run.batches)
    assert result["nvtps"] * result["seconds_per_epoch"] == pytest.approx(nodes, rel=1e-9)


def test_partial_sums_and_their_gradients(trained: Callable[[str], dict[str, Any]]) -> None:
    result, graph = trained("p3"), Graph.load(SPEC)
    task = Task.from_dict(result["task"])
    run = dry_run(named("p3"), graph, task, BATCH_SIZE, 2)
    assert (run.schedule.weights > 0).all()  # else idle ranks' stand-ins would count in what is trained
    like = Workload.of(graph.characteristics(), task, BATCH_SIZE)
    sent = sum(PredictedIteration.of(row, run.widths, like).moved_bytes(Conditions(0.5)) for row in run.iterations)
    told = sum(rank["activation_bytes"] for rank in result["algorithm"]["ranks"])
    assert told == 2 * sent  # each is given by one rank and taken by another
