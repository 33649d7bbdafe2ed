"""`a3gnn export`: exports the trials of a tune for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, QUIET, progress, show, show_json


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--optuna", "url", required=True, metavar="URL", help="Optuna storage, such as sqlite:///optuna.db.")
@click.option("--study-name", metavar="NAME", help="Name of the new study. Default: the names of graph and folder.")
@click.option("--replace", is_flag=True, help="Replace an earlier export with the same name.")
@QUIET
@JSON
def export(folder: Path, url: str, study_name: str | None, replace: bool, quiet: bool, as_json: bool) -> None:
    """Write the trials of the tune in the folder DIR to an Optuna storage, as a new study.

    Knobs become parameters with their scales. Speed, memory and accuracy become objectives, limits become constraints,
    and learning curves become intermediate values. View the study with optuna-dashboard URL.
    """
    from a3gnn.tuning.outcome.optuna_export import export_to_optuna

    found = export_to_optuna(folder, url, study_name=study_name, replace=replace, notify=progress(quiet))
    if as_json:
        show_json(found._asdict())
        return
    show(found.describe())
