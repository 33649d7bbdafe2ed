"""Fixtures of the profiling tests: measurements, and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from a3gnn.config import Task, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, Measurement, Metrics, StageSeconds
from a3gnn.profiling.executor import LocalExecutor


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
