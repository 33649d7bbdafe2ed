"""`a3gnn pull`: copies a study of a server to a folder of this machine."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, QUIET, progress, show_json
from a3gnn.option_names import program
from a3gnn.units import count


@click.command(cls=Command)
@click.argument("url", metavar="URL")
@click.argument("number", metavar="N", type=click.IntRange(1))
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--dataset", metavar="GRAPH", help="Graph on this machine. Default: its name on the server.")
@click.option("--token", envvar="A3GNN_TOKEN", show_envvar=True, metavar="TEXT", help="Access token of the server.")
@QUIET
@JSON
def pull(
    url: str, number: int, folder: Path, dataset: str | None, token: str | None, quiet: bool, as_json: bool
) -> None:
    """Copy study N of the server at URL to FOLDER, as a local tune would have written it.

    front, pick, compare, report, export and train then take FOLDER. A study that has not finished is copied as far as
    it is. FOLDER must be new or empty.
    """
    from a3gnn.service.client import Client
    from a3gnn.tuning.outcome.kept_tune import KeptTune

    Client(url, token).study(number).save(folder, dataset, progress(quiet))
    trials = len(KeptTune.read(folder).history.trials)
    if as_json:
        show_json({"folder": str(folder), "trials": trials})
        return
    click.echo(f"{'Saved':<11}{folder}, {count(trials, 'trial')}")
    click.echo(f"{'Next':<11}{program()} front {shlex.quote(str(folder))}")
