"""`a3gnn profile`: measures many configurations and stores them."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a3gnn.addresses import without_password
from a3gnn.cli.executor_options import ONE_KIND, executor_options, take_choice
from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE
from a3gnn.cli.output import JSON, QUIET, show_json
from a3gnn.cli.study_options import take_task, task_options
from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError
from a3gnn.limits import Limits
from a3gnn.measurement import Failure, FailureKind, Measurement
from a3gnn.option_names import program
from a3gnn.profiling.store.existing import DEFAULT_STORE
from a3gnn.units import count

if TYPE_CHECKING:
    from rich.console import Console

    from a3gnn.profiling.profiler import Profiler


@click.command(cls=Command)
@task_options
@click.option(
    "--configs", required=True, type=click.IntRange(0), help="Number of configurations to measure besides the baseline."
)
@click.option(
    "--store", default=str(DEFAULT_STORE), show_default=True, metavar="PATH|URL", help="Store of measurements."
)
@click.option("--memory-limit", type=SIZE, help="Memory limit such as 4GiB; GPU memory if there is a GPU.")
@click.option(
    "--train-seconds",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    help="Most seconds to train the baseline; it ends earlier when it stops improving. The others train as long.",
)
@click.option(
    "--accuracy-epochs",
    type=click.IntRange(1),
    help="Epochs of the baseline, within --train-seconds. Default: --lr-epochs, or until it stops improving.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Most seconds per trial, without the time that other virtual machines take.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of configurations and training."
)
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all rows of the store to FILE.jsonl or FILE.jsonl.gz at the end.",
)
@executor_options(ONE_KIND)
@QUIET
@JSON
def profile(
    dataset: str,
    configs: int,
    metric: str,
    store: str,
    memory_limit: int | None,
    train_seconds: float,
    accuracy_epochs: int | None,
    timeout: float,
    seed: int,
    export: Path | None,
    quiet: bool,
    as_json: bool,
    **trained: Any,
) -> None:
    """Measure the baseline and configurations that cover the search space, and store the results.

    Each configuration trains for as many seconds as the baseline, set-up included. Stored configurations are not
    measured again, so the same command continues after an interruption.
    """
    import torch
    from rich.console import Console

    from a3gnn.evaluation.choose_metric import with_metric
    from a3gnn.evaluation.event_evaluator import check_untimed
    from a3gnn.graphs.graph import Graph
    from a3gnn.machine.probe import within_peaks
    from a3gnn.profiling.design import space_filling
    from a3gnn.profiling.executor import LocalExecutor
    from a3gnn.profiling.profiler import Profiler
    from a3gnn.profiling.request import CurvePlan, TrialPlan
    from a3gnn.profiling.store.store import ProfileStore
    from a3gnn.setting import Setting
    from a3gnn.space import SearchSpace
    from a3gnn.storage.host_limits import evaluation_bytes
    from a3gnn.training.compile_ahead import KernelSet, compile_ahead
    from a3gnn.training.examine import examined
    from a3gnn.tuning.study.limits import BEYOND, why_infeasible
    from a3gnn.tuning.tell.intro import model_lines

    console = Console(stderr=True, quiet=quiet)

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    choice = take_choice(trained)
    with ProfileStore.open(store) as opened, choice.opened(say) as machines, LocalExecutor(say) as local:
        executor = machines or local
        compile_ahead(KernelSet(), say)
        graph = Graph.load(dataset, trained.pop("split"), trained.pop("split_seed")).on_disk()
        check_untimed(graph, "profile")
        described = graph.characteristics()
        task = with_metric(take_task(trained, seed), metric, graph, say)
        executor.make_ready(graph, task)
        room = evaluation_bytes(memory_limit)
        most = None if memory_limit is None or torch.cuda.is_available() else round(BEYOND * memory_limit)
        task = examined(task, graph, room, left_s=timeout, limit_bytes=most, worker=local.worker, notify=say)
        hardware = within_peaks(executor.probe(), opened.rows(), say)
        limits = Limits(device_bytes=memory_limit) if hardware.has_device else Limits(host_bytes=memory_limit)
        if reason := why_infeasible(limits, hardware):
            raise InfeasibleError(reason)
        epochs = task.lr_epochs if accuracy_epochs is None else accuracy_epochs
        plan = TrialPlan(
            curve=CurvePlan(train_seconds, until_plateau=epochs is None, most_epochs=epochs),
            timeout_s=timeout,
            host_limit_bytes=limits.host_bytes,
            device_limit_bytes=limits.device_bytes,
            evaluation_bytes=room if task.is_own else None,
        )
        setting = Setting(task, described, hardware)
        say(f"model     {task.describe()}")
        for line in model_lines(setting, graph, room):
            say(line)
        chosen = space_filling(SearchSpace.of(setting), configs, seed)
        with Profiler(opened, graph, setting, plan, executor, say) as profiler:
            found = _measure(profiler, [TrainConfig().canonical(), *chosen], store, console)
        if export is not None:
            opened.export_jsonl(export)
    summary = _summary(store, found)
    if as_json:
        show_json(summary)
    else:
        click.echo(_text(summary))


def _measure(
    profiler: Profiler, configs: list[TrainConfig], place: str, console: Console
) -> list[tuple[Measurement, bool]]:
    """Returns the measurements, each with whether it was already stored; progress goes to `console`.

    The first of `configs` is the baseline; its training decides how long the others train.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from a3gnn.profiling.design import equal_time
    from a3gnn.report.text import describe_config

    found: list[tuple[Measurement, bool]] = []
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        row = bar.add_task("", total=len(configs))

        def note(measurement: Measurement, stored: bool) -> None:
            found.append((measurement, stored))
            bar.update(row, advance=1, description=describe_config(measurement.config))

        try:
            (default,) = profiler.measure_many(configs[:1], note)
            plan, line = equal_time(profiler, default)
            bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
            profiler.measure_many(configs[1:], note, plan)
        except KeyboardInterrupt as interrupt:
            bar.stop()
            verb = "is" if len(found) == 1 else "are"
            done = f"{len(found)} of {count(len(configs), 'configuration')} {verb} in {without_password(str(place))}"
            raise KeyboardInterrupt(f"{done}; run the same command to continue") from interrupt
    return found


def _summary(place: str, found: list[tuple[Measurement, bool]]) -> dict[str, Any]:
    failures = [m.outcome for m, _ in found if isinstance(m.outcome, Failure)]
    skipped = sum(stored for _, stored in found)
    kinds = Counter(str(failure.kind) for failure in failures)
    return {
        "store": place,
        "configurations": len(found),
        "measured": len(found) - skipped,
        "skipped": skipped,
        "failed": {str(kind): kinds[kind] for kind in FailureKind},
    }


def _text(summary: dict[str, Any]) -> str:
    failed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in summary["failed"].items() if count)
    return (
        f"Configurations  {summary['configurations']}\n"
        f"Measured now    {summary['measured']}\n"
        f"Stored before   {summary['skipped']}\n"
        f"Failed          {failed or 'none'}\n"
        f"Saved           {summary['store']}\n"
        f"Next            {program()} profiles list --store {shlex.quote(summary['store'])}"
    )
