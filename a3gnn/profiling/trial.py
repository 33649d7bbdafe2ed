"""A trial in its own process: warm-up, timed windows of mini-batches, the learning curve."""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import DeviceError
from a3gnn.evaluation.input_table import input_table_seconds
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.halves import halves_seconds
from a3gnn.graphs.partition import partition_seconds
from a3gnn.learning_curve import NO_CURVE, CurveEnd, LearningCurve, Pace
from a3gnn.machine.other_work import OtherWork
from a3gnn.measurement import StageSeconds
from a3gnn.models.own.factory import Factory
from a3gnn.process.compilations import compilations
from a3gnn.profiling.request import OPENED, CurveRules, TrialRequest, failure_of
from a3gnn.profiling.timing import Clocks, Epochs, Timing, time_windows
from a3gnn.task import Task
from a3gnn.threads.affinity import available_cores
from a3gnn.training.curve import first_point, train_curve
from a3gnn.training.describe import redescribed
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer, TrainerOptions

#: Least evaluations of validation in a trial with a curve: in five rehearsals of eight, no later one raised the peak.
EVALUATIONS = 4
#: Mini-batches before a rehearsal's first evaluation; the others follow as on a curve (`next_point`).
_REHEARSED_BATCHES = 2


def run_trial(argument: dict[str, Any]) -> dict[str, Any]:
    """Carries out `argument["request"]`, a `TrialRequest`, with scratch files in the folder `argument["scratch"]`.

    `argument["prepare_seconds"]` is the sum of the seconds from `prepare_parts`, `prepare_table` and `prepare_halves`.

    Returns `{"metrics": ...}`, the fields of `Metrics`, or `{"failure": ...}`. Of the host's memory, the metrics have
    only the peak that this process knows; `a3gnn.profiling.executor.joined` adds the peak seen from outside. If a
    kernel had to be compiled, no measurement counts: returns `{}` as soon as all kernels have been needed.
    """
    try:
        request = TrialRequest.from_dict(argument["request"])
        metrics = _measure(request, argument["scratch"], argument["prepare_seconds"])
        return {} if metrics is None else {"metrics": metrics}
    except Exception as error:
        return {"failure": failure_of(error).to_dict()}


def prepare_parts(argument: dict[str, Any]) -> dict[str, Any]:
    """Partitions the graph at `argument["graph_folder"]` for `argument["config"]`; the parts stay beside the graph.

    Returns `{"seconds": ...}`, the time this takes, now or when it was first done; or `{"failure": ...}`.
    """
    try:
        graph, config = Graph.load(argument["graph_folder"]), TrainConfig.from_dict(argument["config"])
        return {"seconds": partition_seconds(graph, config.num_partitions, partitioner=config.partitioner)}
    except Exception as error:
        return {"failure": failure_of(error).to_dict()}


def prepare_table(argument: dict[str, Any]) -> dict[str, Any]:
    """Makes the table that the input layer of the task `argument["task"]` reads; it stays beside the graph.

    Takes the arguments of `prepare_parts` too, and returns the same fields.
    """
    try:
        graph, task = Graph.load(argument["graph_folder"]), Task.from_dict(argument["task"])
        return {"seconds": input_table_seconds(graph, task, TrainConfig.from_dict(argument["config"]))}
    except Exception as error:
        return {"failure": failure_of(error).to_dict()}


def prepare_halves(argument: dict[str, Any]) -> dict[str, Any]:
    """Writes the float16 features beside the graph. Takes and returns the same fields as `prepare_parts`."""
    try:
        graph = Graph.load(argument["graph_folder"])
        return {"seconds": halves_seconds(graph, graph.features, "features")}
    except Exception as error:
        return {"failure": failure_of(error).to_dict()}


def learn(trainer: Trainer, rules: CurveRules, request: TrialRequest) -> dict[str, Any]:
    """Trains the learning curve, and returns its fields of `Metrics` as JSON types.

    The known curve is extended as far as `rules` allow. If fewer than `EVALUATIONS` points are new, the rest is
    rehearsed (`rehearse`). A whole curve is trained from its start and keeps no state, because the stored state may be
    further.
    """
    whole, plan = rules.plan.whole, request.plan
    limited = plan.host_limit_bytes is not None or plan.device_limit_bytes is not None
    first = first_point(trainer)
    known = NO_CURVE if whole else request.known_curve or NO_CURVE
    reached = rules.cut(known, first)
    if reached is not None:
        curve = dataclasses.replace(known, ended=reached.ended).to_dict()
        return {
            "curve": curve,
            "curve_first": first,
            "rehearsal_seconds": rehearse(trainer, EVALUATIONS, tests=limited),
        }
    state = Path(request.curve_state) if request.curve_state and not whole else None
    found = train_curve(trainer, known, first=first, should_end=rules.end, state=state, whole=whole)
    missing, tested = EVALUATIONS - found.evaluations, found.test_accuracy(trainer) if rules.plan.tests else None
    fields = {
        "curve": found.curve.to_dict(),
        "curve_train_seconds": found.train_seconds,
        "curve_eval_seconds": found.eval_seconds,
        "curve_first": first,
        "test_accuracy": tested,
    }
    del found  # its copy of the best weights, because a rehearsal makes one, too
    return fields | {"rehearsal_seconds": rehearse(trainer, missing, tests=limited and tested is None)}


def rehearse(trainer: Trainer, evaluations: int, *, tests: bool) -> float:
    """Trains from fresh weights and evaluates so many times; returns the seconds of that.

    A training evaluates within an epoch: beside mini-batches, gradients and the optimizer's state. At its end it is
    tested, which takes more memory if there are more test nodes than validation nodes. A trial does so too, with a
    sample if test nodes are very many, or its peak is less than a training's. Without a limit on memory it is not
    tested, which can take seconds on large graphs.

    Args:
        trainer: The trainer.
        evaluations: Evaluations of validation nodes that are missing.
        tests: Whether to evaluate test nodes, too. The result is dropped: no trial is judged by it.
    """
    if tests:
        trainer.rehearse_test()
    if evaluations <= 0:
        return 0.0
    begin = perf_counter()

    def should_end(curve: LearningCurve, due: int) -> CurveEnd | None:
        return CurveEnd.BUDGET if len(curve.batches) >= evaluations else None

    train_curve(trainer, None, first=_REHEARSED_BATCHES, should_end=should_end, state=None)
    return perf_counter() - begin


def _measure(request: TrialRequest, scratch: str, before_s: float) -> dict[str, Any] | None:
    """Returns the metrics of a trial whose files took `before_s` seconds to make, or None if kernels were compiled."""
    _limit_device(request)
    if request.task.is_own:
        Factory.of(request.task.model).load()  # imports it before set-up is timed, as trainings do
    graph = Graph.load(request.graph_folder)
    task = redescribed(request.task, graph)
    Path(scratch, OPENED).unlink(missing_ok=True)  # of a run that compiled
    begin = perf_counter()
    with _trainer(graph, task, request, scratch) as trainer:
        setup_s = before_s + perf_counter() - begin
        Path(scratch, OPENED).touch()
        plan = dataclasses.replace(request.plan, warmup_batches=request.plan.warmup_batches + trainer.trying_batches)
        epochs = Epochs(trainer.steps, trainer.starts, trainer.batches_per_epoch)
        others = OtherWork()
        timing = time_windows(epochs, plan, Clocks(others.seconds, others.stolen_seconds, available_cores()))
        asked = request.plan.curve
        if compilations.happened:
            if asked is not None:
                trainer.validate()  # compiles validation's kernels too
            return None
        found = _metrics(timing, setup_s, trainer.cache_bytes)
        if asked is not None:
            pace = Pace(setup_s, timing.throughput * timing.batches_per_epoch)
            found |= learn(trainer, CurveRules(asked, pace, timing.batches_per_epoch), request)
        trainer.check_sources()
        found["peak_host_bytes"] = trainer.memory.peak_bytes
    return found | {"peak_device_bytes": _peak_device_bytes(request)}


def _trainer(graph: Graph, task: Task, request: TrialRequest, scratch: str) -> Trainer:
    config = request.config
    options = TrainerOptions(scratch, evaluation_bytes=request.plan.evaluation_bytes)
    if config.trainers > 1:
        from a3gnn.hybrid.trainers.opening import open_hybrid
        from a3gnn.hybrid.trainers.request import Trainers

        asked = Trainers().of(config)
        assert asked is not None, "there are several"
        several = asked.on(graph, config, task, hardware=lambda: request.setting.hardware)
        return open_hybrid(graph, config, task, several, options)
    return Trainer(graph, config, task, options, device="cuda" if request.setting.hardware.has_device else "cpu")


def _metrics(timing: Timing[Step], setup_s: float, cache_bytes: int) -> dict[str, Any]:
    """Returns the fields of `Metrics` that need no curve, as JSON types."""
    steps = timing.steps
    nodes = sum(step.input_nodes for step in steps)
    stages = (field.name for field in dataclasses.fields(StageSeconds))
    return {
        "throughput_epochs_per_s": timing.throughput,
        "throughput_replicates": timing.replicates,
        "disturbed_windows": timing.disturbed,
        "setup_seconds": setup_s,
        "test_accuracy": None,
        "val_accuracy": None,
        "accuracy_epochs": 0,
        "timed_batches": len(steps),
        "batches_per_epoch": timing.batches_per_epoch,
        "epoch_overhead_s": timing.epoch_overhead_s,
        "stage_seconds": {stage: timing.mean_seconds(attrgetter(f"seconds.{stage}")) for stage in stages},
        "cache_hit_rate": sum(step.hits for step in steps) / max(nodes, 1),
        "cache_bytes": cache_bytes,
        "input_nodes_per_batch": nodes / len(steps),
        "sampled_edges_per_batch": fmean(step.sampled_edges for step in steps),
    }


def _limit_device(request: TrialRequest) -> None:
    """Limits torch's allocator to the device limit minus the context, so that more raises out of memory."""
    hardware, limit = request.setting.hardware, request.plan.device_limit_bytes
    if not hardware.has_device or limit is None:
        return
    room = limit - hardware.profile.idle_device_bytes
    if room <= 0:
        raise DeviceError(
            f"the device limit must exceed the memory of an idle context, {hardware.profile.idle_device_bytes} bytes, "
            f"got {limit}; raise the memory limit"
        )
    torch.cuda.set_per_process_memory_fraction(min(1.0, room / hardware.device_memory_bytes))


def _peak_device_bytes(request: TrialRequest) -> int:
    """Returns the peak of torch's reserved device memory plus the context; 0 without a device."""
    hardware = request.setting.hardware
    if not hardware.has_device:
        return 0
    return int(torch.cuda.max_memory_reserved()) + hardware.profile.idle_device_bytes
