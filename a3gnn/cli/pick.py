"""`a3gnn pick`: picks the best measured trial of a tune by another priority or other limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import PRIORITY
from a3gnn.cli.help import Command
from a3gnn.cli.options import ANY_LIMIT
from a3gnn.cli.output import JSON, show_json, show_written


@click.command(cls=Command)
@click.argument("place", metavar="DIR|URL")
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
@click.option(
    "--token", envvar="A3GNN_TOKEN", show_envvar=True, metavar="TEXT", help="Access token of the server of URL."
)
@JSON
def pick(place: str, out: Path | None, as_json: bool, token: str | None, **asked: Any) -> None:
    """Pick another configuration from the measurements of the tune in the folder DIR, without a trial.

    URL is the address of a study on a server, such as http://127.0.0.1:8642/studies/1; its files are fetched first,
    and the file is then picked-study-1.json.

    Options that you leave out stay as in the tune. Shows the configuration beside the baseline, lists its
    uncertainties, and writes a file for a3gnn train. The tune's own tuned.json stays. If no measured configuration
    keeps the limits, the command names the closest one and exits with 3.
    """
    from a3gnn.service.client import local_study
    from a3gnn.tuning.outcome.pick import pick as run
    from a3gnn.tuning.outcome.picked import file_at, pick_lines

    if out is not None:
        file_at(out)
    with local_study(place, token) as (folder, number):
        found = run(folder, **asked)
        if out is None and number is not None:
            file = Path(f"picked-study-{number}.json")
            found.tuned.write(file)
        else:
            file = found.write(out)
        if as_json:
            show_json(found.to_dict() | {"file": str(file)})
            return
        for line in pick_lines(found):
            click.echo(line)
    show_written(file, file)
