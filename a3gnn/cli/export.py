"""`a3gnn export`: exports the trials of a tune for other tools."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a3gnn.cli.output import QUIET, progress, show


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--optuna", "url", required=True, metavar="URL", help="The storage, such as sqlite:///optuna.db.")
@click.option("--study-name", help="Of the new study; the graph's name and the folder's by default.")
@click.option("--replace", is_flag=True, help="Write an earlier export of that name anew.")
@QUIET
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def export(folder: Path, url: str, study_name: str | None, replace: bool, quiet: bool, as_json: bool) -> None:
    """Write the trials of the tune in FOLDER into an Optuna storage, as a study of its own.

    Knobs are parameters with their scales; speed, memory and accuracy are the objectives, limits the constraints,
    learning curves the intermediate values. optuna-dashboard URL shows it.
    """
    from a3gnn.tuning.outcome.optuna_export import export_to_optuna

    found = export_to_optuna(folder, url, study_name=study_name, replace=replace, notify=progress(quiet))
    if as_json:
        click.echo(json.dumps(found._asdict(), indent=2))
        return
    show(found.describe())
