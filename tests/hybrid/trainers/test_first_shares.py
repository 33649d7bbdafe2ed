"""What processors and accelerators begin with: predicted, told, and kept where a run goes on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.hybrid.devices.simulated import SimulatedDevice
from a3gnn.hybrid.trainers import opening as several
from a3gnn.hybrid.trainers.request import Trainers
from a3gnn.sampling.counts import Counts
from a3gnn.task import Task
from a3gnn.training.checkpoint import SavedShares
from tests.training.equality import with_seeds

TASK = Task(model="sage", hidden_channels=32, fanouts=(6, 4))
CONFIG = TrainConfig(batch_size=1024)


def scaled(hardware: Hardware, factor: float) -> Hardware:
    """Returns a machine that computes and moves so many times as much per second."""
    limits = hardware.profile
    names = "random_reads_per_s", "copy_bytes_per_s", "spmm_bytes_per_s", "gemm_flops_per_s"
    faster = {name: getattr(limits, name) * factor for name in names}
    return dataclasses.replace(hardware, profile=dataclasses.replace(limits, **faster))


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


def shares_of(names: str, graph: Graph, hardware: Hardware, **asked: Any) -> tuple[int, ...]:
    opened = Trainers(names, **asked).on(graph, CONFIG, TASK, hardware=lambda: hardware)
    assert sum(opened.assignment.shares) == CONFIG.batch_size
    return opened.assignment.shares


def unwanted() -> Hardware:
    raise AssertionError("nothing is to be predicted")


def test_trainers_of_a_kind_have_equal_shares_without_a_probe(graph):
    for names, shares in (("cpu:1,cpu:1", (512, 512)), ("sim:u250,sim:u250", (512, 512)), ("cpu:2", (1024,))):
        opened = Trainers(names).on(graph, CONFIG, TASK, hardware=unwanted)
        assert (opened.assignment.shares, opened.why) == (shares, None)


def test_kept_shares_are_those_of_trainers_of_the_same_kinds(graph, this_machine):
    kept = SavedShares(("processor", "accelerator"), (1000, 24))
    given: dict[str, Any] = {"hardware": lambda: this_machine, "kept": kept}
    opened = Trainers("cpu:1,sim:u250").on(graph, CONFIG, TASK, **given)
    assert opened.assignment.shares == (1000, 24)
    predicted = shares_of("sim:u250,cpu:1", graph, this_machine)
    assert Trainers("sim:u250,cpu:1").on(graph, CONFIG, TASK, **given).assignment.shares == predicted != (1000, 24)


def test_shares_that_are_given_are_not_predicted(graph):
    opened = Trainers("cpu:1,sim:u250", (1000, 24)).on(graph, CONFIG, TASK, hardware=unwanted)
    assert (opened.assignment.shares, opened.why) == ((1000, 24), None)


def test_the_faster_the_processors_the_more_they_have(graph, this_machine):
    slow, same, fast = (shares_of("cpu:1,sim:u250", graph, scaled(this_machine, by))[0] for by in (1e-3, 1.0, 1e4))
    assert slow <= same < fast
    assert slow < 0.1 * CONFIG.batch_size
    assert fast > 0.5 * CONFIG.batch_size


def test_shares_are_in_the_order_of_the_trainers(graph, this_machine):
    processors, accelerator = shares_of("cpu:1,sim:u250", graph, this_machine)
    assert shares_of("sim:u250,cpu:1", graph, this_machine) == (accelerator, processors)
    first, one, second, two = shares_of("sim:u250,cpu:1,sim:u250,cpu:1", graph, this_machine)
    assert abs(first - second) <= 1
    assert abs(one - two) <= 1


def test_the_platforms_constants_decide(graph, this_machine, monkeypatch):
    before = shares_of("cpu:1,sim:u250", graph, this_machine)
    real = SimulatedDevice.speeds

    def slower(self: SimulatedDevice, profile: Any) -> Any:
        found = real(self, profile)
        return dataclasses.replace(found, flops_per_s=found.flops_per_s / 1e3, link_bytes_per_s=1e6)

    monkeypatch.setattr(SimulatedDevice, "speeds", slower)
    assert shares_of("cpu:1,sim:u250", graph, this_machine)[0] > before[0]


def test_an_accelerators_memory_bounds_its_share(graph, this_machine, monkeypatch):
    slow = scaled(this_machine, 1e-3)
    free = shares_of("cpu:1,sim:u250", graph, slow)[1]
    monkeypatch.setattr(SimulatedDevice, "fits", lambda self, counts: counts.nodes[0] <= 300)
    assert free > 300 >= shares_of("cpu:1,sim:u250", graph, slow)[1] > 0
    monkeypatch.setattr(SimulatedDevice, "fits", lambda self, counts: False)
    assert shares_of("cpu:1,sim:u250", graph, slow) == (1024, 0)


def test_a_simulated_accelerator_knows_what_it_holds(graph):
    (device,) = Trainers("sim:u250").on(graph, CONFIG, TASK).devices
    small, huge = Counts((8.0, 40.0, 100.0), (32.0, 60.0)), Counts((8e8, 4e9, 1e10), (3e9, 6e9))
    assert (device.fits(small), device.fits(huge)) == (True, False)


def test_more_seeds_than_train_nodes_are_divided_likewise(graph, this_machine):
    few = dataclasses.replace(graph, train_ids=graph.train_ids[:200])
    assert shares_of("cpu:1,sim:u250", few, scaled(this_machine, 1e-3))[0] < 0.2 * CONFIG.batch_size


def run(graph: Graph, out: Path, **others: Any) -> Any:
    given: dict[str, Any] = {"task": TASK, "epochs": 1, "out": out, "trainers": "cpu:1,sim:u250"}
    return train(CONFIG, graph, **given | {"notify": lambda line: None} | others)


def test_a_run_says_what_it_took_and_goes_on_with_it(graph, this_machine, tmp_path, monkeypatch):
    stored, told = graph.on_disk(tmp_path / "graph"), list[str]()

    def now(hardware: Hardware) -> None:
        monkeypatch.setattr(several, "probe_hardware", lambda notify: hardware)

    now(this_machine)
    found = run(stored, tmp_path / "run", notify=told.append)
    shares = ",".join(map(str, found.trainers["shares"]))
    (line,) = [line for line in told if line.startswith("trainers:")]
    assert f"shares {shares} by the performance model, which predicts" in line
    assert "ms per mini-batch" in line
    assert "trainer_shares sets other shares" in line
    run(stored, tmp_path / "whole", epochs=2)
    now(scaled(this_machine, 1e4))
    told.clear()
    went_on = run(stored, tmp_path / "run", epochs=2, resume=True, notify=told.append)
    assert went_on.trainers["shares"] == found.trainers["shares"]
    assert f"trainers: shares {shares}, as at the start of the run" in told
    weights, expected = (torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("run", "whole"))
    assert all(torch.equal(value, expected[name]) for name, value in weights.items())
    other = run(stored, tmp_path / "other")
    assert other.trainers["shares"] != found.trainers["shares"]
    assert (
        json.loads((tmp_path / "other" / "result.json").read_text())["trainers"]["shares"] == other.trainers["shares"]
    )
