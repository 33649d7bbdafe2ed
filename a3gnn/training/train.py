"""`train`: a configuration applied to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from a3gnn.checks import flag, path_or_none, size_or_none, whole_number
from a3gnn.config import Task, TrainConfig
from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.training.checkpoint import identity
from a3gnn.training.fit import fit
from a3gnn.training.interrupt import Interrupt
from a3gnn.training.progress import EpochResult, Progress
from a3gnn.training.request import TrainRequest
from a3gnn.training.result import TrainResult
from a3gnn.training.run_folder import RunFolder, default_folder
from a3gnn.training.trainer import Step, Trainer

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


def train(
    config: TrainConfig | Mapping[str, Any] | str | Path,
    dataset: GraphLike | None = None,
    *,
    task: Task | None = None,
    epochs: int = 50,
    patience: int | None = 10,
    out: str | Path | None = None,
    resume: bool = False,
    host_memory_limit: str | int | None = None,
    progress: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> TrainResult:
    """Trains with `config` and returns what it reached.

    The folder `out` gets metrics.jsonl as epochs end, model.pt (the weights of the best validation epoch, which PyG's
    model of the same shape loads) and result.json. Ctrl-C and a passed memory limit leave a checkpoint, from which
    `resume` goes on bit-identically.

    Args:
        config: A configuration, a dict of its fields, or the path of a tuned.json (or of its folder), whose task,
            dataset and host memory limit hold where none is given here.
        dataset: A graph, a PyG `Data`, or what `--dataset` takes.
        task: What to train.
        epochs: Epochs in all, those before a resume included.
        patience: Epochs without a better validation accuracy after which training ends; None for never.
        out: A new folder, or with `resume` that of the run to go on with; runs/train-GRAPH by default.
        resume: Whether to go on with the run in `out`.
        host_memory_limit: Of memory that can't be reclaimed: bytes, or text such as "4GiB"; None for the limit of the
            tuned.json, if any.
        progress: Whether to draw a progress bar on stderr.
        notify: Called with lines for people: warnings, and each epoch's figures.

    Raises:
        UsageError: An argument is out of range.
        ConfigError: The tuned.json or the checkpoint is missing, broken or of something else.
        GraphError: The graph can't be read.
        DeviceError: The configuration asks for a GPU where there is none.
        MemoryLimitError: The memory limit was passed; the message says how to go on.
        KeyboardInterrupt: By Ctrl-C, likewise.
    """
    begin = perf_counter()
    _check(epochs, patience, out, resume, progress, task, notify)
    limit = size_or_none("host_memory_limit", host_memory_limit)
    if isinstance(config, Mapping):
        config = TrainConfig.from_dict(config)
    request = TrainRequest.of(config, dataset, task, notify)
    graph, config, task = request.graph, request.config, request.task
    if limit is None and request.tuned is not None:
        limit = request.tuned.limits.host_bytes
    folder = RunFolder(default_folder(f"train-{graph.name}") if out is None else Path(out), resume=resume)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    interrupt = Interrupt()
    with Trainer(
        graph,
        config,
        task,
        device=device,
        scratch=folder.path,
        host_memory_limit=limit,
        on_chunk=interrupt.check,
    ) as trainer:
        done = folder.begin(trainer, identity(graph, config, task))
        _run(trainer, folder, done, interrupt, epochs=epochs, patience=patience, progress=progress, notify=notify)
        result = _result(trainer, done, request, folder.path, perf_counter() - begin)
        folder.finish(result.to_dict())
    return result


def _run(
    trainer: Trainer,
    folder: RunFolder,
    done: Progress,
    interrupt: Interrupt,
    *,
    epochs: int,
    patience: int | None,
    progress: bool,
    notify: Callable[[str], None],
) -> None:
    """Trains to the end; what stops it after a mini-batch, or between chunks of evaluation, leaves a checkpoint.

    The error says how to go on.
    """
    from a3gnn.training.progress_bar import ProgressBar

    told: set[str] = set()

    with interrupt, ProgressBar(trainer.batches_per_epoch, epochs, shown=progress) as bar:

        def on_step(step: Step) -> None:
            bar.advance(step)
            interrupt.check()
            folder.save_if_due()

        def on_epoch(result: EpochResult) -> None:
            folder.finish_epoch(result)
            bar.finish_epoch(result)
            for choice in trainer.choices:
                if choice not in told:
                    told.add(choice)
                    notify(choice)
            notify(_line(result))
            interrupt.check()

        try:
            fit(trainer, done, epochs=epochs, patience=patience, on_step=on_step, on_epoch=on_epoch)
        except (KeyboardInterrupt, MemoryLimitError) as error:
            if not interrupt.forced:
                folder.save()
            raise type(error)(_how_to_go_on(error, done, folder.path)) from error


def _how_to_go_on(error: BaseException, done: Progress, folder: Path) -> str:
    reason = f"{error}. The run" if str(error) else "the run"
    where = f"after {len(done.epochs)} epochs and {done.under_way.batches} mini-batches"
    return f"{reason} is saved {where}; the same command with --out {folder} --resume goes on from there"


def _result(trainer: Trainer, done: Progress, request: TrainRequest, folder: Path, seconds: float) -> TrainResult:
    best = done.best
    assert best is not None
    return TrainResult(
        test_accuracy=best.test_accuracy,
        val_accuracy=best.val_accuracy,
        best_epoch=best.epoch,
        epochs=len(done.epochs),
        throughput_epochs_per_s=done.epochs_per_s,
        peak_host_bytes=trainer.memory.peak_bytes,
        peak_device_bytes=int(torch.cuda.max_memory_reserved()) if torch.cuda.is_available() else 0,
        cache_hit_rate=done.epochs[-1].cache_hit_rate,
        cache_bytes=trainer.cache_bytes,
        seconds=seconds,
        folder=folder,
        config=request.config,
        task=request.task,
        graph=request.graph.name,
    )


def _line(result: EpochResult) -> str:
    return (
        f"epoch {result.epoch:3d}  loss {result.loss:.4f}  val {result.val_accuracy:.2%}  "
        f"test {result.test_accuracy:.2%}  {result.epochs_per_s:.3g} epochs/s"
    )


def _check(
    epochs: int, patience: int | None, out: object, resume: bool, progress: bool, task: object, notify: object
) -> None:
    whole_number("epochs", epochs, 1)
    if patience is not None:
        whole_number("patience", patience, 1, "None never stops early")
    path_or_none("out", out)
    flag("progress", progress)
    if flag("resume", resume) and out is None:
        raise UsageError("--resume needs the --out folder of the run that is to go on")
    if task is not None and not isinstance(task, Task):
        raise UsageError(f"task must be a Task, got {task!r}; Task.from_dict makes one of a dict")
    if not callable(notify):
        raise UsageError(f"notify must take a line of text, got {notify!r}; leave it out to hear nothing")
