"""`TrialExecutor`: the interface to run trials; `LocalExecutor`: runs them in processes of this machine."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.launch import QUICK, QUICK_VARIABLE
from a3gnn.machine.probe import probe_hardware
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.process.child import described_status
from a3gnn.process.machine_turn import machine_turn
from a3gnn.process.memory import MemoryUse, oom_kills
from a3gnn.process.worker import Ended, Worker
from a3gnn.profiling.request import DETAIL_CHARACTERS, OPENED, OPENING, PARTITIONING, TrialRequest
from a3gnn.task import SHIPPED, Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead, optimizer_imports
from a3gnn.units import format_duration, format_size


class TrialExecutor(Protocol):
    """Runs trials: in processes of this machine (`LocalExecutor`), of another one, or from stored rows (`Replay`)."""

    def run(self, request: TrialRequest) -> Metrics | Failure:
        """Returns the trial's outcome. A trial that fails is a value, never an exception."""

    def close(self) -> None:
        """Releases the executor's resources."""


@runtime_checkable
class MachineExecutor(TrialExecutor, Protocol):
    """Runs trials on a machine that it can probe: this one, or one of a cluster.

    `LocalExecutor`, and `a3gnn.profiling.cluster.executor.RayExecutor`.
    """

    def make_ready(self, graph: Graph, task: Task) -> float:
        """Prepares the machine for trials of `task` on `graph`, which is on disk; returns the seconds it took."""

    def probe(self) -> Hardware:
        """Returns that machine's hardware, probed there."""


class LocalExecutor:
    """Runs one trial at a time, each in a process of its own that a fork server starts.

    Partitions, a table of the input layer and float16 features on disk are made first in other processes, so that
    METIS's memory does not count as the training's. The same limits apply to them. Executors on one machine take
    turns, one trial each.

    Args:
        notify: Receives lines for people, such as the process it waits for.

    Attributes:
        worker: Runs the processes.
    """

    def __init__(self, notify: Callable[[str], None] = lambda line: None) -> None:
        self.worker = Worker()
        self._notify = notify

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def make_ready(self, graph: Graph, task: Task) -> float:
        """Compiles the kernels for trials of `task` on `graph`; returns the seconds it took."""
        if QUICK:
            self._notify(f"{QUICK_VARIABLE}=1: trials and verification measure as little as possible, only for tests")
        return compile_ahead(KernelSet.of(graph, task), self._notify)

    def probe(self) -> Hardware:
        """Probes this machine, and returns its hardware."""
        return probe_hardware(worker=self.worker, notify=self._notify)

    def run(self, request: TrialRequest) -> Metrics | Failure:
        """Returns the trial's outcome; an exception here, such as KeyboardInterrupt, ends the trial's process.

        The trial's timeout begins once the machine is free for it.
        """
        with machine_turn(self._notify):
            return self._run_alone(request)

    def close(self) -> None:
        """Ends the fork server."""
        self.worker.close()

    def _run_alone(self, request: TrialRequest) -> Metrics | Failure:
        prepare_s = self._prepare(request)
        if isinstance(prepare_s, Failure):
            return prepare_s
        with tempfile.TemporaryDirectory(dir=self.worker.folder, ignore_cleanup_errors=True) as scratch:
            trial = {"request": request.to_dict(), "scratch": scratch, "prepare_seconds": prepare_s}
            ended = self._run("run_trial", trial, request)
            is_opened = Path(scratch, OPENED).exists()
        if isinstance(ended, Failure):
            is_late = ended.kind is FailureKind.TIMEOUT and not is_opened
            return dataclasses.replace(ended, detail=f"{OPENING}: {ended.detail}") if is_late else ended
        assert ended.result is not None
        return joined(ended.result["metrics"], ended.peak)

    def _prepare(self, request: TrialRequest) -> float | Failure:
        """Makes the files that the trial reads beside the graph; returns the seconds it took, or the failure."""
        config, seconds = request.config, 0.0
        steps = {}
        if config.num_partitions > 1:
            steps["prepare_parts"] = f"{PARTITIONING} by {config.partitioner} into {config.num_partitions} parts"
        if config.input_aggregation == "full":
            steps["prepare_table"] = "while the input layer's table was made"
        elif (
            not request.setting.graph.relations
            and config.feature_dtype == "float16"
            and (config.feature_tier == "disk" or config.num_partitions > 1)
        ):
            steps["prepare_halves"] = "while float16 features were written"
        fields = {"config": config.to_dict(), "task": request.task.to_dict()}
        for name, what in steps.items():
            ended = self._run(name, {"graph_folder": request.graph_folder, **fields}, request)
            if isinstance(ended, Failure):
                return dataclasses.replace(ended, detail=f"{what}: {ended.detail}")
            assert ended.result is not None
            seconds += ended.result["seconds"]
        return seconds

    def _run(self, name: str, argument: dict[str, Any], request: TrialRequest) -> Ended | Failure:
        """Runs the function `name` of the trial's module; returns its end with the result, or the failure."""
        plan = request.plan
        kills = oom_kills()
        ended = self.worker.run(
            f"a3gnn.profiling.trial:{name}",
            argument,
            timeout_s=plan.timeout_s,
            limit_bytes=plan.host_limit_bytes,
            imports=imports_of(request.task, request.setting.hardware.has_device),
        )
        return _failure(ended, request, by_system=oom_kills() > kills) or ended


def imports_of(task: Task, has_device: bool) -> tuple[str, ...]:
    """Returns the modules that a trial of `task` imports beyond those of all trials.

    A process that starts trials imports them once. PyG's modules take seconds to import and 65 MiB, so trials without
    them do not pay for them. Of a user's model only the modules of its optimizer are known, and whether its layers are
    PyG's: each trial imports the model itself, which may have changed.

    Args:
        task: The task to train.
        has_device: Whether it trains on a device, which uses torch's Adam.
    """
    optimizer = optimizer_imports(task, has_device)
    if task.is_own:
        has_pyg = task.model in SHIPPED or (task.own is not None and task.own.native > 0)
        return (*optimizer, "torch_geometric.nn") if has_pyg else optimizer
    norm = () if task.norm == "none" else ("torch_geometric.nn.resolver",)
    layers = {"gatv2": "edge_attention", "transformer": "edge_attention"}.get(task.model, task.model)
    return (*optimizer, *((f"a3gnn.models.layers.{layers}", *norm) if task.uses_pyg else ()))


def joined(found: Mapping[str, Any], peak: MemoryUse) -> Metrics:
    """Returns the metrics `found` by a trial's process, completed by the memory `peak` seen from outside."""
    memory = {"peak_host_bytes": _peak(found, peak), "resident_file_bytes": peak.file_bytes}
    return Metrics.from_dict({**found, **memory})


def _peak(found: Mapping[str, Any], peak: MemoryUse) -> int:
    """Returns the larger of the peak that a process knew itself, and the peak of its process tree from outside."""
    return max(peak.anonymous_bytes, int(found.get("peak_host_bytes", 0)))


def _failure(ended: Ended, request: TrialRequest, *, by_system: bool) -> Failure | None:
    """Returns the failure of a process, or None. `by_system`: the kernel killed a process for lack of memory."""
    plan, peak = request.plan, ended.peak.anonymous_bytes
    if ended.result is not None and "metrics" in ended.result:
        peak = _peak(ended.result["metrics"], ended.peak)
    limit = plan.host_limit_bytes if ended.killed != "memory" else ended.limit_bytes
    if limit is not None and (ended.killed == "memory" or peak > limit):
        which = ended.which_limit if ended.killed == "memory" else format_size(limit)
        detail = f"passed the limit of {which}: it held {format_size(peak)}, perhaps only briefly"
        return Failure(FailureKind.OUT_OF_MEMORY, detail, peak, float(limit))
    if ended.killed == "timeout":
        where = f", and was at {ended.where}" if ended.where else ""
        detail = f"took longer than {format_duration(plan.timeout_s)}{where}"
        return Failure(FailureKind.TIMEOUT, detail, peak, plan.timeout_s)
    if ended.killed == "server":
        detail = f"the process that starts trials died: {ended.log[-DETAIL_CHARACTERS:]}"
        return Failure(FailureKind.CRASHED, detail, peak)
    if ended.result is None:
        if ended.status == -signal.SIGKILL and by_system:
            return Failure(FailureKind.OUT_OF_MEMORY, "killed by the system, which had no memory left", peak)
        log = ended.log[-DETAIL_CHARACTERS:].strip()
        detail = f"{log}\nthe process ended with {described_status(ended.status)}".strip()
        return Failure(FailureKind.CRASHED, detail, peak)
    if "failure" in ended.result:
        failure = dataclasses.replace(Failure.from_dict(ended.result["failure"]), peak_host_bytes=peak)
        if failure.kind is FailureKind.OUT_OF_MEMORY and plan.device_limit_bytes is not None:
            return dataclasses.replace(failure, limit=float(plan.device_limit_bytes))
        return failure
    return None
