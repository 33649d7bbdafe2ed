"""sim:NAME: what a processor computes, bit for bit, in the seconds of the simulator."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import MemoryLimitError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.devices.opening import open_devices
from a3gnn.hybrid.devices.processor import ProcessorDevice
from a3gnn.hybrid.devices.simulated import SimulatedDevice
from a3gnn.hybrid.devices.simulated_accelerator import ACCELERATORS, SimulatedModel, on_accelerator
from a3gnn.sampling.counts import counts_of
from a3gnn.sampling.share import cut
from tests.hybrid.trainers.made import assigned, hybrid
from tests.training.equality import as_it_is, task_of, trained, with_seeds

SHARES = (300, 212)
CONFIG = TrainConfig(batch_size=512)


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


@pytest.mark.parametrize("knobs", [{}, {"input_aggregation": "full"}], ids=["sampled", "full"])
def test_numbers_are_a_processors_and_seconds_the_simulators(knobs, graph, tmp_path):
    stored, task = graph.on_disk(tmp_path), task_of("sage")
    devices = open_devices(["cpu:1", "sim:a5000"], stored, task)
    config = CONFIG.replace(**knobs)
    made = hybrid(stored, config, task, SHARES, devices=devices, assignment=assigned(devices, SHARES))
    plain = hybrid(stored, config, task, SHARES)
    expected, _ = trained(plain, plain._replicas, as_it_is)
    with made as trainer:
        seconds = [[step.trainers[1] for step in trainer.steps(epoch)] for epoch in range(3)]
        assert all(torch.equal(value, expected[name]) for name, value in trainer.model.state_dict().items())
    again = hybrid(stored, config, task, SHARES, devices=devices, assignment=assigned(devices, SHARES))
    with again as trainer:
        told = [step.trainers[1] for step in trainer.steps(0)]
    for one, other in zip(told, seconds[0], strict=True):  # the same, however busy this machine is
        assert one.train_s == pytest.approx(other.train_s, rel=1e-6)
        assert one.transfer_s == pytest.approx(other.transfer_s, rel=1e-6)


def test_seconds_are_those_of_its_operations_and_its_link(graph):
    task = task_of("gcn")
    devices = open_devices(["sim:u250"], graph, task)
    with hybrid(graph, CONFIG, task, (512,), devices=devices, assignment=assigned(devices, (512,))) as trainer:
        (first, *_) = trainer.first_samples(1)
        step = next(iter(trainer.steps(0)))
    accelerator, counts = ACCELERATORS["u250"], counts_of(first)
    model = SimulatedModel((graph.num_features, 16, graph.num_classes))
    assert step.trainers[0].train_s == pytest.approx(on_accelerator(accelerator, model, counts))
    sent = accelerator.link_latency_s + model.sent_bytes(counts) / accelerator.link_bytes_per_s
    assert step.trainers[0].transfer_s == pytest.approx(sent)


def test_it_says_how_many_seeds_fit(graph):
    model = SimulatedModel((graph.num_features, 16, graph.num_classes))
    device = SimulatedDevice("sim:small", dataclasses.replace(ACCELERATORS["u250"], memory_bytes=1e9), model)
    assert device.most_seeds() is None
    devices: list[Device] = [ProcessorDevice("cpu:1", 1), device]
    assignment = assigned(devices, (128, 384))
    with hybrid(graph, CONFIG, task_of("gcn"), (128, 384), devices=devices, assignment=assignment) as trainer:
        (first, *_) = trainer.first_samples(1)
        next(iter(trainer.steps(0)))
    most = device.most_seeds()
    assert most is not None
    share = cut(first, 128, 512)
    assert most == int(384 * 1e9 / model.kept_bytes(counts_of(share)))


def test_a_share_that_does_not_fit_is_refused(graph):
    small = dataclasses.replace(ACCELERATORS["u250"], memory_bytes=1e5)
    model = SimulatedModel((graph.num_features, 16, graph.num_classes))
    device = SimulatedDevice("sim:small", small, model)
    with (
        hybrid(
            graph, CONFIG, task_of("gcn"), (512,), devices=[device], assignment=assigned([device], (512,))
        ) as trainer,
        pytest.raises(MemoryLimitError, match="a share of 512 seeds needs"),
    ):
        list(trainer.steps(0))
