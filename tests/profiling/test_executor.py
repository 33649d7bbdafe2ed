"""Real trials on a tiny graph: what they find, and how they fail."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from a3gnn.config import FEATURE_TIERS, INPUT_AGGREGATIONS, FeatureTier, InputAggregation, TrainConfig
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.process import memory
from a3gnn.process.memory import process_tree
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.request import OPENING, PARTITIONING, CurvePlan, Race, TrialPlan, TrialRequest
from a3gnn.profiling.timing import MOST_REPEATS
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.training.examine import examined
from a3gnn_surrogate.curve_ends import CurveEnds
from tests.curves import rising_curve
from tests.own_models import Package

MIB = 1 << 20
CURVE = CurvePlan(1e6, most_epochs=20)
PLAN = TrialPlan(curve=CURVE, warmup_batches=1, timed_seconds=0.0, timeout_s=120.0)
TASK = Task(hidden_channels=16, fanouts=(5, 5))

Ask = Callable[..., TrialRequest]


@pytest.fixture
def ask(tiny_folder_graph: Graph, this_machine: Hardware) -> Ask:
    def make(
        config: TrainConfig | None = None, known: LearningCurve | None = None, task: Task = TASK, **plan: object
    ) -> TrialRequest:
        return TrialRequest(
            config=(config or TrainConfig(batch_size=64)).canonical(),
            setting=Setting(task, tiny_folder_graph.characteristics(), this_machine),
            graph_folder=str(tiny_folder_graph.folder),
            plan=dataclasses.replace(PLAN, **plan),  # type: ignore[arg-type]
            known_curve=known,
        )

    return make


@pytest.fixture
def idle_bytes(executor: LocalExecutor) -> int:
    """The memory of a trial before it opens its graph."""
    ended = executor.worker.run("a3gnn.machine.probe:idle_memory", {})
    assert ended.result is not None
    return int(ended.result["idle_host_bytes"])


@pytest.fixture(scope="module")
def of_packages() -> Iterator[LocalExecutor]:
    """Real trials of models of `package`. Its server starts at the first trial, so it can import them."""
    with LocalExecutor() as started:
        yield started


def test_a_request_survives_json(ask: Ask) -> None:
    ends = CurveEnds((0.5, -1.0), 0.1, (0.0, 1.0), ((-1.0, -2.0), (0.0, 0.1), (1.0, 2.0)))
    racing = CurvePlan(12.5, target=0.8, race=Race(0.4, 2.0, ends, rising_curve(0.6)), least_throughput=0.5)
    for request in (ask(), ask(curve=None), ask(known=rising_curve(0.5), host_limit_bytes=MIB, curve=racing)):
        assert TrialRequest.from_dict(json.loads(json.dumps(request.to_dict()))) == request


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(batch_size=64),
        TrainConfig(batch_size=16, parallel_mode="mode2", num_workers=2, feature_tier="disk"),
        TrainConfig(batch_size=16, num_partitions=2, cache_bytes=4000, bias_rate=4.0),
        TrainConfig(batch_size=16, num_partitions=2, partitioner="blocks", seed_order="proximity", resources="auto"),
        TrainConfig(batch_size=16, cache_bytes=4000, cache_policy="fifo", parallel_mode="mode1", resources="auto"),
        TrainConfig(batch_size=16, cache_bytes=9000, input_aggregation="full"),
        TrainConfig(batch_size=16, num_partitions=2, compute_dtype="bfloat16", feature_dtype="float16"),
        TrainConfig(batch_size=16, trainers=2, prefetch_depth=1, cache_bytes=4000, cache_policy="clock", adapt="on"),
    ],
    ids=["default", "disk", "parts", "blocks", "fifo", "full", "narrow", "trainers"],
)
def test_metrics_hold_together(
    executor: LocalExecutor, idle_bytes: int, ask: Ask, tiny_graph: Graph, config: TrainConfig
) -> None:
    found = executor.run(ask(config))
    assert isinstance(found, Metrics), found
    epoch_s = 1 / found.throughput_epochs_per_s
    assert len(found.throughput_replicates) == PLAN.windows
    assert found.throughput_epochs_per_s == median(found.throughput_replicates)
    assert 0 <= found.disturbed_windows <= PLAN.windows + MOST_REPEATS
    assert found.timed_batches >= PLAN.windows * PLAN.least_timed_batches
    assert found.batches_per_epoch >= -(-len(tiny_graph.train_ids) // config.batch_size)
    assert 0 <= found.epoch_overhead_s < epoch_s
    assert found.stage_seconds.train > 0
    assert (found.test_accuracy, found.val_accuracy, found.accuracy_epochs) == (None, None, 0)
    assert found.curve is not None
    assert (0 < found.curve.trained <= 20 * found.batches_per_epoch, found.curve.ended) == (True, CurveEnd.BUDGET)
    assert all(0 <= accuracy <= 1 for accuracy in found.curve.val_accuracy)
    assert found.curve_train_seconds > 0
    assert found.curve_eval_seconds > 0
    assert found.setup_seconds > 0
    assert idle_bytes / 2 < found.peak_host_bytes < 10 * idle_bytes
    assert found.resident_file_bytes > 0
    assert found.peak_device_bytes == 0
    assert config.batch_size / 2 < found.input_nodes_per_batch <= config.trainers * tiny_graph.num_nodes
    assert found.sampled_edges_per_batch > 0
    assert found.cache_bytes <= config.cache_bytes
    assert (found.cache_hit_rate > 0) == (config.cache_bytes > 0)


@pytest.mark.parametrize("input_aggregation", INPUT_AGGREGATIONS)
def test_trials_of_one_key_learn_the_same(
    executor: LocalExecutor, ask: Ask, input_aggregation: InputAggregation
) -> None:
    ways = [
        TrainConfig(batch_size=64),
        TrainConfig(batch_size=64, parallel_mode="mode1", num_workers=2),
        TrainConfig(batch_size=64, parallel_mode="mode2", num_workers=1, feature_tier="disk"),
    ]
    ways = [config.replace(input_aggregation=input_aggregation) for config in ways]
    found = [executor.run(ask(config)) for config in ways]
    curves = [one.curve for one in found if isinstance(one, Metrics)]
    assert curves[0] is not None
    assert curves == [curves[0]] * 3


def test_a_trial_whose_curve_is_known_has_the_peak_of_a_training(executor: LocalExecutor, ask: Ask) -> None:
    first = executor.run(ask())
    assert isinstance(first, Metrics)
    again = executor.run(ask(known=first.curve))
    assert isinstance(again, Metrics)
    assert (again.curve, again.curve_train_seconds) == (first.curve, 0.0)
    assert (first.rehearsal_seconds, again.rehearsal_seconds > 0) == (0.0, True)


def test_trials_of_several_trainers_learn_the_same_by_any_depth(executor: LocalExecutor, ask: Ask) -> None:
    two = TrainConfig(batch_size=64, trainers=2)
    ways = two, two.replace(parallel_mode="mode1", num_workers=2), two.replace(prefetch_depth=1)
    found = [executor.run(ask(config)) for config in ways]
    curves = [one.curve for one in found if isinstance(one, Metrics)]
    assert curves[0] is not None
    assert curves == [curves[0]] * 3


def test_timing_alone_evaluates_nothing(executor: LocalExecutor, ask: Ask) -> None:
    found = executor.run(ask(curve=None))
    assert isinstance(found, Metrics)
    assert (found.curve, found.test_accuracy) == (None, None)
    assert found.curve_train_seconds == found.curve_eval_seconds == found.rehearsal_seconds == 0


def test_a_configuration_that_is_too_slow_trains_no_curve(executor: LocalExecutor, ask: Ask) -> None:
    found = executor.run(ask(curve=CurvePlan(1e6, least_throughput=1e9)))
    assert isinstance(found, Metrics)
    assert found.curve == LearningCurve((), (), CurveEnd.SLOWER)
    assert found.curve_train_seconds == 0
    assert found.rehearsal_seconds > 0


def test_partitions_count_as_if_they_were_made_in_every_trial(
    executor: LocalExecutor, ask: Ask, tiny_folder_graph: Graph
) -> None:
    request = ask(TrainConfig(batch_size=64, num_partitions=5, partitioner="random"), curve=None)
    first = executor.run(request)
    note = tiny_folder_graph.derived("seconds-parts-5-seed-0-random.txt")
    seconds = float(note.read_text())
    note.write_text(f"{seconds + 1000}")
    second = executor.run(request)
    assert isinstance(first, Metrics)
    assert isinstance(second, Metrics)
    assert first.setup_seconds < 1000 < second.setup_seconds


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"input_aggregation": "full"}, "mean"),
        ({"input_aggregation": "full", "feature_dtype": "float16"}, "mean-float16"),
        ({"feature_tier": "disk", "feature_dtype": "float16"}, "features-float16"),
    ],
)
def test_a_table_counts_as_if_it_was_made_in_every_trial(
    changes: dict[str, Any], name: str, executor: LocalExecutor, ask: Ask, tiny_folder_graph: Graph
) -> None:
    request = ask(TrainConfig(batch_size=64, **changes), curve=None)
    first = executor.run(request)
    note = tiny_folder_graph.derived(f"seconds-table-{name}.txt")
    note.write_text(f"{float(note.read_text()) + 1000}")
    second = executor.run(request)
    assert isinstance(first, Metrics)
    assert isinstance(second, Metrics)
    assert first.setup_seconds < 1000 < second.setup_seconds
    note.write_text("0.1")  # other tests use the graph


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


def test_a_peak_of_less_than_a_poll_passes_the_limit(
    of_packages: LocalExecutor, ask: Ask, package: Package, tiny_folder_graph: Graph, tmp_path: Path
) -> None:
    """The model gives back at once what it takes, before each of its mini-batches, and notes what it has before."""
    body = """
    def forward(self, x, edge_index):
        import mmap, os
        from a3gnn.process.memory import process_memory

        with open({notes!r}, "a") as notes:
            print(process_memory(os.getpid()).anonymous_bytes, file=notes)
        mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
        return super().forward(x, edge_index)
    """
    plan, large = {"curve": None, "windows": 1}, 64 * MIB
    peaks, above = [], []
    for size in (4096, large):
        notes = tmp_path / f"notes-{size}"
        model = Task(model=package.add_class(body.format(size=size, notes=str(notes))), fanouts=(5, 5))
        task = examined(model, tiny_folder_graph, 1 << 34)
        notes.unlink(missing_ok=True)
        found = of_packages.run(ask(task=task, **plan))
        assert isinstance(found, Metrics), found
        peaks.append(found.peak_host_bytes)
        above.append(found.peak_host_bytes - max(map(int, notes.read_text().split())))
    limit = peaks[0] + large // 2
    failed = of_packages.run(ask(task=task, host_limit_bytes=limit, **plan))
    assert above[1] - above[0] > large / 2  # each by what its own process had
    assert isinstance(failed, Failure)
    assert (failed.kind, failed.limit) == (FailureKind.OUT_OF_MEMORY, limit)
    assert failed.peak_host_bytes > limit


def test_timeout(executor: LocalExecutor, ask: Ask) -> None:
    for timeout_s in (1.0, 8.0, 60.0):  # a busy machine is slow to start it, and to say where it is
        found = executor.run(ask(timed_seconds=300.0, timeout_s=timeout_s))
        assert isinstance(found, Failure)
        assert (found.kind, found.limit) == (FailureKind.TIMEOUT, timeout_s)
        if "was at" in found.describe():
            break
    told = rf"timeout: ({OPENING}: )?took longer than {timeout_s} s, and was at .+\.py:\d+ in (\w+|<\w+>)"
    assert re.fullmatch(told, found.describe())


@pytest.mark.slow
@pytest.mark.parametrize("place", ["__init__", "forward"])
def test_a_timeout_says_whether_anything_was_trained(
    place: str, of_packages: LocalExecutor, ask: Ask, package: Package, tiny_folder_graph: Graph, tmp_path: Path
) -> None:
    slow = tmp_path / "slow"
    body = f"""
    def {place}(self, *given):
        import pathlib, time

        while pathlib.Path({str(slow)!r}).exists():
            time.sleep(0.01)
        return super().{place}(*given)
    """
    task = examined(Task(model=package.add_class(body), fanouts=(5, 5)), tiny_folder_graph, 1 << 34)
    slow.touch()
    for timeout_s in (10.0, 60.0):  # a busy machine is slow to start it
        found = of_packages.run(ask(task=task, timeout_s=timeout_s))
        assert isinstance(found, Failure)
        if place in found.describe():
            break
    assert found.detail.startswith(OPENING) == (place == "__init__")


def test_what_is_free_is_a_limit_of_a_trial_without_one(
    executor: LocalExecutor, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 0)  # a machine that is full can't be had here
    found = executor.run(ask())
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert not found.transient
    assert "less a reserve): it held" in found.detail


def test_impossible_configurations_are_invalid(executor: LocalExecutor, ask: Ask, tiny_graph: Graph) -> None:
    parts = executor.run(ask(TrainConfig(num_partitions=tiny_graph.num_nodes + 1)))
    device = executor.run(ask(TrainConfig(sampling_device="cuda")))
    attention = executor.run(ask(TrainConfig(input_aggregation="full"), task=Task(model="gat")))
    assert isinstance(parts, Failure)
    assert isinstance(device, Failure)
    assert isinstance(attention, Failure)
    assert {parts.kind, device.kind, attention.kind} == {FailureKind.INVALID}
    assert attention.detail.startswith(
        "while the input layer's table was made: input_aggregation full needs an input layer"
    )
    assert "num_partitions must be in" in parts.detail
    assert "sampling_device is cuda" in device.detail


@pytest.mark.parametrize("tier", FEATURE_TIERS)
def test_features_that_float16_can_not_hold_are_invalid(
    tier: FeatureTier, executor: LocalExecutor, ask: Ask, tiny_graph: Graph, tmp_path: Path
) -> None:
    large = np.array(tiny_graph.features.arrays()["x"])
    large[3, 2] = 1e6
    graph = dataclasses.replace(tiny_graph, features=DenseFeatures(large)).save(tmp_path / "large")
    request = ask(TrainConfig(feature_dtype="float16", feature_tier=tier))
    found = executor.run(dataclasses.replace(request, graph_folder=str(graph.folder)))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.INVALID
    assert "features must be at most 65,504 for feature_dtype float16, got 1e+06" in found.detail


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
    assert "the process ended with signal SIGKILL, which the kernel sends when memory runs out" in found.describe()


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
