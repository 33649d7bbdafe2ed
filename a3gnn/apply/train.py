"""`train`: trains a model on a graph with a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from a3gnn.checks import checked_limit, flag, path_or_none, whole_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.evaluation.evaluate import metric_of
from a3gnn.graphs.split import Split
from a3gnn.hybrid.schedule import STALL_S, TrainerSampling
from a3gnn.hybrid.trainers.opening import OpenRequest, open_request
from a3gnn.hybrid.trainers.request import Trainers
from a3gnn.machine.energy import EnergyMeter
from a3gnn.machine.other_work import OtherWork
from a3gnn.machine.probe import device_context_bytes
from a3gnn.metric import checked_metric
from a3gnn.models.own.factory import model_name
from a3gnn.notify import listener
from a3gnn.option_names import option
from a3gnn.parts.graph import watched
from a3gnn.process.heap import trim_heap
from a3gnn.storage.claim import claimed, claimed_next
from a3gnn.storage.host_limits import evaluation_bytes
from a3gnn.task import Task
from a3gnn.training.checkpoint import identity
from a3gnn.training.compile_ahead import KernelSet, compile_ahead, optimizer_imports
from a3gnn.training.curve import first_point
from a3gnn.training.ending import Ending, Patience
from a3gnn.training.fit import Interrupt, run
from a3gnn.training.progress import Progress, TargetAccuracy
from a3gnn.training.rank_processes import SynchronousAlgorithm, processes
from a3gnn.training.request import TrainRequest
from a3gnn.training.result import TrainResult, make_result
from a3gnn.training.run_folder import RunFolder, check_run_folder
from a3gnn.training.trainer import Trainer, TrainerOptions
from a3gnn.training.tuned import TunedConfig
from a3gnn.units import count

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike
#: Share of the training's seconds that models without a network may take afterwards, and the seconds that they may take
#: in any case: little, because the user has a model by then.
_REFERENCES_SHARE, _REFERENCES_S = 0.1, 5.0


def train(
    config: TrainConfig | TunedConfig | Mapping[str, Any] | str | Path,
    dataset: GraphLike | None = None,
    *,
    model: str | Callable[[int, int], Any] | None = None,
    task: Task | None = None,
    epochs: int | None = None,
    patience: Patience = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    host_memory_limit: str | int | None = None,
    target_accuracy: float | None = None,
    until_target: bool = False,
    metric: str | None = None,
    references: bool = True,
    trainers: str | None = None,
    trainer_shares: Sequence[int] | None = None,
    trainer_sampling: TrainerSampling = "whole",
    trainer_stall: float = STALL_S,
    prefetch: Sequence[int] | None = None,
    adapt: bool = False,
    algorithm: SynchronousAlgorithm | None = None,
    split: str | Sequence[float] | None = None,
    split_seed: int = 0,
    progress: bool = False,
    notify: Callable[[str], None] | None = None,
) -> TrainResult:
    """Trains a model with `config` and returns the result.

    The folder `out` gets metrics.jsonl as epochs end, model.pt and result.json. model.pt holds the weights of the best
    validation epoch, or of the end of training at a target; PyG's model of the same shape can load them. Test nodes are
    evaluated once, at the end, with these weights. Ctrl-C and a passed memory limit leave a checkpoint, from which
    `resume` continues bit-identically. All processes that `torchrun` started train one model together
    (docs/howto/distributed.md).

    Args:
        config: A configuration, a dict of its fields, a tuned configuration, or the path of a tuned.json or its folder.
            A tuned configuration's task, dataset and host memory limit apply unless given here.
        dataset: A graph, a PyG `Data`, or a value of `--dataset`, including graphs in parts
            (docs/howto/graph_servers.md).
        model: Replaces the task's model: the name of a built-in model (docs/reference/models.md), or your own model
            (docs/howto/own_models.md). Your own is a function (in_channels, out_channels) that returns a
            torch.nn.Module, or the function's name as package.module:function.
        task: The other settings of training; by default the tuned.json's, or the default task.
        epochs: Most epochs, including those before a resume. None has no limit, or a falling learning rate's
            `task.lr_epochs`.
        patience: Epochs without a better validation quality, by the metric, after which training ends; None for never.
            "auto" ends it when validation was no better over the last third of its mini-batches, at least 200 of them,
            with twenty evaluations in all. Validation then also runs within long epochs. A falling learning rate is
            trained to its end.
        out: A new folder, or with `resume` the folder of the run to continue; by default runs/train-GRAPH.
        resume: Whether to continue the run in `out`.
        host_memory_limit: Limit of this process's memory that can't be reclaimed, forked processes left out: bytes, or
            text such as "4GiB"; None for the limit of the tuned.json, if any.
        target_accuracy: Validation quality, by the metric, in percent, such as 88; for mae the error, such as 0.4.
            Until it is reached and the mean of the next three points keeps it, validation also runs at the points of
            the learning curve, as in a tune, and the result contains the time to target. None uses the target of the
            tuned.json, if that was tuned for this graph and metric.
        until_target: Whether training ends at the target: at its first point there after three points that kept it.
        metric: accuracy, macro_f1, micro_f1, roc_auc, average_precision, mae, rmse, r2, or auto, which chooses by the
            labels (docs/reference/metrics.md). None uses the task's metric, or auto if neither a task nor a tuned.json
            is given.
        references: Whether one process also trains models of nodes without a graph network afterwards: linear, an MLP,
            and boosted trees, for at most a tenth of the training's seconds, or 5 s, unless the tune has trained them
            on this graph and split. The summary says whether one is nearly as good.
        trainers: Devices that train shares of each mini-batch together, such as "cpu:1,cpu:1", or auto for all devices
            of this machine (docs/research/hybrid.md). It overrides the configuration. None uses the configuration's:
            one by default.
        trainer_shares: Seeds of each trainer, batch_size in total. None makes the shares of equal devices equal, and
            divides between processors and accelerators by the performance model.
        trainer_sampling: whole samples mini-batches once and cuts them, so that any shares equal one trainer;
            independent samples each share separately.
        trainer_stall: Seconds that a stage of a mini-batch may take before a trainer counts as lost.
        prefetch: How many mini-batches sampling may be ahead of feature loading, feature loading ahead of transfer, and
            transfer ahead of propagation. 0 runs two stages in turn; (1, 1, 1) is two-stage prefetching. None uses the
            configuration.
        adapt: Whether to change settings between mini-batches, without a restart. With one trainer, the cache shrinks
            when memory gets scarce, and training stays bit-identical. With several, their shares and threads change by
            measured seconds, and training stays the same up to rounding.
        algorithm: A synchronous algorithm with one mini-batch per rank, such as
            `a3gnn.hitgnn.algorithms.built_in.named("distdgl")` (docs/research/algorithms.md). None has all ranks train
            shares of the same mini-batch.
        split: Shares of train, validation and test nodes, such as "0.6,0.2,0.2", for a random split of the labeled
            nodes. None keeps the graph's own split.
        split_seed: Seed of the random split.
        progress: Whether to draw a progress bar on stderr.
        notify: Called with messages: warnings, and the figures of the epochs 1, 2, 3, 4, 6, 9 and so on, and of the
            last one; metrics.jsonl has every epoch. By default they are printed, in a script to stderr.

    Raises:
        UsageError: An argument is out of range, or another run writes `out`.
        ModelError: Your own model can't be imported, built or called.
        ConfigError: The tuned.json or the checkpoint is missing, broken or belongs to something else.
        GraphError: The graph can't be read.
        DeviceError: The configuration needs a GPU and there is none.
        MemoryLimitError: The memory limit was passed. This error and the errors below say how to continue.
        GraphServerError: A graph server can't be reached any more.
        KeyboardInterrupt: Ctrl-C was pressed.
        PeerLostError: One of several processes that train together has ended.
        TrainerError: One of several trainers has failed, or does not come back.
    """
    begin, notify = perf_counter(), listener(notify)
    _check(epochs, patience, out, resume, progress, task)
    trim_heap()  # what an earlier training of this process freed would count in the peak and the limit of this one
    several = Trainers(trainers, trainer_shares, trainer_sampling, trainer_stall, adapt, prefetch)
    metric = checked_metric(metric)
    limit, shares = checked_limit(option("host_memory_limit"), host_memory_limit), Split.of(split, split_seed)
    with processes(algorithm) as process, ExitStack() as stack:
        notify = process.said(notify)
        if out is not None and process.speaks:
            check_run_folder(Path(out), resume=resume)
            stack.enter_context(claimed(Path(out), notify))
        if isinstance(config, Mapping):
            config = TrainConfig.from_dict(config)
        with process.first_alone():
            begin += compile_ahead(KernelSet(), notify)
            name = None if model is None else model_name(model)
            request = TrainRequest.of(config, dataset, task, name, metric, notify, shares)
            begin += compile_ahead(KernelSet.of(request.graph, request.task, request.config), notify)
        opened = open_request(several, request, process, out if resume else None, notify)
        graph, ending = opened.request.graph, ending_of(epochs, patience, opened.request.task, notify)
        accuracy = _accuracy(opened.request, target_accuracy, until_target)
        if limit is None and request.tuned is not None:
            limit = request.tuned.limits.host_bytes
        folder = process.folder(
            lambda: stack.enter_context(claimed_next(f"train-{graph.name}", notify)) if out is None else Path(out),
            resume=resume,
        )
        training = _Training(
            opened=opened,
            folder=folder,
            ending=ending,
            accuracy=accuracy,
            until_target=until_target,
            references=flag("references", references) and process.count == 1,
            limit=process.limit(limit, notify),
            resume=resume,
            progress=progress and process.speaks,
            begin=begin,
            notify=notify,
        )
        return training.run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Training:
    """A training with an open graph and folder, its memory limit in bytes, and when it began, on `perf_counter`."""

    opened: OpenRequest
    folder: RunFolder
    ending: Ending
    accuracy: float | None
    until_target: bool
    references: bool
    limit: int | None
    resume: bool
    progress: bool
    begin: float
    notify: Callable[[str], None]

    def run(self) -> TrainResult:
        """Opens the trainer, trains, evaluates test nodes and writes the result."""
        process, interrupt = self.opened.process, self.opened.process.interrupt()
        context_bytes = _prepared_device(self.opened.request.task, self.opened.has_gpu)
        options = TrainerOptions(
            scratch=self.folder.scratch,
            host_memory_limit=self.limit,
            evaluation_bytes=evaluation_bytes(self.limit),
            on_chunk=interrupt.check,
            should_stop=lambda: interrupt.noted,
        )
        before = perf_counter()
        with watched(self.opened.request.graph, self.notify, interrupt.check):
            with process.first_alone():
                made = self.opened.trainer(options)
                process.prepare(made)
            with made as trainer:
                result = self._trained(trainer, interrupt, perf_counter() - before, context_bytes)
                if not self.references:
                    return result
                seconds = max(_REFERENCES_SHARE * result.train_seconds, _REFERENCES_S)
                known = self.opened.request.row_references
                result = result.with_row_references(known or trainer.row_references(seconds, self.notify))
                self.folder.finish(result.to_dict())
                return result

    def _trained(self, trainer: Trainer, interrupt: Interrupt, setup_s: float, context_bytes: int) -> TrainResult:
        request, process = self.opened.request, self.opened.process
        known = identity(request.graph, request.config, request.task, process.count, trainer.trainers, process.identity)
        done = self.folder.begin(trainer, known)
        done.setup_s = done.setup_s if self.resume else setup_s
        if request.task.is_own:
            self.notify(f"{trainer.metric.label} is computed from {trainer.evaluation}")
        target = None if self.accuracy is None else _target(trainer, done, self.accuracy, ends=self.until_target)
        first = None if target is None and not self.ending.watches else _first_point(trainer, done)
        others, meter = OtherWork(), EnergyMeter(trainer.gpus, host=process.leads_machine)
        test = run(
            trainer,
            self.folder,
            done,
            interrupt,
            ending=self.ending,
            first=first,
            target=target,
            meter=meter,
            progress=self.progress,
            notify=self.notify,
        )
        result = make_result(
            trainer,
            done,
            request,
            process,
            folder=self.folder.path,
            seconds=perf_counter() - self.begin,
            stolen_share=others.stolen_share(),
            context_bytes=context_bytes,
            ending=self.ending,
            target=target,
            test_accuracy=test,
            energy=meter.told,
        )
        self.folder.finish(result.to_dict())
        return result


def _prepared_device(task: Task, has_gpu: bool) -> int:
    """Imports what a step needs and resets the device's peak, before timing; returns its context's bytes, 0 without."""
    for module in optimizer_imports(task, has_gpu):
        import_module(module)  # before timing starts, because trials of a tune start with it imported
    context_bytes = device_context_bytes() if has_gpu else 0
    # An earlier training of this process has its own peak.
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return context_bytes


def _accuracy(request: TrainRequest, target_accuracy: float | None, until_target: bool) -> float | None:
    """Returns the validation quality to reach, or None; raises a `UsageError` if an argument is out of range."""
    accuracy = request.target
    if target_accuracy is not None:
        accuracy = metric_of(request.task, request.graph).quality_of(option("target_accuracy"), target_accuracy)
    if flag("until_target", until_target) and accuracy is None:
        raise UsageError(
            f"{option('until_target')} needs a target; give {option('target_accuracy')}, or a tuned.json with one"
        )
    return accuracy


def _target(trainer: Trainer, done: Progress, accuracy: float, *, ends: bool) -> TargetAccuracy:
    """Returns the target.

    Raises:
        UsageError: Training should end at the target, but a run before a resume has already passed it.
    """
    trained = done.batches(trainer.batches_per_epoch)
    settled = done.settled(accuracy)
    if ends and settled is not None and settled.batches < trained:
        raise UsageError(
            f"{option('until_target')} needs a run that has not passed the target, got a run that reached "
            f"{trainer.metric.show(accuracy)}, kept it until {settled.batches} mini-batches and went on to {trained}; "
            "leave it out, or start another run"
        )
    return TargetAccuracy(accuracy, ends)


def _first_point(trainer: Trainer, done: Progress) -> int:
    """Returns the mini-batches before the learning curve's first point; the time to find it counts as evaluation."""
    begin = perf_counter()
    first = first_point(trainer)
    done.eval_s += perf_counter() - begin
    return first


def ending_of(epochs: int | None, patience: Patience, task: Task, notify: Callable[[str], None]) -> Ending:
    """Returns when training ends; passes a note to `notify` if that is not where the learning rate reaches 0.

    Raises:
        UsageError: An argument is out of range, or training would never end.
    """
    _check_ending(epochs, patience)
    ending, falls = Ending.of(epochs, patience, task), task.lr_epochs
    if ending.epochs is None and ending.patience is None:
        raise UsageError("patience=None needs epochs, or training never ends")
    if falls is not None and ending.epochs is not None and falls != ending.epochs:
        outcome = "later epochs change no weight" if falls < ending.epochs else "training ends before that"
        notify(f"the learning rate falls to 0 over {count(falls, 'epoch')} of at most {ending.epochs}: {outcome}")
    return ending


def _check_ending(epochs: int | None, patience: Patience) -> None:
    """Raises a `UsageError` if one of the arguments of `train` is out of range."""
    if epochs is not None:
        whole_number("epochs", epochs, 1)
    if patience is not None and patience != "auto":
        whole_number("patience", patience, 1, "None never stops early")


def _check(epochs: int | None, patience: Patience, out: object, resume: bool, progress: bool, task: object) -> None:
    _check_ending(epochs, patience)
    path_or_none("out", out)
    flag("progress", progress)
    if flag("resume", resume) and out is None:
        raise UsageError(f"{option('resume')} needs the {option('out')} folder of the run to continue")
    if task is not None and not isinstance(task, Task):
        raise UsageError(f"task must be a Task, got {task!r}; Task.from_dict makes one from a dict")
