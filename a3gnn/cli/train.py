"""`a3gnn train`: trains with the configuration that tune or recommend chose, by one process or more, and reports it."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from a3gnn._imports import importing
from a3gnn.cli.completion import DATASET, FIX, TARGET
from a3gnn.cli.help import Command
from a3gnn.cli.options import (
    DEPTHS,
    DURATION,
    REFERENCES,
    SHARES,
    SIZE_LIMIT,
    disk_limit_option,
    import_from_here,
    model_options,
    split_options,
    take_fields,
)
from a3gnn.cli.output import JSON, QUIET, VERBOSE, show_json
from a3gnn.cli.output import progress as lines
from a3gnn.cli.study_options import with_knobs
from a3gnn.cli.train_summary import summary_lines
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.hitgnn.algorithms import ALGORITHM_NAMES
from a3gnn.hybrid.schedule import STALL_S, TRAINER_SAMPLINGS
from a3gnn.launch import launch
from a3gnn.metric import AUTO
from a3gnn.option_names import option
from a3gnn.task import Task

#: Epochs over which the learning rate falls if neither --lr-epochs nor --epochs is given: the default of an option.
_FALLING_EPOCHS = 50
#: Parameters of options that --auto does not take.
_NOT_OF_AUTO = (
    *("tuned", "path", "target_accuracy", "until_target", "trainers", "trainer_shares", "trainer_sampling"),
    *("trainer_stall", "prefetch", "adapt", "algorithm", "ranks", "fix"),
)
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
@model_options(
    "the tune's",
    layers="the tune's, or 2",
    fanouts="the tune's, or 25,10 for 2 layers",
    lr_epochs=f"the tune's, or --epochs, or {_FALLING_EPOCHS}",
    metric="the tune's, or auto",
)
@click.option(
    "--dataset",
    type=DATASET,
    help="Graph: FILE.npz, a folder, synthetic:..., pyg:NAME, parts:HOST:PORT,... Default: the tune's.",
)
@split_options
@click.option(
    "--fix",
    type=FIX,
    multiple=True,
    metavar="KNOB=VALUE",
    help="Set a knob, such as batch_size=all. May be repeated. Default: the tune's, or the baseline's.",
)
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
@REFERENCES
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
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="New folder for results. Default: runs/train-GRAPH."
)
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@disk_limit_option
@QUIET
@VERBOSE
@JSON
@click.pass_context
def train(
    context: click.Context,
    /,
    tuned: Path | None,
    path: Path | None,
    dataset: str | None,
    metric: str | None,
    patience: int | None,
    seed: int | None,
    algorithm: str | None,
    ranks: int | None,
    auto: bool,
    fix: tuple[str, ...],
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
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
    elif path is None and options["model"] is None and not _names_target(dataset):
        raise UsageError(
            "train needs DIR, the folder of a tune, or --model to train with the baseline; with --target, rsage is the "
            "default model"
        )
    if context.meta[TARGET] and dataset is None:
        raise UsageError(f"--target {context.meta[TARGET]} needs --dataset, the graph with this type; give both")
    start_ranks(ranks)
    with importing():
        from a3gnn.apply.train import train as run
        from a3gnn.training.tuned import TunedConfig

    promised = None if path is None else TunedConfig.read(path)
    task = Task() if promised is None else promised.task
    if task.is_own:
        import_from_here()
    changed = _take_changes(options, task, seed)
    options |= {"patience": patience or "auto", "progress": not (as_json or quiet), "notify": lines(quiet, verbose)}
    if auto:
        from a3gnn.tuning.auto import train_auto

        assert dataset is not None, "it is checked"
        taken = {name: value for name, value in options.items() if name not in _NOT_OF_AUTO}
        found = train_auto(dataset, task=dataclasses.replace(task, **changed), metric=metric or AUTO, **taken)
        _print(found.to_dict(), summary_lines(found.trained, found.chosen, dataset, verbose, found.describe()), as_json)
        return
    if algorithm is not None:
        from a3gnn.hitgnn.algorithms.built_in import named

        options["algorithm"] = named(algorithm)
    from a3gnn.graphs.split import Split

    metric = AUTO if metric is None and promised is None else metric
    replaced = dataclasses.replace(task, **changed) if changed else None
    config: Any = promised or TrainConfig()
    if fix and promised is None:
        config = with_knobs(config, fix)
    elif fix and promised is not None:
        config, promised = dataclasses.replace(promised, config=with_knobs(promised.config, fix)), None
    result = run(config, dataset, task=replaced, metric=metric, **options)
    started = launch()
    if started is not None and started.rank:
        return  # rank 0 prints the result
    shares = Split.of(options["split"], options["split_seed"])
    shown = dataset if shares is None or dataset is None else shares.spec(dataset)
    _print(result.to_dict(), summary_lines(result, promised, shown, verbose), as_json)


def _take_changes(options: dict[str, Any], task: Task, seed: int | None) -> dict[str, Any]:
    """Removes the options of a task from `options`, except the model; returns what they change in `task`."""
    if options["fanouts"] is None and options["layers"] == task.num_layers:  # keeps the tune's own fanouts
        options["fanouts"], options["layers"] = (*task.fanouts,), None
    fields = take_fields(options) | {"seed": seed}
    options["model"] = fields.pop("model")
    changed = {name: value for name, value in fields.items() if value is not None}
    if schedule := changed.get("lr_schedule"):
        falling = task.lr_epochs or options["epochs"] or _FALLING_EPOCHS
        changed.setdefault("lr_epochs", None if schedule == "constant" else falling)
    return changed


def _names_target(dataset: str | None) -> bool:
    """Whether `dataset` names the nodes, links or values that are predicted, for which a model is chosen."""
    from a3gnn.graphs.split import Split
    from a3gnn.graphs.target import Target

    return dataset is not None and bool(Target.in_spec(Split.in_spec(dataset)[1])[0].kind)


def _check_auto(context: click.Context) -> None:
    """Raises a `UsageError` if --auto has no graph, or an option that it does not take."""
    if context.params["dataset"] is None:
        raise UsageError("--auto needs --dataset, the graph to train on")
    for name in _NOT_OF_AUTO:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--auto does not take {_ARGUMENTS.get(name) or option(name)}; leave it out")


def _print(fields: dict[str, Any], text: Iterable[str], as_json: bool) -> None:
    """Prints a result: as one JSON object, or as lines."""
    if as_json:
        show_json(fields)
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
