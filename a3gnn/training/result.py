"""`TrainResult`: the result of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Self

import torch

from a3gnn.config import TrainConfig
from a3gnn.machine.probe import kept_hardware
from a3gnn.metric import Metric
from a3gnn.nvtps import nvtps_per_gb_per_s
from a3gnn.task import Task
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.ending import End, Ending
from a3gnn.training.fit import ended_at, why_ended
from a3gnn.training.progress import Progress, TargetAccuracy
from a3gnn.training.rank_processes import Alone
from a3gnn.training.request import TrainRequest
from a3gnn.training.step import EpochWork, WorkFigures
from a3gnn.training.trainer import Trainer


@dataclass(frozen=True, slots=True)
class TrainResult:
    """The result of `train`; `docs/design/measurement.md` defines each figure.

    Attributes:
        test_accuracy: Quality on test nodes by the task's metric, with the weights in model.pt; evaluated once, at the
            end.
        val_accuracy: Quality on validation nodes, with the same weights.
        best_epoch: The epoch of these weights, from 1; None if training ended at the target.
        epochs: Finished epochs.
        batches: Mini-batches trained on.
        train_seconds: Seconds of training, with set-up and without evaluation.
        ended: Why training ended (`a3gnn.training.ending.End`): "no better" if validation had stopped improving,
            "epochs", "patience" or "target".
        still_improving: Whether the limit of epochs ended training while validation was still improving.
        throughput_epochs_per_s: One over the median training time of an epoch, without evaluation.
        target_accuracy: The target of the validation quality; None without a target.
        seconds_to_accuracy: Seconds of training, with set-up and without evaluation, until validation reached the
            target and kept it (`a3gnn.learning_curve.LearningCurve.first_reaching`); None if it did not.
        batches_to_accuracy: Mini-batches until the target was reached, or None.
        eval_seconds_to_accuracy: Seconds of evaluation until the target was reached, or None.
        eval_seconds: Seconds of all evaluations of validation.
        peak_host_bytes: Peak of anonymous and shared-anonymous memory, including evaluation.
        peak_device_bytes: Peak that torch's allocator reserved on the device, and the CUDA context, as in a trial; 0
            without a device.
        cache_hit_rate: Share of input rows that the cache served in the last epoch.
        cache_bytes: The cache's actual bytes.
        seconds_per_epoch: Median training time of an epoch, without evaluation.
        nvtps: Vertices traversed per second over all layers, ranks and trainers, the median of epochs (HitGNN's Eq. 3).
        nvtps_per_gb_per_s: `nvtps` over the GB/s at which the probe copied rows in the memory of the training machines.
            None if the probe never ran here, or if a GPU trains, because the probe does not time its memory.
        mteps: Millions of edges traversed per second, the median of epochs (HyScale-GNN's Eq. 5).
        kj_per_epoch: Energy in kJ of the machines' processors and GPUs to train an epoch, the median of epochs; None if
            one of them doesn't report it.
        energy: What `kj_per_epoch` counts, or why it is None.
        seconds: Seconds of this call: after a resume, the rest of the run.
        stolen_share: Share of its cores' time that the hypervisor gave to other machines while this call trained and
            evaluated, in [0, 1]. Seconds and throughput include it, unlike the seconds and throughput of a tune.
        folder: The folder with model.pt, metrics.jsonl, checkpoint.pt and result.json.
        evaluation: A description of the neighborhoods that qualities were computed from.
        config: The configuration.
        task: The trained task.
        graph: The graph's name.
        metric: The metric of the qualities.
        ranks: Processes that trained together. Memory is summed over them; other figures are rank 0's.
        trainers: With several trainers in this process: their `names`, `kinds`, `shares` of seeds, `sampling` of
            mini-batches, the requested depths `prefetch`, and `repeated_work`, the work of all shares over the work of
            the whole, for the first mini-batches (`a3gnn.pipeline.divided`). If they adapted, these are the final
            values, together with their `threads` and all `changes`
            (`a3gnn.hybrid.control.adaptation.DivisionChange`). None for one trainer.
        algorithm: The synchronous algorithm of the ranks: its `name`, `iterations` per epoch, each rank's reads and
            messages in all epochs (`ranks`: a `Traffic` each), and `partition_s`, the seconds of partitioning
            (docs/research/algorithms.md). None without one.
        adapted: For one trainer that adapted, the final `cache_bytes` and all `changes`
            (`a3gnn.training.adapting.memory_watch.CacheChange`); None otherwise.
        heuristics: Qualities on test examples of predictions without a model, by name (`a3gnn.evaluation.heuristics`);
            None if each would take long or exceed the memory limit.
        heuristics_validation: Qualities on validation nodes of those among them that are models of nodes without a
            graph network (`a3gnn.evaluation.row_models`); None without any.
        disk_reads: Bytes that the cache policy ahead `read` from the disk in this call, and bytes of the rows `used`;
            None with other policies.
    """

    test_accuracy: float
    val_accuracy: float
    best_epoch: int | None
    epochs: int
    batches: int
    train_seconds: float
    ended: End
    still_improving: bool
    throughput_epochs_per_s: float
    target_accuracy: float | None
    seconds_to_accuracy: float | None
    batches_to_accuracy: int | None
    eval_seconds_to_accuracy: float | None
    eval_seconds: float
    peak_host_bytes: int
    peak_device_bytes: int
    cache_hit_rate: float
    cache_bytes: int
    seconds_per_epoch: float
    nvtps: float | None
    nvtps_per_gb_per_s: float | None
    mteps: float | None
    kj_per_epoch: float | None
    energy: str
    seconds: float
    stolen_share: float
    folder: Path
    evaluation: str
    config: TrainConfig
    task: Task
    graph: str
    metric: Metric
    ranks: int = 1
    trainers: dict[str, Any] | None = None
    algorithm: dict[str, Any] | None = None
    adapted: dict[str, Any] | None = None
    heuristics: dict[str, float] | None = None
    heuristics_validation: dict[str, float] | None = None
    disk_reads: dict[str, int] | None = None

    def with_row_references(self, found: Mapping[str, Mapping[str, float]]) -> Self:
        """Returns the result with the `validation` and `test` qualities of models without a graph network, by name."""
        of_test, of_validation = ({name: one[part] for name, one in found.items()} for part in ("test", "validation"))
        of_test = {**(self.heuristics or {}), **of_test}
        return replace(self, heuristics=of_test or None, heuristics_validation=of_validation or None)

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as one JSON object."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        parts = {"config": self.config.to_dict(), "task": self.task.to_dict(), "metric": self.metric.to_dict()}
        return fields | {"folder": str(self.folder), **parts}


def make_result(
    trainer: Trainer,
    done: Progress,
    request: TrainRequest,
    process: Alone,
    *,
    ending: Ending,
    target: TargetAccuracy | None,
    context_bytes: int,
    **measured: Any,
) -> TrainResult:
    """Returns the result of a finished run.

    Args:
        trainer: With the weights of model.pt.
        done: The final progress.
        request: The run's request.
        process: This process among the ranks.
        ending: When training was to end.
        target: The run's target, if any.
        context_bytes: Memory of the CUDA context; 0 without a device.
        measured: The result's test_accuracy, seconds, stolen_share, energy and folder.
    """
    reached = None if target is None else done.reached(target.accuracy)
    best = None if ended_at(target, done) else done.best
    kept = done.points[-1] if best is None else best
    speed, figures = done.epochs_per_s(trainer.batches_per_epoch), _figures(trainer, done)
    return TrainResult(
        val_accuracy=kept.val_accuracy,
        best_epoch=None if best is None else best.epoch,
        epochs=len(done.epochs),
        batches=done.batches(trainer.batches_per_epoch),
        train_seconds=done.train_s,
        ended=why_ended(ending, target, done, trainer.batches_per_epoch),
        still_improving=best is not None and ending.cuts_off(done, trainer.batches_per_epoch),
        throughput_epochs_per_s=speed,
        target_accuracy=None if target is None else target.accuracy,
        seconds_to_accuracy=None if reached is None else reached.train_s,
        batches_to_accuracy=None if reached is None else reached.batches,
        eval_seconds_to_accuracy=None if reached is None else reached.eval_s,
        eval_seconds=done.eval_s,
        peak_host_bytes=process.total(trainer.memory.peak_bytes),
        peak_device_bytes=context_bytes + int(torch.cuda.max_memory_reserved()) if torch.cuda.is_available() else 0,
        cache_hit_rate=done.cache_hit_rate,
        cache_bytes=trainer.cache_bytes,
        seconds_per_epoch=1 / speed,
        nvtps=figures.nvtps,
        nvtps_per_gb_per_s=_per_gb_per_s(figures.nvtps, trainer, process),
        mteps=figures.mteps,
        kj_per_epoch=figures.kilojoules,
        evaluation=trainer.evaluation,
        config=request.config,
        task=request.task,
        graph=request.graph.name,
        metric=trainer.metric,
        ranks=process.count,
        trainers=trainer.trainers,
        algorithm=process.told(done),
        adapted=trainer.division.told if isinstance(trainer, AdaptingTrainer) else None,
        heuristics=trainer.heuristics or None,
        disk_reads=trainer.disk_reads,
        **measured,
    )


def _figures(trainer: Trainer, done: Progress) -> WorkFigures:
    """Returns the medians over finished epochs, or an estimate from the current epoch's mini-batches if none is."""
    if done.epochs:
        return WorkFigures(*(_median([getattr(one, name) for one in done.epochs]) for name in WorkFigures._fields))
    under_way = done.under_way
    found = WorkFigures.of(trainer.over_ranks(EpochWork(*under_way.work)), under_way.seconds)
    whole = trainer.batches_per_epoch / under_way.batches
    return found._replace(kilojoules=None if found.kilojoules is None else found.kilojoules * whole)


def _median(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else None


def _per_gb_per_s(traversed_per_s: float | None, trainer: Trainer, process: Alone) -> float | None:
    """Returns NVTPS per GB/s of all machines' memory; assumes that all machines are like this one."""
    machines = process.total(int(process.leads_machine))
    known = None if trainer.gpus else kept_hardware()
    if traversed_per_s is None or known is None:
        return None
    return nvtps_per_gb_per_s(traversed_per_s, machines * known.host_bytes_per_s)
