"""`a3gnn train --algorithm`: what ranks leave behind, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.cli.train import start_ranks
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import random_parts
from a3gnn.hitgnn.algorithms import ALGORITHM_NAMES
from a3gnn.hitgnn.algorithms.algorithm import Algorithm, check_config
from a3gnn.hitgnn.algorithms.built_in import ALGORITHMS, DISTDGL, P3, named
from a3gnn.hitgnn.algorithms.stored import by_dimension
from tests.training.ranks.launched import ended, run_loop

needs_ranks = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
EXAMPLE = Path(__file__).parents[2] / "examples" / "hitgnn_programs.py"


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()))


def learned(folder: Path) -> list[dict[str, Any]]:
    return [{name: line[name] for name in ("epoch", "loss", "val_accuracy", "traffic")} for line in lines_of(folder)]


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs `a3gnn train`, which starts its ranks itself."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    whole = [sys.executable, "-m", "a3gnn", "train", *map(str, words)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(whole, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    return subprocess.CompletedProcess(whole, *ended(process))


@pytest.mark.weekly  # prediction/test_real_run starts two for P3
@needs_ranks
@pytest.mark.slow
def test_a_command_starts_its_ranks(tmp_path):
    trained_by_ranks("p3", tmp_path)


def trained_by_ranks(name: str, tmp_path: Path) -> list[str | Path]:
    """Trains three epochs into `whole` on two ranks, and returns the arguments but for epochs and folder."""
    graph = Graph.load("synthetic:nodes=7000,degree=6,classes=4,features=8").save(tmp_path / "graph")
    asked = ["--dataset", tmp_path / "graph", "--algorithm", name, "--ranks", "2", "--model", "gin"]
    assert len(graph.train_ids) > 2 * 1024  # two iterations per epoch
    whole = command(*asked, "--epochs", "3", "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr[-4000:]
    told = " ".join(whole.stdout.split())
    assert f"Algorithm {name} on 2 ranks: " in told
    assert ("of activations" in told) == (name == "p3")
    result = json.loads((tmp_path / "whole" / "result.json").read_text())["algorithm"]
    lines = lines_of(tmp_path / "whole")
    assert result["name"] == name
    for rank in range(2):
        for count in ("rows", "hits", "host_bytes", "gradient_bytes", "activation_bytes", "seeds"):
            assert result["ranks"][rank][count] == sum(line["traffic"][rank][count] for line in lines)
        assert 0 < result["ranks"][rank]["beta"] <= 1
    return asked


@needs_ranks
@pytest.mark.weekly  # test_stopped goes on with P3
@pytest.mark.parametrize("name", ["distdgl", "p3"])
def test_a_command_goes_on_bit_identically(name, tmp_path):
    asked = trained_by_ranks(name, tmp_path)
    assert command(*asked, "--epochs", "2", "--out", tmp_path / "two", "--quiet").returncode == 0
    assert command(*asked, "--epochs", "3", "--out", tmp_path / "two", "--resume", "--quiet").returncode == 0
    assert learned(tmp_path / "two") == learned(tmp_path / "whole")
    weights = [torch.load(tmp_path / which / "model.pt", weights_only=True) for which in ("two", "whole")]
    assert all(torch.equal(weights[0][key], value) for key, value in weights[1].items())
    other = command(*asked, "--algorithm", "pagraph", "--epochs", "4", "--out", tmp_path / "two", "--resume")
    assert other.returncode != 0
    assert f"algorithm was '{name}' and is 'pagraph'" in other.stderr
    adapting = command(*asked, "--adapt", "--epochs", "1", "--out", tmp_path / "adapting")
    assert adapting.returncode != 0
    assert f"got {name}; choose one of them" in adapting.stderr


@needs_ranks
@pytest.mark.slow
def test_the_programs_of_the_paper_and_one_of_ones_own_run(small_folder_graph, tmp_path):
    run_loop(EXAMPLE, small_folder_graph.folder, tmp_path)
    found = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("*/result.json")}
    assert set(found) == {"distdgl", "pagraph", "p3", "stripes"}
    assert len({result["algorithm"]["ranks"][0]["rows"] for result in found.values()}) == 4
    assert all(result["ranks"] == 2 and result["test_accuracy"] > 0.3 for result in found.values())
    betas = {name: min(rank["beta"] for rank in result["algorithm"]["ranks"]) for name, result in found.items()}
    assert betas["p3"] == 1 > betas["distdgl"] > betas["stripes"]


def test_the_names_are_those_of_the_algorithms():
    assert tuple(ALGORITHMS) == ALGORITHM_NAMES
    assert all(named(name).name == name for name in ALGORITHM_NAMES)
    with pytest.raises(UsageError, match="must be one of distdgl, p3, pagraph, got 'distgdl'; did you mean 'distdgl'"):
        named("distgdl")


def test_one_process_is_refused(tiny_graph):
    with pytest.raises(UsageError, match="algorithm distdgl needs several ranks, got one process"):
        train(TrainConfig(), tiny_graph, algorithm=DISTDGL)


@pytest.mark.parametrize(
    "knobs",
    [
        {"num_partitions": 2},
        {"cache_bytes": 1000},
        {"seed_order": "proximity"},
        {"input_aggregation": "full"},
        {"compute_dtype": "bfloat16"},
    ],
    ids=lambda knobs: next(iter(knobs)),
)
def test_what_the_algorithm_decides_is_no_knob(knobs):
    (name,) = knobs
    with pytest.raises(UsageError, match=f"{name} must be .* with algorithm p3, got"):
        check_config(TrainConfig(**knobs), P3)
    check_config(TrainConfig(), P3)


def test_columns_without_an_exchange_are_refused(tiny_graph):
    lacking = Algorithm("mine", random_parts, by_dimension)
    with pytest.raises(UsageError, match=r"mine must have an exchange, .* columns 0 to 8 of 16"):
        lacking.stored(tiny_graph, lacking.parts(tiny_graph, 2, 0), 0, 2)


def test_ranks_are_those_that_torchrun_has_started(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    start_ranks(4)
    start_ranks(None)
    with pytest.raises(UsageError, match="the 4 processes of torchrun, got 2"):
        start_ranks(2)
