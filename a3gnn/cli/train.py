"""`a3gnn train`: train with the configuration that tune chose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import DATASET
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
    asked_fanouts,
    import_from_here,
    split_options,
)
from a3gnn.cli.output import QUIET, show
from a3gnn.cli.output import progress as lines
from a3gnn.cli.start_ranks import start_ranks
from a3gnn.cli.train_summary import summary
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.hitgnn.algorithms.names import ALGORITHM_NAMES
from a3gnn.hybrid.schedule import STALL_S, TRAINER_SAMPLINGS, TrainerSampling
from a3gnn.launch import launch
from a3gnn.metric import AUTO
from a3gnn.task import Task


@click.command()
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="tuned.json, or its folder; with --model, the default configuration by default.",
)
@click.option(
    "--model",
    type=MODEL,
    metavar="MODEL",
    help=f"{MODELS_HELP} The tune's by default.",
)
@click.option("--layers", type=LAYERS, help=f"{LAYERS_HELP} The tune's by default, or 2.")
@click.option("--fanouts", type=FANOUTS, help=f"{FANOUTS_HELP} The tune's by default, or 25,10.")
@click.option("--norm", type=NORM, help=f"{NORM_HELP} The tune's by default.")
@click.option("--residual/--no-residual", default=None, help=f"{RESIDUAL_HELP} The tune's by default.")
@click.option("--lr-schedule", type=SCHEDULE, help=f"{SCHEDULE_HELP} The tune's by default.")
@click.option("--lr-epochs", type=LR_EPOCHS, help=f"{LR_EPOCHS_HELP} The tune's by default, or --epochs.")
@click.option(
    "--dataset",
    type=DATASET,
    help="Another graph than the one tuned for: FILE.npz, a folder, synthetic:..., pyg:NAME, parts:HOST:PORT,...",
)
@split_options
@click.option("--epochs", type=click.IntRange(1), default=50, show_default=True, help="Epochs at most.")
@click.option(
    "--patience",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Stop after so many epochs without a better validation quality, by the metric.",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Of weights, order, neighbours and dropout; the tune's by default."
)
@click.option(
    "--host-memory-limit", type=SIZE_LIMIT, help="Stop, with a checkpoint, beyond this; the tune's by default."
)
@click.option(
    "--target-accuracy",
    type=float,
    metavar="PERCENT",
    help="Say when validation reaches this, by the metric; the tune's target by default.",
)
@click.option("--until-target", is_flag=True, help="End there.")
@click.option(
    "--trainers",
    metavar="DEVICES",
    help="Trainers that share each mini-batch: auto, or such as cpu:1,cpu:1, cuda:0, sim:u250 (docs/hybrid.md).",
)
@click.option(
    "--trainer-shares",
    type=SHARES,
    help="Seeds of each trainer, batch_size together; by default equal among those of a kind, and between processors "
    "and accelerators by the performance model.",
)
@click.option(
    "--trainer-sampling",
    type=click.Choice(TRAINER_SAMPLINGS),
    default="whole",
    show_default=True,
    help="Sample mini-batches once and cut them, as one trainer would have them; or each share for itself.",
)
@click.option(
    "--trainer-stall",
    type=DURATION,
    default=STALL_S,
    help="What a stage of a mini-batch may take before a trainer counts as lost; 2min by default.",
)
@click.option(
    "--prefetch",
    type=DEPTHS,
    help="Mini-batches by which sampling may be ahead of feature loading, loading of transfer, and transfer of "
    "propagation, such as 1,1,1; by default as parallel_mode and num_workers say.",
)
@click.option(
    "--adapt",
    is_flag=True,
    help="Change mode, workers, depth and cache between mini-batches by what these took, or the shares and threads of "
    "--trainers; what is learnt stays.",
)
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHM_NAMES),
    help="Synchronous algorithm by which ranks train a mini-batch each; shares of every one by default.",
)
@click.option(
    "--ranks",
    type=click.IntRange(2),
    help="Processes on this machine that train one model together, by torchrun, which ends with exit code 1 whatever "
    "a process's was.",
)
@click.option("--loss", type=LOSS, help=f"{LOSS_HELP} The tune's by default.")
@click.option("--class-weights", type=WEIGHTS, help=f"{WEIGHTS_HELP} The tune's by default.")
@click.option("--metric", type=METRIC, help=f"{METRICS_HELP} The tune's by default, auto without one.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="A new folder; runs/train-GRAPH by default."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@QUIET
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def train(
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
    epochs: int,
    patience: int,
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
    loss: str | None,
    class_weights: str | None,
    metric: str | None,
    out: Path | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train with the configuration that tune chose, or recommend; or a model of your own with the default one.

    Writes DIR/metrics.jsonl (a line per epoch), model.pt (the best epoch's weights, or those that reached the target),
    result.json and a checkpoint, from which --resume goes on exactly where Ctrl-C or a memory limit stopped.

    By several processes: --ranks 2, or torchrun --nproc-per-node 2 -m a3gnn train ... (docs/distributed.md).
    """
    if path is None and model is None:
        raise UsageError("train needs --config, a tuned.json, or --model, which the default configuration then trains")
    start_ranks(ranks)
    import dataclasses

    from a3gnn.apply.train import train as run
    from a3gnn.training.tuned import TunedConfig

    way = None
    if algorithm is not None:
        from a3gnn.hitgnn.algorithms.built_in import named

        way = named(algorithm)
    tuned = None if path is None else TunedConfig.read(path)
    task = Task() if tuned is None else tuned.setting.task
    if task.is_own:
        import_from_here()
    if fanouts is None and layers == task.num_layers:
        layers = None  # the tune's own fanouts, then
    asked = {"seed": seed, "fanouts": asked_fanouts(layers, fanouts), "class_weights": class_weights, "loss": loss}
    asked |= {"norm": norm, "residual": residual, "lr_schedule": lr_schedule, "lr_epochs": lr_epochs}
    changed: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if lr_schedule == "constant":
        changed.setdefault("lr_epochs", None)
    elif lr_schedule is not None:
        changed.setdefault("lr_epochs", task.lr_epochs or epochs)
    result = run(
        TrainConfig() if path is None else path,
        dataset,
        model=model,
        task=dataclasses.replace(task, **changed) if changed else None,
        epochs=epochs,
        patience=patience,
        out=out,
        resume=resume,
        host_memory_limit=host_memory_limit,
        target_accuracy=target_accuracy,
        until_target=until_target,
        metric=AUTO if metric is None and tuned is None else metric,
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
        notify=lines(quiet),
    )
    started = launch()
    if started is not None and started.rank:
        return  # rank 0 says it
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        show(summary(result, tuned))
