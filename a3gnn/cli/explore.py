"""`a3gnn explore`: chooses an accelerator design for a platform by HitGNN's models of resources and performance."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from a3gnn.cli.completion import DATASET, PLATFORM
from a3gnn.cli.help import Command
from a3gnn.cli.options import asked_fanouts, task_option
from a3gnn.cli.output import JSON, show, show_json

if TYPE_CHECKING:
    from a3gnn.hitgnn.algorithms.predict import AlgorithmEstimate
    from a3gnn.hitgnn.platforms.explore import Exploration
    from a3gnn.hitgnn.platforms.workload import Workload
    from a3gnn.task import Task

#: Values of HitGNN, section VII-A.
_LAYERS, _HIDDEN, _BATCH_SIZE = 2, 128, 1024


@click.command(cls=Command)
@click.option("--platform", type=PLATFORM, required=True, help="Platform: u250, u200, a5000, or your own FILE.toml.")
@click.option("--dataset", type=DATASET, help="Your graph. Default: the four graphs of HitGNN, Table IV.")
@click.option("--model", type=click.Choice(["sage", "gcn"]), default="sage", show_default=True, help="Model to train.")
@task_option("layers")
@click.option(
    "--hidden", type=click.IntRange(1), default=_HIDDEN, show_default=True, help="Width of the hidden layers."
)
@task_option("fanouts")
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=_BATCH_SIZE,
    show_default=True,
    help="Seeds per mini-batch of a device.",
)
@click.option("--devices", type=click.IntRange(1), help="Number of devices. Default: the platform's.")
@click.option("--beta", type=float, help="Share of input rows in a device's own memory. Default: 1 / devices.")
@click.option(
    "--indirect", is_flag=True, help="Load the other rows through another device, not directly from the host."
)
@click.option("--algorithms", is_flag=True, help="Predict the algorithms distdgl, pagraph and p3 on the graph too.")
@click.option("--ceiling", type=float, help="Largest share of each resource for a design. Default: 0.91.")
@click.option("--every", is_flag=True, help="Try every n and m, not only powers of two.")
@click.option(
    "--sampling-seconds", type=float, default=0.0, help="Measured sampling time of a mini-batch; 0 leaves it out."
)
@click.option(
    "--loss-seconds", type=float, default=0.0, help="Measured time of the loss of a mini-batch; 0 leaves it out."
)
@JSON
def explore(
    platform: str,
    dataset: str | None,
    model: str,
    layers: int | None,
    hidden: int,
    fanouts: tuple[int, ...] | None,
    batch_size: int,
    devices: int | None,
    beta: float | None,
    indirect: bool,
    algorithms: bool,
    ceiling: float | None,
    every: bool,
    sampling_seconds: float,
    loss_seconds: float,
    as_json: bool,
) -> None:
    """Explore the accelerator designs of a platform with a performance model.

    Nothing runs on the platform. A design has n scatter-gather units, which aggregate, and m multipliers, which update.
    docs/research/accelerators.md has the equations, the fitted constants and the assumptions.
    """
    from a3gnn.hitgnn.platforms.explore import CEILING
    from a3gnn.hitgnn.platforms.explore import explore as run
    from a3gnn.hitgnn.platforms.lines import exploration_lines
    from a3gnn.hitgnn.platforms.metadata import read_platform
    from a3gnn.hitgnn.platforms.performance import Conditions
    from a3gnn.task import Task, usual_fanouts

    there = read_platform(platform)
    there = there if devices is None else there.with_devices(devices)
    given = Conditions(
        beta=1 / there.num_devices if beta is None else beta,
        direct=not indirect,
        sampling_seconds=sampling_seconds,
        loss_seconds=loss_seconds,
    )
    asked = asked_fanouts(layers, fanouts)
    task = Task(model=model, hidden_channels=hidden, fanouts=usual_fanouts(_LAYERS) if asked is None else asked)
    workloads = _workloads(dataset, task, batch_size)
    found = run(there, workloads, given, CEILING if ceiling is None else ceiling, every=every)
    compared = _compared(dataset, task, batch_size, found, devices) if algorithms else []
    if as_json:
        told = {"algorithms": [one._asdict() for one in compared]} if algorithms else {}
        show_json(found.to_dict() | told)
        return
    lines = list(exploration_lines(found))
    if algorithms:
        from a3gnn.hitgnn.algorithms.predict import algorithm_lines

        lines += ["", *algorithm_lines(compared)]
    for line in lines:
        show(line)


def _compared(
    dataset: str | None, task: Task, batch_size: int, found: Exploration, devices: int | None
) -> list[AlgorithmEstimate]:
    """Predicts each algorithm with the chosen design, on `devices` devices, or on 2, 4, ... devices of the platform.

    Raises:
        UsageError: There is no graph, or only one device.
    """
    from a3gnn.errors import UsageError
    from a3gnn.option_names import option

    if dataset is None:
        raise UsageError(
            f"{option('algorithms')} needs {option('dataset')}, because the rows of devices are counted in a graph"
        )
    most = found.platform.num_devices
    if most == 1:
        raise UsageError(f"{option('algorithms')} needs several devices, got 1; give {option('devices')} 2 or more")
    from a3gnn.graphs.graph import Graph
    from a3gnn.hitgnn.algorithms.built_in import ALGORITHMS, DISTDGL
    from a3gnn.hitgnn.algorithms.predict import Devices, predict_algorithms
    from a3gnn.hitgnn.platforms.explore import design_rates

    counts = [count for count in (2, 4, 8, 16) if count < most and devices is None]
    parts = design_rates(found.platform, [grid.design for grid in found.grids])
    given = (Graph.load_untyped(dataset), task, batch_size, Devices(found.platform, parts, found.given))
    notify = partial(click.echo, err=True)
    alone = predict_algorithms([DISTDGL], [1], *given)
    return alone + predict_algorithms(ALGORITHMS.values(), [*counts, most], *given, notify=notify)


def _workloads(dataset: str | None, task: Task, batch_size: int) -> tuple[Workload, ...]:
    from a3gnn.hitgnn.platforms.workload import Workload, paper_workloads

    if dataset is None:
        return paper_workloads(task, batch_size)
    from a3gnn.graphs.graph import Graph

    return (Workload.of(Graph.load_untyped(dataset).characteristics(), task, batch_size),)
