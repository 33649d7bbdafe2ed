"""`a3gnn recommend`: recommends a configuration by predictions, without a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a3gnn._imports import importing
from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE_LIMIT
from a3gnn.cli.output import JSON, QUIET, progress, show_json, show_written
from a3gnn.cli.study_options import as_arguments, study_options
from a3gnn.profiling.store.existing import DEFAULT_STORE


@click.command(cls=Command)
@study_options(SIZE_LIMIT, "such as 4GiB")
@click.option(
    "--store", metavar="PATH|URL", help=f"Store of your measurements. Default: {DEFAULT_STORE}, if it exists."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="New folder for tuned.json.")
@QUIET
@JSON
def recommend(quiet: bool, as_json: bool, **options: Any) -> None:
    """Recommend a training configuration in seconds, without a trial.

    Predicts speed, memory and accuracy of the configuration and of the baseline, each with a 90% interval, and the
    probability that each limit holds. The first call on a machine measures its speed and fits the predictions, which
    takes some seconds more. a3gnn train DIR trains with the configuration; a3gnn tune measures it first.
    """
    asked = as_arguments(options)
    with importing():
        from a3gnn.tuning.recommend import recommend as run
    from a3gnn.tuning.tell.recommendation_lines import recommendation_lines

    found = run(notify=progress(quiet), **asked)
    if as_json:
        show_json(found.to_dict())
        return
    if not quiet:
        click.echo(err=True)
    for line in recommendation_lines(found):
        click.echo(line)
    if found.folder is not None:
        show_written(f"{found.folder}/tuned.json", found.folder)
