"""`a3gnn train`: trains with the configuration that tune or recommend chose, by one process or more, and reports it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.options import (
    DEPTHS,
    DURATION,
    FANOUTS,
    FANOUTS_HELP,
    LAYERS,
    LAYERS_HELP,
    LOSS,
    LOSS_HELP,
    LR_EPOCHS,
    LR_EPOCHS_HELP,
    METRIC,
    METRICS_HELP,
    MODEL,
    MODELS_HELP,
    NORM,
    NORM_HELP,
    RESIDUAL_HELP,
    SCHEDULE,
    SCHEDULE_HELP,
    SHARES,
    SIZE_LIMIT,
    WEIGHTS,
    WEIGHTS_HELP,
    added,
    asked_fanouts,
    import_from_here,
    number_options,
    split_options,
    take_numbers,
)
from a3gnn.cli.output import QUIET, VERBOSE
from a3gnn.cli.output import progress as lines
from a3gnn.cli.train_summary import summary_lines
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.hitgnn.algorithms import ALGORITHM_NAMES
from a3gnn.hybrid.schedule import STALL_S, TRAINER_SAMPLINGS, TrainerSampling
from a3gnn.launch import launch
from a3gnn.metric import AUTO
from a3gnn.option_names import option
from a3gnn.task import NUMBER_OPTIONS, Task

#: Epochs over which the learning rate falls if neither --lr-epochs nor --epochs is given. Guess.
_FALLING_EPOCHS = 50
#: Options that --auto takes.
_OF_AUTO = {
    *("auto", "dataset", "split", "split_seed", "model", "layers", "fanouts", "norm", "residual", "lr_schedule"),
    *NUMBER_OPTIONS,
    *("lr_epochs", "seed", "loss", "class_weights", "metric", "epochs", "patience", "host_memory_limit", "out"),
    *("resume", "quiet", "verbose", "as_json"),
}
#: Names of parameters that are not those of an option.
_ARGUMENTS = {"tuned": "DIR", "path": "--config"}


@click.command(cls=Command)
@click.argument("tuned", type=click.Path(path_type=Path), required=False, metavar="[DIR]")
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Folder of a tune or its tuned.json, instead of DIR.",
)
@click.option(
    "--model",
    type=MODEL,
    metavar="MODEL",
    help=f"{MODELS_HELP} Default: the tune's.",
)
@click.option("--layers", type=LAYERS, help=f"{LAYERS_HELP} Default: the tune's, or 2.")
@click.option("--fanouts", type=FANOUTS, help=f"{FANOUTS_HELP} Default: the tune's, or 25,10 for 2 layers.")
@added(*number_options("the tune's"))
@click.option("--norm", type=NORM, help=f"{NORM_HELP} Default: the tune's.")
@click.option("--residual/--no-residual", default=None, help=f"{RESIDUAL_HELP} Default: the tune's.")
@click.option("--lr-schedule", type=SCHEDULE, help=f"{SCHEDULE_HELP} Default: the tune's.")
@click.option(
    "--lr-epochs", type=LR_EPOCHS, help=f"{LR_EPOCHS_HELP} Default: the tune's, or --epochs, or {_FALLING_EPOCHS}."
)
@click.option(
    "--dataset",
    type=DATASET,
    help="Graph: FILE.npz, a folder, synthetic:..., pyg:NAME, parts:HOST:PORT,... Default: the tune's.",
)
@split_options
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Most epochs to train. Default: no limit, or --lr-epochs.",
)
@click.option(
    "--patience",
    type=click.IntRange(1),
    help="Stop after N epochs without a better validation result by --metric. Default: stop when the last third of "
    "training was no better.",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Seed of weights, order, sampling and dropout. Default: the tune's."
)
@click.option(
    "--host-memory-limit",
    type=SIZE_LIMIT,
    help="Host memory limit; training stops beyond it, with a checkpoint. Default: the tune's.",
)
@click.option(
    "--target-accuracy",
    type=float,
    metavar="PERCENT",
    help="Validation target by --metric; training reports the time to it. Default: the tune's.",
)
@click.option("--until-target", is_flag=True, help="Stop once the target is reached and kept.")
@click.option(
    "--trainers",
    metavar="DEVICES",
    help="Trainers that share each mini-batch, such as cpu:1,cpu:1 or cuda:0,sim:u250, or auto "
    "(docs/research/hybrid.md).",
)
@click.option(
    "--trainer-shares",
    type=SHARES,
    help="Seeds of each trainer, whose sum is batch_size. Default: equal among trainers of a kind; the performance "
    "model divides between processors and accelerators.",
)
@click.option(
    "--trainer-sampling",
    type=click.Choice(TRAINER_SAMPLINGS),
    default="whole",
    show_default=True,
    help="Sampling of shares: whole samples each mini-batch once and divides it; independent samples each share.",
)
@click.option(
    "--trainer-stall",
    type=DURATION,
    default=STALL_S,
    help="Most time of a stage before a trainer counts as lost. Default: 2min.",
)
@click.option(
    "--prefetch",
    type=DEPTHS,
    help="Mini-batches that sampling, feature loading and transfer may be ahead of the next stage, such as 1,1,1. "
    "Default: by parallel_mode and num_workers.",
)
@click.option(
    "--adapt",
    is_flag=True,
    help="Shrink the cache during training when memory gets scarce; with --trainers, adapt shares and threads to "
    "measured times. Results do not change.",
)
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHM_NAMES),
    help="Synchronous algorithm in which each rank trains its own mini-batch. Default: ranks share each mini-batch.",
)
@click.option(
    "--ranks",
    type=click.IntRange(2),
    help="Processes on this machine that train one model together, with torchrun. Failures exit with 1.",
)
@click.option(
    "--auto",
    is_flag=True,
    help="Compare the recommended configuration with the baseline for some epochs, and train with the better one.",
)
@click.option("--loss", type=LOSS, help=f"{LOSS_HELP} Default: the tune's.")
@click.option("--class-weights", type=WEIGHTS, help=f"{WEIGHTS_HELP} Default: the tune's.")
@click.option("--metric", type=METRIC, help=f"{METRICS_HELP} Default: the tune's, or auto.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="New folder for results. Default: runs/train-GRAPH."
)
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@QUIET
@VERBOSE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def train(
    context: click.Context,
    /,
    tuned: Path | None,
    path: Path | None,
    model: str | None,
    layers: int | None,
    fanouts: tuple[int, ...] | None,
    norm: str | None,
    residual: bool | None,
    lr_schedule: str | None,
    lr_epochs: int | None,
    dataset: str | None,
    split: str | None,
    split_seed: int,
    epochs: int | None,
    patience: int | None,
    seed: int | None,
    host_memory_limit: int | None,
    target_accuracy: float | None,
    until_target: bool,
    trainers: str | None,
    trainer_shares: tuple[int, ...] | None,
    trainer_sampling: TrainerSampling,
    trainer_stall: float,
    prefetch: tuple[int, ...] | None,
    adapt: bool,
    algorithm: str | None,
    ranks: int | None,
    auto: bool,
    loss: str | None,
    class_weights: str | None,
    metric: str | None,
    out: Path | None,
    resume: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **numbers: Any,
) -> None:
    """Train with the configuration in DIR, the folder of a tune or a recommendation.

    Without DIR, --model and --dataset train with the baseline. With --auto and --dataset, the recommended configuration
    replaces it if that is faster here.

    Writes metrics.jsonl (one line per epoch), model.pt (weights of the best epoch, or at the target), result.json and a
    checkpoint to --out. --resume continues exactly where Ctrl-C or a memory limit stopped.

    Several processes train together with --ranks, or under torchrun; see docs/howto/distributed.md.
    """
    if tuned is not None and path is not None:
        raise UsageError(f"give either DIR or --config, got {tuned} and {path}")
    path = path or tuned
    if auto:
        _check_auto(context)
    elif path is None and model is None:
        raise UsageError("train needs DIR, the folder of a tune, or --model to train with the baseline")
    start_ranks(ranks)
    import dataclasses

    from a3gnn.apply.train import train as run
    from a3gnn.training.tuned import TunedConfig

    way = None
    if algorithm is not None:
        from a3gnn.hitgnn.algorithms.built_in import named

        way = named(algorithm)
    promised = None if path is None else TunedConfig.read(path)
    task = Task() if promised is None else promised.setting.task
    if task.is_own:
        import_from_here()
    if fanouts is None and layers == task.num_layers:
        layers = None  # keeps the tune's own fanouts
    asked = {"seed": seed, "fanouts": asked_fanouts(layers, fanouts), "class_weights": class_weights, "loss": loss}
    asked |= {"norm": norm, "residual": residual, "lr_schedule": lr_schedule, "lr_epochs": lr_epochs}
    asked |= take_numbers(numbers)
    changed: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if lr_schedule == "constant":
        changed.setdefault("lr_epochs", None)
    elif lr_schedule is not None:
        changed.setdefault("lr_epochs", task.lr_epochs or epochs or _FALLING_EPOCHS)
    if auto:
        from a3gnn.tuning.auto import train_auto

        assert dataset is not None, "it is checked"
        found = train_auto(
            dataset,
            model=model,
            task=dataclasses.replace(task, **changed),
            metric=AUTO if metric is None else metric,
            epochs=epochs,
            patience="auto" if patience is None else patience,
            host_memory_limit=host_memory_limit,
            out=out,
            resume=resume,
            split=split,
            split_seed=split_seed,
            progress=not (as_json or quiet),
            notify=lines(quiet, verbose),
        )
        _print(found.to_dict(), summary_lines(found.trained, found.chosen, dataset, verbose, found.describe()), as_json)
        return
    result = run(
        TrainConfig() if path is None else path,
        dataset,
        model=model,
        task=dataclasses.replace(task, **changed) if changed else None,
        epochs=epochs,
        patience="auto" if patience is None else patience,
        out=out,
        resume=resume,
        host_memory_limit=host_memory_limit,
        target_accuracy=target_accuracy,
        until_target=until_target,
        metric=AUTO if metric is None and promised is None else metric,
        trainers=trainers,
        trainer_shares=trainer_shares,
        trainer_sampling=trainer_sampling,
        trainer_stall=trainer_stall,
        prefetch=prefetch,
        adapt=adapt,
        algorithm=way,
        split=split,
        split_seed=split_seed,
        progress=not (as_json or quiet),
        notify=lines(quiet, verbose),
    )
    started = launch()
    if started is not None and started.rank:
        return  # rank 0 prints the result
    _print(result.to_dict(), summary_lines(result, promised, dataset, verbose), as_json)


def _check_auto(context: click.Context) -> None:
    """Raises a `UsageError` if --auto has no graph, or an option that it does not take."""
    if context.params["dataset"] is None:
        raise UsageError("--auto needs --dataset, the graph to train on")
    for name in context.params:
        if name not in _OF_AUTO and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--auto does not take {_ARGUMENTS.get(name) or option(name)}; leave it out")


def _print(fields: dict[str, Any], text: Iterable[str], as_json: bool) -> None:
    """Prints a result: as one JSON object, or as lines."""
    if as_json:
        click.echo(json.dumps(fields, indent=2))
        return
    for line in text:
        click.echo(line)


def start_ranks(ranks: int | None) -> None:
    """Replaces this process by a `torchrun` of this command with `ranks` processes, unless torchrun started this one.

    Each process gets an equal part of the cores as threads, unless OMP_NUM_THREADS is set.

    Args:
        ranks: Number of processes; None does nothing.

    Raises:
        UsageError: `torchrun` has started another number of processes.
    """
    started = launch()
    if ranks is None:
        return
    if started is not None:
        if started.size != ranks:
            raise UsageError(
                f"{option('ranks')} must equal the {started.size} processes of torchrun, got {ranks}; leave it out "
                "under torchrun"
            )
        return
    from a3gnn.threads.pool import usable_cores

    threads = str(max(1, usable_cores() // ranks))
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "a3gnn"]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *words, *sys.argv[1:]], {"OMP_NUM_THREADS": threads, **os.environ})
