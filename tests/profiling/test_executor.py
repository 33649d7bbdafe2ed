"""Real trials on a tiny graph: what they find, and how they fail."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.config import Task, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.process.memory import process_tree
from a3gnn.profiling.executor import PARTITIONING, LocalExecutor
from a3gnn.profiling.trial.request import Accuracy, TrialPlan, TrialRequest
from a3gnn.setting import Setting

MIB = 1 << 20
PLAN = TrialPlan(accuracy_epochs=2, warmup_batches=1, timed_seconds=0.0, timeout_s=120.0)
TASK = Task(hidden_channels=16, fanouts=(5, 5))

Ask = Callable[..., TrialRequest]


@pytest.fixture
def ask(tiny_folder_graph: Graph, this_machine: Hardware) -> Ask:
    def make(config: TrainConfig | None = None, known: Accuracy | None = None, **plan: object) -> TrialRequest:
        return TrialRequest(
            config=(config or TrainConfig(batch_size=64)).canonical(),
            setting=Setting(TASK, tiny_folder_graph.characteristics(), this_machine),
            graph_folder=str(tiny_folder_graph.folder),
            plan=dataclasses.replace(PLAN, **plan),  # type: ignore[arg-type]
            known_accuracy=known,
        )

    return make


def test_a_request_survives_json(ask: Ask) -> None:
    for request in (ask(), ask(known=Accuracy(0.5, 0.6, 2), host_limit_bytes=MIB)):
        assert TrialRequest.from_dict(request.to_dict()) == request


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(batch_size=64),
        TrainConfig(batch_size=16, parallel_mode="mode2", num_workers=2, feature_tier="disk"),
        TrainConfig(batch_size=16, num_partitions=2, cache_bytes=4000, bias_rate=4.0),
        TrainConfig(batch_size=16, num_partitions=2, partitioner="blocks", seed_order="proximity", resources="auto"),
        TrainConfig(batch_size=16, cache_bytes=4000, cache_policy="fifo", parallel_mode="mode1", resources="auto"),
    ],
    ids=["default", "disk", "parts", "blocks", "fifo"],
)
def test_metrics_hold_together(executor: LocalExecutor, ask: Ask, tiny_graph: Graph, config: TrainConfig) -> None:
    found = executor.run(ask(config))
    assert isinstance(found, Metrics), found
    epoch_s = 1 / found.throughput_epochs_per_s
    assert found.timed_batches >= PLAN.least_timed_batches
    assert found.batches_per_epoch >= -(-len(tiny_graph.train_ids) // config.batch_size)
    assert 0 <= found.epoch_overhead_s < epoch_s
    assert 0 < found.stage_seconds.train < epoch_s
    assert 0 <= found.test_accuracy <= 1
    assert 0 <= found.val_accuracy <= 1
    assert found.accuracy_epochs == 2
    assert 50 * MIB < found.peak_host_bytes < 2000 * MIB
    assert found.resident_file_bytes > 0
    assert found.peak_device_bytes == 0
    assert config.batch_size / 2 < found.input_nodes_per_batch <= tiny_graph.num_nodes
    assert found.sampled_edges_per_batch > 0
    assert found.cache_bytes <= config.cache_bytes
    assert (found.cache_hit_rate > 0) == (config.cache_bytes > 0)


def test_trials_find_the_same_accuracy_twice(executor: LocalExecutor, ask: Ask) -> None:
    first = executor.run(ask(TrainConfig(batch_size=64)))
    second = executor.run(ask(TrainConfig(batch_size=64, parallel_mode="mode1", num_workers=2)))
    assert isinstance(first, Metrics)
    assert isinstance(second, Metrics)
    assert (first.test_accuracy, first.val_accuracy) == (second.test_accuracy, second.val_accuracy)


def test_a_known_accuracy_is_taken_over(executor: LocalExecutor, ask: Ask) -> None:
    found = executor.run(ask(known=Accuracy(test=0.123, val=0.456, epochs=77)))
    assert isinstance(found, Metrics)
    assert (found.test_accuracy, found.val_accuracy, found.accuracy_epochs) == (0.123, 0.456, 77)


def test_memory_limit(executor: LocalExecutor, ask: Ask) -> None:
    limit = 60 * MIB
    found = executor.run(ask(host_limit_bytes=limit))
    assert isinstance(found, Failure)
    assert (found.kind, found.limit) == (FailureKind.OUT_OF_MEMORY, limit)
    assert found.peak_host_bytes > limit
    assert "passed the limit of 60.0 MiB" in found.detail
    parts = executor.run(ask(TrainConfig(batch_size=64, num_partitions=3), host_limit_bytes=limit))
    assert isinstance(parts, Failure)
    assert (parts.kind, parts.limit) == (FailureKind.OUT_OF_MEMORY, limit)
    assert parts.detail.startswith(f"{PARTITIONING} by metis into 3 parts: passed the limit of 60.0 MiB")


def test_timeout(executor: LocalExecutor, ask: Ask) -> None:
    found = executor.run(ask(timed_seconds=300.0, timeout_s=1.0))
    assert isinstance(found, Failure)
    assert (found.kind, found.limit) == (FailureKind.TIMEOUT, 1.0)


def test_impossible_configurations_are_invalid(executor: LocalExecutor, ask: Ask, tiny_graph: Graph) -> None:
    parts = executor.run(ask(TrainConfig(num_partitions=tiny_graph.num_nodes + 1)))
    device = executor.run(ask(TrainConfig(sampling_device="cuda")))
    assert isinstance(parts, Failure)
    assert isinstance(device, Failure)
    assert (parts.kind, device.kind) == (FailureKind.INVALID, FailureKind.INVALID)
    assert "num_partitions must be in" in parts.detail
    assert "sampling_device is cuda" in device.detail


def test_a_broken_graph_is_invalid(executor: LocalExecutor, ask: Ask, tmp_path: Path) -> None:
    found = executor.run(dataclasses.replace(ask(), graph_folder=str(tmp_path)))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.INVALID


def test_a_trial_that_is_killed_has_crashed(executor: LocalExecutor, ask: Ask) -> None:
    executor.run(ask())  # the server is up, so that this process' tree holds it, and next the trial
    server = process_tree(os.getpid())

    def kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if trials := set(process_tree(os.getpid())) - set(server):
                os.kill(trials.pop(), signal.SIGKILL)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    found = executor.run(ask(timed_seconds=60.0, timeout_s=90.0))
    killer.join()
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.CRASHED
    assert "SIGKILL" in found.detail


def test_a_trial_waits_for_the_machine_before_its_timeout_begins(
    executor: LocalExecutor, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A3GNN_MACHINE_LOCK", str(tmp_path / "lock"))
    lines: list[str] = []
    with (tmp_path / "lock").open("w") as other:  # a lock is its open file's: this one is another process'
        fcntl.flock(other, fcntl.LOCK_EX)

        def give_back(line: str) -> None:
            lines.append(line)
            time.sleep(0.5)
            fcntl.flock(other, fcntl.LOCK_UN)

        monkeypatch.setattr(executor, "_notify", give_back)
        found = executor.run(ask(timeout_s=60.0))
    assert isinstance(found, Metrics), found
    assert [line.startswith("waiting for another trial") for line in lines] == [True]
