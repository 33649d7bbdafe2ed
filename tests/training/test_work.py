"""NVTPS, MTEPS and energy of training: counted exactly, over trainers and ranks, and kept by checkpoints."""

from __future__ import annotations

import json
import math
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.machine.host import host_with
from a3gnn.machine.probe import device_context_bytes, kept_at, kept_hardware
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.share import cut, seed_bounds
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.task import Task
from a3gnn.training.progress import EpochTotals, Progress
from a3gnn.training.step import EpochWork, Step, WorkFigures, traversed
from a3gnn.training.trainer import Trainer
from tests.machine.rapl_folder import RaplFolder, two_packages

TASK = Task(model="sage", hidden_channels=8, fanouts=(4, 3))
CONFIG = TrainConfig(batch_size=32)


def run(graph: Graph, out: Path, config: TrainConfig = CONFIG, **others: Any) -> tuple[Any, list[dict[str, Any]]]:
    given: dict[str, Any] = {"task": TASK, "epochs": 2, "out": out, "notify": lambda line: None}
    result = train(config, graph, **given | others)
    return result, [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def expected(graph: Graph, shares: tuple[int, ...]) -> tuple[int, int]:
    """Nodes and edges of the layers of the first epoch's mini-batches, each cut into `shares`: block by block."""
    nodes = edges = 0
    with Trainer(graph, CONFIG, TASK) as trainer:
        for whole in trainer.first_samples(trainer.batches_per_epoch):
            bounds = seed_bounds(whole.num_seeds, shares)
            for part in (cut(whole, low, high) for low, high in pairwise(bounds) if high > low):
                nodes += part.num_nodes + sum(part.layer_sizes(layer)[1] for layer in range(2))
                edges += sum(len(part.block(layer).indices) for layer in range(2))
    return nodes, edges


@pytest.mark.parametrize(
    ("shares", "how"),
    [
        ((32,), {}),
        ((20, 12), {"trainers": "cpu:1,cpu:1", "trainer_shares": (20, 12)}),
        ((32, 0), {"trainers": "cpu:1,cpu:1", "trainer_shares": (32, 0)}),
    ],
    ids=["one trainer", "two trainers", "a trainer without seeds"],
)
def test_every_layer_of_every_share_counts(
    shares: tuple[int, ...], how: dict[str, Any], tiny_folder_graph: Graph, tmp_path: Path
) -> None:
    result, epochs = run(tiny_folder_graph, tmp_path / "run", **how)
    nodes, edges = expected(tiny_folder_graph, shares)
    assert epochs[0]["nvtps"] * epochs[0]["train_s"] == pytest.approx(nodes, rel=1e-9)
    assert epochs[0]["mteps"] * epochs[0]["train_s"] == pytest.approx(edges / 1e6, rel=1e-9)
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["nvtps"] == pytest.approx(sum(epoch["nvtps"] for epoch in epochs) / 2)
    assert stored["mteps"] == pytest.approx(sum(epoch["mteps"] for epoch in epochs) / 2)
    assert stored["seconds_per_epoch"] == pytest.approx(sum(epoch["train_s"] for epoch in epochs) / 2)
    assert stored["seconds_per_epoch"] == pytest.approx(1 / result.throughput_epochs_per_s)


def test_a_share_that_only_keeps_step_traverses_nothing(tiny_folder_graph: Graph) -> None:
    with Trainer(tiny_folder_graph, CONFIG, TASK) as trainer:
        (whole,) = trainer.first_samples(1)
    assert traversed([cut(whole, 0, 0)]) == (0, 0)
    assert traversed([cut(whole, 0, 0), whole]) == traversed([whole]) > (0, 0)


@pytest.fixture
def rapl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RaplFolder:
    """Counters that advance by 1 J at each mini-batch and 50 J at each evaluation."""
    made = two_packages(tmp_path / "powercap")
    monkeypatch.setattr("a3gnn.machine.energy.POWERCAP", made.path)
    step, validate = Trainer._train, Trainer.validate

    def take_and_train(self: Trainer, batch: MiniBatch) -> Step:
        made.take("intel-rapl:0", 0.75)
        made.take("intel-rapl:1:0", 0.25)
        return step(self, batch)

    def take_and_validate(self: Trainer) -> float:
        made.take("intel-rapl:1", 50)
        return validate(self)

    monkeypatch.setattr(Trainer, "_train", take_and_train)
    monkeypatch.setattr(Trainer, "validate", take_and_validate)
    return made


def test_energy_is_that_of_training_alone(rapl: RaplFolder, tiny_folder_graph: Graph, tmp_path: Path) -> None:
    result, epochs = run(tiny_folder_graph, tmp_path / "run", epochs=3)
    with Trainer(tiny_folder_graph, CONFIG, TASK) as trainer:
        batches = trainer.batches_per_epoch
    assert [epoch["kilojoules"] for epoch in epochs] == pytest.approx([batches / 1e3] * 3, rel=1e-9)
    assert result.kj_per_epoch == pytest.approx(batches / 1e3, rel=1e-9)
    assert result.energy == "package-0, package-0 dram, package-1, package-1 dram"


def test_energy_and_counts_of_an_interrupted_epoch_are_kept(
    rapl: RaplFolder, tiny_folder_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = run(tiny_folder_graph, tmp_path / "whole")
    step, done = Trainer._train, []

    def interrupt_the_second(self: Trainer, batch: MiniBatch) -> Step:
        done.append(batch.index)
        if len(done) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, batch)

    monkeypatch.setattr(Trainer, "_train", interrupt_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(tiny_folder_graph, tmp_path / "run")
    rapl.take("intel-rapl:0", 1000)  # while nothing trains
    _, epochs = run(tiny_folder_graph, tmp_path / "run", resume=True)
    for own, other in zip(epochs, whole, strict=True):
        assert own["kilojoules"] == pytest.approx(other["kilojoules"], rel=1e-9)
        assert own["nvtps"] * own["train_s"] == pytest.approx(other["nvtps"] * other["train_s"], rel=1e-9)


def test_points_of_a_target_take_no_energy_of_training(
    rapl: RaplFolder, tiny_folder_graph: Graph, tmp_path: Path
) -> None:
    _, epochs = run(tiny_folder_graph, tmp_path / "run", target_accuracy=100.0)
    with Trainer(tiny_folder_graph, CONFIG, TASK) as trainer:
        batches = trainer.batches_per_epoch
    assert [epoch["kilojoules"] for epoch in epochs] == pytest.approx([batches / 1e3] * 2, rel=1e-9)


def test_an_evaluation_that_is_interrupted_takes_no_energy_of_training(
    rapl: RaplFolder, tiny_folder_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate, done = Trainer.validate, []

    def interrupt_the_first(self: Trainer) -> float:
        found = validate(self)
        done.append(found)
        if len(done) == 1:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Trainer, "validate", interrupt_the_first)
    with pytest.raises(KeyboardInterrupt):
        run(tiny_folder_graph, tmp_path / "run", target_accuracy=100.0)
    _, epochs = run(tiny_folder_graph, tmp_path / "run", target_accuracy=100.0, resume=True)
    with Trainer(tiny_folder_graph, CONFIG, TASK) as trainer:
        batches = trainer.batches_per_epoch
    assert [epoch["kilojoules"] for epoch in epochs] == pytest.approx([batches / 1e3] * 2, rel=1e-9)


def test_until_a_target_in_the_first_epoch_figures_are_estimates(
    rapl: RaplFolder, tiny_folder_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a3gnn.apply.train.first_point", lambda trainer: 1)  # or the epoch ends before four points
    small = TrainConfig(batch_size=8)
    result, epochs = run(tiny_folder_graph, tmp_path / "run", small, target_accuracy=2.0, until_target=True)
    assert epochs == []
    with Trainer(tiny_folder_graph, small, TASK) as trainer:
        assert result.kj_per_epoch == pytest.approx(trainer.batches_per_epoch / 1e3, rel=1e-9)
    assert result.nvtps > 0


def test_where_the_machine_does_not_tell_there_is_no_number(
    tiny_folder_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a3gnn.machine.energy.POWERCAP", tmp_path / "none")
    result, epochs = run(tiny_folder_graph, tmp_path / "run")
    assert [epoch["kilojoules"] for epoch in epochs] == [None, None]
    assert result.kj_per_epoch is None
    assert result.energy.startswith("unknown: RAPL is not available")


def test_nvtps_are_over_the_bandwidth_that_the_probe_found(
    tiny_folder_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    assert kept_hardware() is None
    result, _ = run(tiny_folder_graph, tmp_path / "unknown")
    assert result.nvtps_per_gb_per_s is None
    machine: Hardware = host_with(MachineProfile(1e8, 5e9, 1e9, 1e11, 1e10, 0.5, 1e-3, 1 << 28))
    kept_at(machine).parent.mkdir(parents=True)
    kept_at(machine).write_text(json.dumps(machine.to_dict()), encoding="utf-8")
    result, _ = run(tiny_folder_graph, tmp_path / "known")
    gb_per_s = 5 * (1 + (machine.num_cores - 1) * 0.5)
    assert result.nvtps_per_gb_per_s == pytest.approx(result.nvtps / gb_per_s)


def test_progress_of_a_former_version_has_no_figures_of_what_it_did_not_count() -> None:
    former = Progress(under_way=EpochTotals(batches=2, seeds=64, input_nodes=100, seconds=1.0)).to_dict()
    del former["under_way"]["work"]
    progress = Progress.from_dict(former)
    progress.under_way.add_joules(5.0)
    finished = progress.finish_epoch(0.5, 0.1, EpochWork(*progress.under_way.work))
    assert (finished.nvtps, finished.mteps, finished.kilojoules) == (None, None, None)
    former["under_way"]["batches"] = 0  # it ended between two epochs
    assert Progress.from_dict(former).under_way.work == [0.0, 0.0, 0.0]


def test_figures_are_none_of_what_is_not_known() -> None:
    assert WorkFigures.of(EpochWork(1000.0, 3e6, math.nan), 2.0) == (500.0, 1.5, None)


def test_subgraphs_of_one_layer_count(tiny_folder_graph: Graph) -> None:
    with Trainer(tiny_folder_graph, CONFIG, Task(model="gcn", hidden_channels=4, fanouts=(3,))) as trainer:
        found: list[Subgraph] = trainer.first_samples(1)
    assert traversed(found) == (found[0].num_nodes + found[0].num_seeds, found[0].num_edges)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_peak_counts_the_context_as_a_trial_does(tiny_folder_graph: Graph, tmp_path: Path) -> None:
    result, _ = run(tiny_folder_graph, tmp_path / "run")
    assert result.peak_device_bytes > device_context_bytes() > 0
