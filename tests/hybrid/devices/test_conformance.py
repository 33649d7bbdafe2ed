"""What every kind of device must do: the verbs of Listing 1, and training that comes to what one trainer comes to."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.errors import DeviceError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.devices.opening import KINDS, open_devices
from a3gnn.hybrid.schedule import Schedule
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.sampling.counts import Counts
from a3gnn.task import Task
from a3gnn.threads import pool
from tests.hybrid.trainers.made import assigned, hybrid
from tests.training.equality import alone, difference, in_double, task_of, trained, with_seeds

TASK = Task(hidden_channels=16, fanouts=(4, 3))
NAMES = {"cpu": "cpu:1", "cuda": "cuda:0", "sim": "sim:u250"}


def test_every_kind_is_tested():
    assert set(NAMES) == set(KINDS)


@pytest.mark.parametrize("kind", NAMES)
class TestConformance:
    """A new kind of device passes when its name is among `NAMES`."""

    @pytest.fixture
    def device(self, kind: str, small_graph: Graph) -> Device:
        if kind == "cuda" and not torch.cuda.is_available():
            pytest.skip("torch finds no CUDA device here")
        (found,) = open_devices([NAMES[kind]], small_graph, TASK)
        return found

    @pytest.fixture
    def batch(self, small_graph: Graph) -> MiniBatch:
        with Pipeline(
            small_graph, TrainConfig(batch_size=64), TASK.fanouts, PipelineOptions(seed=0, reuse_buffers=False)
        ) as pipeline:
            return next(iter(pipeline.epoch(0)))

    def test_what_is_sent_arrives(self, device, batch):
        expected = [tensor.clone() for tensor in batch.tensors]
        sent = device.send(batch)
        with device.running():
            device.launch(lambda arrived: arrived.x.sum(), sent)
            device.execution_seconds()
        assert (sent.epoch, sent.index, sent.num_seeds) == (batch.epoch, batch.index, batch.num_seeds)
        for tensor, before in zip(sent.tensors, expected, strict=True):
            assert tensor.device == device.memory
            assert torch.equal(tensor.cpu(), before)

    def test_several_threads_may_send(self, device, batch):
        with ThreadPoolExecutor(3) as threads:
            found = list(threads.map(device.send, [batch] * 9))
        with device.running():
            sums = [float(device.launch(lambda arrived: arrived.x.double().sum(), one)) for one in found]
        assert sums == [sums[0]] * 9
        assert sums[0] == pytest.approx(float(batch.x.double().sum()))

    def test_a_launch_returns_what_the_kernel_computes_and_its_seconds(self, device, batch):
        sent = device.send(batch)
        with device.running():
            out = device.launch(lambda arrived: (arrived.x @ arrived.x.t()).sum(), sent)
            assert device.execution_seconds() > 0
            assert out.device == device.memory
            assert float(out) == pytest.approx(float((batch.x @ batch.x.t()).sum()), rel=1e-3)
        assert device.transfer_seconds(sent) >= 0
        assert (device.transfer_seconds(sent) > 0) == (device.kind == "accelerator")

    def test_what_is_received_is_on_the_host(self, device):
        with device.running():
            given = torch.arange(5.0, device=device.memory)
            found = device.receive(given)
        assert found.device.type == "cpu"
        assert torch.equal(found, torch.arange(5.0))

    def test_a_handshake_gives_what_there_is_and_takes_what_is_broadcast(self, device):
        calls = []

        def exchange(given: Tensor) -> Tensor:
            calls.append(given.clone())
            return torch.full((3,), 7.0)

        with device.running():
            values = torch.tensor([1.0, 2.0, 3.0], device=device.memory)
            device.handshake(values, exchange)
        assert torch.equal(values.cpu(), torch.full((3,), 7.0))
        assert len(calls) == 1
        assert calls[0].device.type == "cpu"
        assert calls[0].tolist() == [1.0, 2.0, 3.0]

    def test_waiting_for_others_is_no_execution(self, device, batch):
        waits, waited = 0.5, []

        def exchange(given: Tensor) -> Tensor:
            begin = time.perf_counter()
            time.sleep(waits)
            waited.append(time.perf_counter() - begin)
            return given

        def kernel(arrived: MiniBatch) -> Tensor:
            values = torch.ones(2, device=device.memory)
            device.handshake(values, exchange)
            return values

        sent = device.send(batch)
        with device.running():
            begin = time.perf_counter()
            device.launch(kernel, sent)
            seconds = device.execution_seconds()
            passed = time.perf_counter() - begin
        assert seconds <= max(waits / 2, passed - sum(waited))  # a busy machine may take longer than half the wait

    def test_an_accelerator_has_speeds_for_the_performance_model_and_room_for_a_little(self, device, this_machine):
        assert device.fits(Counts((8.0, 20.0, 40.0), (32.0, 60.0)))
        if device.kind == "processor":
            with pytest.raises(NotImplementedError, match="cpu:1 is not an accelerator"):
                device.speeds(this_machine.profile)
            return
        rates = ("device_gemm_flops_per_s", "host_to_device_bytes_per_s")
        probed = dataclasses.replace(this_machine.profile, **dict.fromkeys(rates, 1e10))
        found = device.speeds(probed)
        assert min(found.flops_per_s, found.memory_bytes_per_s, found.link_bytes_per_s) > 0

    def test_its_threads_are_the_callers_only_within(self, device):
        before = torch.get_num_threads()
        with device.running():
            assert torch.get_num_threads() == max(device.threads, 1)
        assert torch.get_num_threads() == before

    @pytest.mark.parametrize("model", ["sage", "gin"])
    def test_beside_a_processor_it_comes_to_what_one_trainer_comes_to(self, device, kind, model, small_graph):
        graph = with_seeds(small_graph)
        # A GPU draws what is dropped by another generator.
        task, config = task_of(model, dropout=0.0), TrainConfig(batch_size=512)
        expected, losses = alone(graph, config, task, in_double)
        (processor,) = open_devices(["cpu:1"], graph, task)
        devices, shares = [processor, device], (300, 212)
        made = hybrid(graph, config, task, shares, devices=devices, assignment=assigned(devices, shares))
        weights, found = trained(made, made._replicas, in_double)
        assert found == pytest.approx(losses, rel=1e-9)
        assert difference(weights, expected) <= 1e-9  # in float32, Adam makes steps of what rounding left of zero

    def test_shares_wait_in_page_locked_memory_where_it_copies_from_there(self, device, small_graph):
        devices, shares = [device], (64,)
        options = {"devices": devices, "assignment": assigned(devices, shares), "prefetch": Schedule()}
        with hybrid(small_graph, TrainConfig(batch_size=64), TASK, shares, **options) as trainer:
            for batch in trainer._pipeline.epoch(0):
                (share,) = batch.on_host
                assert {tensor.is_pinned() for tensor in share.tensors} == {device.page_locked}
                (sent,) = batch.parts
                assert {tensor.device for tensor in sent.tensors} == {device.memory}

    def test_a_name_that_is_none_is_refused(self, kind, small_graph):
        with pytest.raises(UsageError, match="trainers"):
            open_devices([f"{kind}:?"], small_graph, TASK)
        with pytest.raises(UsageError, match="trainers"):
            open_devices([kind], small_graph, TASK)


def test_a_gpu_that_is_not_there_is_refused(small_graph):
    with pytest.raises(DeviceError, match="cuda"):
        open_devices(["cuda:99"], small_graph, TASK)


def test_a_gpu_that_is_named_twice_is_refused(small_graph):
    with pytest.raises(UsageError, match="name each GPU once, got cuda:0 2 times"):
        open_devices(["cuda:0", "cpu:1", "cuda:00"], small_graph, TASK)


def test_unknown_kinds_are_refused_with_the_nearest(small_graph):
    with pytest.raises(UsageError, match="did you mean 'cuda'"):
        open_devices(["cude:0"], small_graph, TASK)
    with pytest.raises(UsageError, match="must name at least one"):
        open_devices([], small_graph, TASK)


def test_auto_takes_what_is_here(small_graph):
    devices = open_devices(["auto"], small_graph, TASK)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    assert [device.kind for device in devices] == ["processor", *["accelerator"] * gpus]
    assert devices[0].threads == max(1, pool.usable_cores() - gpus)
