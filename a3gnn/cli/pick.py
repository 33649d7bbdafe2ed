"""`a3gnn pick`: picks the best measured trial of a tune by another priority or other limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import PRIORITY
from a3gnn.cli.help import Command
from a3gnn.cli.options import ANY_LIMIT
from a3gnn.cli.output import show_written


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--priority",
    type=PRIORITY,
    help="Goal: time, throughput, memory, accuracy, balanced, or weights T,M,A of speed, memory and accuracy.",
)
@click.option(
    "--max-memory",
    "--memory-limit",
    "memory_limit",
    type=ANY_LIMIT,
    help="Memory limit such as 4GiB, 'baseline' for the baseline's peak, or 'none'; GPU memory if there is a GPU.",
)
@click.option(
    "--max-host-memory",
    "--host-memory-limit",
    "host_memory_limit",
    type=ANY_LIMIT,
    help="Host memory limit on a machine with a GPU.",
)
@click.option("--max-accuracy-drop", type=float, help="Most points below the baseline, by the metric.")
@click.option(
    "--min-accuracy",
    "--target-accuracy",
    "target_accuracy",
    type=float,
    metavar="PERCENT",
    help="Least validation accuracy, by the metric.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PLACE",
    help="New FILE.json, or folder for tuned.json. Default: DIR/picked.json, which the next pick replaces.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def pick(folder: Path, out: Path | None, as_json: bool, **asked: Any) -> None:
    """Pick another configuration from the measurements of the tune in the folder DIR, without a trial.

    Options that you leave out stay as in the tune. Shows the configuration beside the baseline, lists its
    uncertainties, and writes a file for a3gnn train. The tune's own tuned.json stays. If no measured configuration
    keeps the limits, the command names the closest one and exits with 3.
    """
    from a3gnn.tuning.outcome.pick import pick as run
    from a3gnn.tuning.outcome.picked import file_at, pick_lines

    if out is not None:
        file_at(out)
    found = run(folder, **asked)
    file = found.write(out)
    if as_json:
        click.echo(json.dumps(found.to_dict() | {"file": str(file)}, indent=2))
        return
    for line in pick_lines(found):
        click.echo(line)
    show_written(file, file)
