"""`a3gnn train`: trains with the configuration that tune or recommend chose, by one process or more, and reports it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.hitgnn.algorithms import ALGORITHM_NAMES
from a3gnn.hybrid.schedule import STALL_S, TRAINER_SAMPLINGS, TrainerSampling
from a3gnn.launch import launch
from a3gnn.metric import AUTO
from a3gnn.option_names import option
from a3gnn.task import Task
from a3gnn.units import count, format_duration, format_seconds, format_size

if TYPE_CHECKING:
    from a3gnn.training.result import TrainResult
    from a3gnn.training.tuned import TunedConfig

#: Share of stolen core time from which the summary reports it. Guess: it then costs a tenth.
_MUCH_STOLEN = 0.05


@click.command()
@click.argument("tuned", type=click.Path(path_type=Path), required=False, metavar="[DIR]")
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="The same as DIR: the folder of a tune, or its tuned.json.",
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
    help="Trainers that share each mini-batch: auto, or such as cpu:1,cpu:1, cuda:0, sim:u250 "
    "(docs/research/hybrid.md).",
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
    """Train with the configuration that tune or recommend chose, in the folder DIR of the tune.

    Without DIR, --model trains with the baseline configuration.

    Writes DIR/metrics.jsonl (a line per epoch), model.pt (the best epoch's weights, or those that reached the target),
    result.json and a checkpoint, from which --resume goes on exactly where Ctrl-C or a memory limit stopped.

    By several processes: --ranks 2, or torchrun --nproc-per-node 2 -m a3gnn train ... (docs/howto/distributed.md).
    """
    if tuned is not None and path is not None:
        raise UsageError(f"give either DIR or --config, got {tuned} and {path}")
    path = path or tuned
    if path is None and model is None:
        raise UsageError("train needs DIR, the folder of a tune, or --model, which the baseline then trains")
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
        notify=lines(quiet),
    )
    started = launch()
    if started is not None and started.rank:
        return  # rank 0 prints the result
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        show(summary(result, promised))


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
                f"{option('ranks')} must be the processes that torchrun started, {started.size}, got {ranks}; leave it "
                "out under torchrun"
            )
        return
    from a3gnn.threads.pool import usable_cores

    threads = str(max(1, usable_cores() // ranks))
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "a3gnn"]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *words, *sys.argv[1:]], {"OMP_NUM_THREADS": threads, **os.environ})


def summary(result: TrainResult, promised: TunedConfig | None) -> str:
    """Summarizes a result for people, compared with the tune's measurements, or predictions if nothing was measured."""
    memory = "peak_device_bytes" if result.peak_device_bytes else "peak_host_bytes"
    speed, took, metric = result.throughput_epochs_per_s, getattr(result, memory), result.metric
    lines = [
        f"{result.graph}: {metric.show(result.test_accuracy)} test {metric.label} {_where(result)} "
        f"(validation {metric.show(result.val_accuracy)}), in {format_duration(result.seconds)}",
        *([] if result.target_accuracy is None else [f"target      {_target(result, promised)}"]),
        f"throughput  {speed:.3g} epochs/s{_beside(speed, promised, 'throughput_epochs_per_s', '{:.3g}'.format)}",
        *([] if result.nvtps is None else [f"traversed   {_traversed(result)}"]),
        *([] if result.kj_per_epoch is None else [f"energy      {_energy(result)}"]),
        f"memory      {format_size(took)}{_beside(took, promised, memory, format_size)}",
        *([] if result.trainers is None else [f"trainers    {_trainers(result.trainers)}"]),
        *([] if result.algorithm is None else [f"algorithm   {_algorithm(result.algorithm)}"]),
        *([] if result.adapted is None else [f"adapted     {_adapted(result.adapted)}"]),
        *([f"{metric.label:<11} is computed from {result.evaluation}"] if result.task.is_own else []),
        *([] if result.stolen_share < _MUCH_STOLEN else [f"stolen      {_stolen(result)}"]),
        f"weights     {result.folder}/model.pt",
    ]
    return "\n".join(lines)


def _beside(found: float, promised: TunedConfig | None, metric: str, shown: Callable[[float], str]) -> str:
    """Returns the tuned.json's value of `metric` and the ratio of `found` to it; empty if there is none."""
    if promised is None:
        return ""
    if promised.measured is not None:
        before = getattr(promised.measured, metric)
        return f"; the tune measured {shown(before)} ({found / before:.2f} x)"
    if metric not in promised.predicted:
        return ""
    mean, low, high = (promised.predicted[metric][bound] for bound in ("mean", "low", "high"))
    return f"; predicted were {shown(mean)} ({shown(low)} to {shown(high)}; {found / mean:.2f} x)"


def _traversed(result: TrainResult) -> str:
    """Returns NVTPS, also per bandwidth if that is known, and MTEPS."""
    assert result.nvtps is not None
    by_bandwidth = "" if result.nvtps_per_gb_per_s is None else f", {result.nvtps_per_gb_per_s / 1e3:.3g} K per GB/s"
    return f"{result.nvtps / 1e6:.3g} M vertices/s (NVTPS{by_bandwidth}), {result.mteps:.3g} M edges/s (MTEPS)"


def _energy(result: TrainResult) -> str:
    return f"{result.kj_per_epoch:.3g} kJ per epoch ({result.energy})"


def _stolen(result: TrainResult) -> str:
    from a3gnn.threads.core_time import stretch

    return (
        f"{result.stolen_share:.0%} of the cores' time, by other machines of the host; without, training takes about "
        f"{1 / stretch(result.stolen_share):.2f} of its time, which is what a tune tells"
    )


def _where(result: TrainResult) -> str:
    if result.best_epoch is None:
        return f"after {result.batches_to_accuracy} mini-batches"
    return f"at epoch {result.best_epoch} of {result.epochs}"


def _target(result: TrainResult, promised: TunedConfig | None) -> str:
    """Returns the time to the target, and the tune's prediction of it."""
    assert result.target_accuracy is not None, "there is a target"
    accuracy = f"{result.metric.show(result.target_accuracy)} validation {result.metric.label}"
    promise = None if promised is None else promised.seconds_to_accuracy
    target = None if promised is None else promised.target_accuracy
    said = ""
    if promise is not None and target is not None and math.isclose(target, result.target_accuracy):
        median, low, high = (format_seconds(promise[name]) for name in ("median", "low", "high"))
        said = f"; the tune promised {median} ({low} to {high})"
    if result.seconds_to_accuracy is None or result.eval_seconds_to_accuracy is None:
        return f"{accuracy} not reached{said}"
    whole = result.seconds_to_accuracy + result.eval_seconds_to_accuracy
    took = f"{format_seconds(result.seconds_to_accuracy)} of training, {format_seconds(whole)} with evaluations"
    return f"{accuracy} in {took}{said}"


def _trainers(told: dict[str, Any]) -> str:
    """Returns the trainers' names and seeds, and the work that their shares repeat."""
    work, pairs = told["repeated_work"], zip(told["names"], told["shares"], strict=True)
    repeated = f"{work['rows']:.2f} x the rows of one are read, {work['sampled_edges']:.2f} x the edges sampled"
    adapted = f" after {count(len(told['changes']), 'change')}" if "changes" in told else ""
    seeds = ", ".join(f"{name} {share}" for name, share in pairs)
    ahead = f", prefetch {','.join(map(str, told['prefetch']))}" if told["prefetch"] else ""
    return f"{seeds} seeds{adapted}, {told['sampling']} sampling{ahead}; {repeated}"


def _algorithm(told: dict[str, Any]) -> str:
    """Returns the traffic of all ranks, summed over all epochs."""
    from a3gnn.training.step import Traffic

    total = Traffic.sum([Traffic.from_dict(one) for one in told["ranks"]])
    moved = f"{format_size(total.host_bytes)} from the host's, {format_size(total.gradient_bytes)} of gradients"
    if total.activation_bytes:
        moved += f", {format_size(total.activation_bytes)} of activations"
    where = f"{told['name']} on {count(len(told['ranks']), 'rank')}"
    own = f"{where}: {total.beta:.1%} of the rows from their own memory (beta)"
    return f"{own}, {moved}"


def _adapted(told: dict[str, Any]) -> str:
    """Returns the number of changes, and the final preparation of mini-batches."""
    how, changes = told["preparation"], count(len(told["changes"]), "change")
    ahead = "" if how["mode"] == "sequential" else f" x{how['workers']}, {how['depth']} ahead"
    cached = f", cache {format_size(how['cache_bytes'])}" if how["cache_bytes"] else ""
    return f"{changes}; in the end {how['mode']}{ahead}{cached}"
