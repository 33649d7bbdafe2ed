"""`a3gnn tune`: find the best training configuration for a graph on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import ENGINE
from a3gnn.cli.executor_options import executor_options, refuse_executor, take_choice
from a3gnn.cli.options import BUDGET, LIMIT
from a3gnn.cli.output import QUIET, progress, show_written
from a3gnn.cli.study_options import as_arguments, study_options


@click.command()
@study_options(LIMIT, "such as 4GiB, or default for what the default takes")
@click.option("--budget", type=BUDGET, default="5min", show_default=True, help="A duration, or a number of trials.")
@click.option(
    "--engine", type=ENGINE, default="local", show_default=True, help="local, ppo, nsga2, tpe, random or exhaustive."
)
@click.option(
    "--target-accuracy", type=float, help="In percent, by the metric; by default the default's best less the drop."
)
@click.option(
    "--accuracy-epochs",
    type=click.IntRange(1),
    help="Epochs of the default; --lr-epochs by default, or until it stops rising.",
)
@click.option("--store", help="Where measurements are kept: a path or a database URL; DIR/profiles.sqlite by default.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="A new folder; runs/GRAPH by default.")
@click.option("--resume", is_flag=True, help="Go on with the tune in --out.")
@executor_options("Their kinds: names with commas between them, or all, for a tune on each at once in DIR/KIND.")
@click.option("--server", metavar="URL", help="Have an a3gnn serve tune, on its machine.")
@click.option("--token", envvar="A3GNN_TOKEN", show_envvar=True, help="What --server wants requests to carry.")
@QUIET
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def tune(quiet: bool, as_json: bool, server: str | None, token: str | None, **options: Any) -> None:
    """Find the best training configuration for a graph on this machine.

    Measures the default configuration, searches what a surrogate predicts, measures what matters, and writes
    DIR/tuned.json, front.csv and front.png. The choice keeps the memory limit as measured. Ctrl-C keeps what was
    measured for --resume; a file named stop in DIR ends the tune at once with the best so far.
    """
    refuse_executor(options, server)
    choice = take_choice(options)
    asked = as_arguments(options)
    if choice.names_several:
        from a3gnn.cli.tune_machines import tune_machines

        tune_machines(choice, asked, quiet, as_json)
        return
    if server is not None:
        from a3gnn.cli.tune_on_server import tune_on_server

        result = tune_on_server(server, token, options, asked, progress(quiet))
    else:
        from a3gnn.tuning.tune import tune as run

        with choice.opened(progress(quiet)) as executor:
            result = run(notify=progress(quiet), executor=executor, **asked)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
        return
    from a3gnn.report.table import front_lines, wrapped
    from a3gnn.tuning.tell.choice_lines import choice_lines

    if not quiet:
        click.echo(err=True)
    for line in front_lines(result.front):
        click.echo(line)
    click.echo()
    for line in choice_lines(result.tuned, result.front):
        indent = " " * (len(line) - len(line.lstrip()))
        for part in wrapped(line.strip(), indent, indent + "  "):
            click.echo(part)
    show_written(f"{result.folder}/tuned.json, front.csv and front.png are", f"{result.folder}/tuned.json")
