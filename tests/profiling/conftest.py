"""Fixtures of the profiling tests: measurements, and a worker that can run small functions of their own module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from a3gnn.config import Task, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware, HardwareLimits, host_with
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, Measurement, Metrics, StageSeconds
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.worker import Worker

FUNCTIONS = """
import os, signal, time

def echo(argument):
    return argument

def threads(argument):
    import torch
    torch.set_num_threads(2)
    square = torch.ones(600, 600)
    return {"sum": float((square @ square).sum()), "threads": len(os.listdir("/proc/self/task"))}

def hold(argument):
    held = bytearray(argument["bytes"])
    held[::4096] = b"1" * len(held[::4096])
    time.sleep(argument["seconds"])
    return {}

def hold_in_child(argument):
    if os.fork() == 0:
        hold(argument)
        os._exit(0)
    os.wait()
    return {}

def sleep_after_telling(argument):
    with open(argument["path"], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)

def fail(argument):
    raise ValueError("the reason")

def die(argument):
    os.kill(os.getpid(), signal.SIGKILL)

def kill_server(argument):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
"""


@pytest.fixture(scope="session")
def chores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which the processes of `worker` import: `chores`, the functions above, and what tests add."""
    folder = tmp_path_factory.mktemp("chores")
    (folder / "chores.py").write_text(FUNCTIONS, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def worker(chores: Path) -> Iterator[Worker]:
    """A worker whose processes can import from `chores`."""
    with pytest.MonkeyPatch.context() as patch, Worker() as started:
        patch.setattr(sys, "path", [*sys.path, str(chores)])
        yield started


@pytest.fixture(scope="session")
def tiny_folder_graph(tiny_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """`tiny_graph`, opened by memory map from a converted folder."""
    return tiny_graph.save(tmp_path_factory.mktemp("graphs") / "tiny")


@pytest.fixture(scope="session")
def this_machine() -> Hardware:
    """This machine's processor, with limits that were not measured."""
    limits = HardwareLimits(1e8, 1e10, 1e9, 1e10, 1e10, 0.8, 1e-3, 150 << 20)
    return host_with(limits)


@pytest.fixture(scope="session")
def metrics() -> Metrics:
    """What a trial might find."""
    return Metrics(
        throughput_epochs_per_s=2.5,
        peak_host_bytes=300 << 20,
        peak_device_bytes=0,
        resident_file_bytes=40 << 20,
        test_accuracy=0.75,
        val_accuracy=0.8,
        accuracy_epochs=3,
        timed_batches=12,
        batches_per_epoch=4,
        epoch_overhead_s=0.001,
        stage_seconds=StageSeconds(sample=0.01, gather=0.02, transfer=0.0, train=0.07),
        cache_hit_rate=0.25,
        cache_bytes=1000,
        input_nodes_per_batch=120.0,
        sampled_edges_per_batch=800.5,
    )


@pytest.fixture(scope="session")
def measurement(tiny_graph: Graph, this_machine: Hardware, metrics: Metrics) -> Callable[..., Measurement]:
    """Makes a measurement of a configuration; outcome and budget can be given."""

    def make(
        config: TrainConfig, outcome: Metrics | Failure = metrics, task: Task | None = None, budget: int = 3
    ) -> Measurement:
        return Measurement(
            config=config.canonical(),
            task=task or Task(),
            graph=tiny_graph.characteristics(),
            hardware=this_machine,
            outcome=outcome,
            accuracy_budget=budget,
            seconds=4.5,
            version=MEASUREMENT_VERSION,
            created="2025-01-02T03:04:05+00:00",
        )

    return make


@pytest.fixture(scope="session")
def executor() -> Iterator[LocalExecutor]:
    """Real trials, one OpenMP thread each: teams of threads stall each other where the machine is busy with tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        with LocalExecutor() as started:
            yield started
