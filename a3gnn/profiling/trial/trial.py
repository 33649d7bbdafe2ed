"""A trial, as it runs in its own process: warm-up, timed mini-batches, accuracy."""

from __future__ import annotations

import dataclasses
from statistics import fmean
from typing import Any

import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import DeviceError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition, restrict_to_parts
from a3gnn.measurement import StageSeconds
from a3gnn.process.compilations import compilations
from a3gnn.profiling.trial.failures import failure_of
from a3gnn.profiling.trial.request import Accuracy, TrialRequest
from a3gnn.profiling.trial.timing import Timing, time_steps
from a3gnn.training.trainer import Step, Trainer

#: Evaluations while training for the accuracy, at most; they are spread over the epochs and end with the last.
_MOST_EVALUATIONS = 5


def run_trial(argument: dict[str, Any]) -> dict[str, Any]:
    """Carries out `argument["request"]`, a `TrialRequest`, with scratch files in the folder `argument["scratch"]`.

    Returns `{"metrics": ...}`, the fields of `Metrics` but those of the host's memory, which whoever watches this
    process knows (`a3gnn.profiling.executor.joined`), or `{"failure": ...}`.
    Where a kernel had to be compiled, nothing measured counts: then it returns `{}` as soon as all have been needed.
    """
    try:
        request = TrialRequest.from_dict(argument["request"])
        metrics = _measure(request, argument["scratch"])
        return {} if metrics is None else {"metrics": metrics}
    except Exception as error:
        return {"failure": failure_of(error).to_dict()}


def prepare(argument: dict[str, Any]) -> dict[str, Any]:
    """Partitions the graph at `argument["graph_folder"]` as `argument["config"]` says, which is kept beside the graph.

    Returns `{}`, or `{"failure": ...}`.
    """
    try:
        graph, config = Graph.load(argument["graph_folder"]), TrainConfig.from_dict(argument["config"])
        restrict_to_parts(graph, partition(graph, config.num_partitions, partitioner=config.partitioner))
    except Exception as error:
        return {"failure": failure_of(error).to_dict()}
    return {}


def _measure(request: TrialRequest, scratch: str) -> dict[str, Any] | None:
    _limit_device(request)
    graph = Graph.load(request.graph_folder)
    with _trainer(graph, request, scratch) as trainer:
        plan = dataclasses.replace(request.plan, warmup_batches=request.plan.warmup_batches + trainer.trying_batches)
        timing = time_steps(trainer.steps, trainer.starts, trainer.batches_per_epoch, plan)
        if request.known_accuracy is not None or compilations.happened:
            trainer.evaluate()  # for its memory where the accuracy is known, for its kernels where some are cold
        batches_per_epoch, cache_bytes = trainer.batches_per_epoch, trainer.cache_bytes
    if compilations.happened:
        return None
    accuracy = request.known_accuracy or _train(graph, request, scratch)
    return _metrics(timing, batches_per_epoch, cache_bytes, accuracy, _peak_device_bytes(request))


def _trainer(graph: Graph, request: TrialRequest, scratch: str) -> Trainer:
    return Trainer(
        graph,
        request.config,
        request.setting.task,
        device="cuda" if request.setting.hardware.has_device else "cpu",
        scratch=scratch,
    )


def _train(graph: Graph, request: TrialRequest, scratch: str) -> Accuracy:
    """Returns the accuracy at the best validation epoch of a training from fresh weights."""
    epochs = request.plan.accuracy_epochs
    evaluated = {round(epochs * (i + 1) / _MOST_EVALUATIONS) for i in range(_MOST_EVALUATIONS)}
    best: Accuracy | None = None
    with _trainer(graph, request, scratch) as trainer:
        for epoch in range(epochs):
            for _ in trainer.steps(epoch):
                pass
            if epoch + 1 in evaluated:
                found = trainer.evaluate()
                if best is None or found.val > best.val:
                    best = Accuracy(test=found.test, val=found.val, epochs=epochs)
    assert best is not None, "the last epoch is always evaluated"
    return best


def _metrics(
    timing: Timing[Step], batches_per_epoch: int, cache_bytes: int, accuracy: Accuracy, device_bytes: int
) -> dict[str, Any]:
    """Returns the fields of `Metrics` that this process knows, as JSON types."""
    steps = timing.steps
    nodes = sum(step.input_nodes for step in steps)
    stages = (field.name for field in dataclasses.fields(StageSeconds))
    return {
        "throughput_epochs_per_s": timing.throughput(batches_per_epoch),
        "peak_device_bytes": device_bytes,
        "test_accuracy": accuracy.test,
        "val_accuracy": accuracy.val,
        "accuracy_epochs": accuracy.epochs,
        "timed_batches": len(steps),
        "batches_per_epoch": batches_per_epoch,
        "epoch_overhead_s": timing.epoch_overhead_s,
        "stage_seconds": {stage: fmean(getattr(step.seconds, stage) for step in steps) for stage in stages},
        "cache_hit_rate": sum(step.hits for step in steps) / max(nodes, 1),
        "cache_bytes": cache_bytes,
        "input_nodes_per_batch": nodes / len(steps),
        "sampled_edges_per_batch": fmean(step.sampled_edges for step in steps),
    }


def _limit_device(request: TrialRequest) -> None:
    """Holds torch's allocator to the device limit less the context, so that passing it raises out of memory."""
    hardware, limit = request.setting.hardware, request.plan.device_limit_bytes
    if not hardware.has_device or limit is None:
        return
    room = limit - hardware.profile.idle_device_bytes
    if room <= 0:
        raise DeviceError(
            f"the device limit must exceed what an idle context takes, {hardware.profile.idle_device_bytes} "
            f"bytes, got {limit}; raise --memory-limit"
        )
    torch.cuda.set_per_process_memory_fraction(min(1.0, room / hardware.device_memory_bytes))


def _peak_device_bytes(request: TrialRequest) -> int:
    """Returns the most that torch's allocator reserved on the device, and the context; 0 without a device."""
    hardware = request.setting.hardware
    if not hardware.has_device:
        return 0
    return int(torch.cuda.max_memory_reserved()) + hardware.profile.idle_device_bytes
