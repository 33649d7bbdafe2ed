"""`a3gnn recommend`: recommends a configuration by predictions, without a trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.options import SIZE_LIMIT
from a3gnn.cli.output import QUIET, progress, show_written
from a3gnn.cli.study_options import as_arguments, study_options
from a3gnn.profiling.store.existing import DEFAULT_STORE


@click.command()
@study_options(SIZE_LIMIT, "such as 4GiB")
@click.option("--store", help=f"Your measurements: a path or a database URL; {DEFAULT_STORE}, if there, by default.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="A new folder for a tuned.json.")
@QUIET
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def recommend(quiet: bool, as_json: bool, **options: Any) -> None:
    """Recommend a training configuration by predictions alone, in seconds: no trial is run.

    Shows what is predicted of it and of the baseline, each figure with the interval in which nine of ten
    measurements should lie, how probably it keeps each limit, and what can't be known. The first call on a machine
    probes it and fits the predictions, which takes some seconds more. DIR/tuned.json is for a3gnn train. a3gnn tune
    measures.
    """
    asked = as_arguments(options)
    from a3gnn.tuning.recommend import recommend as run
    from a3gnn.tuning.tell.recommendation_lines import recommendation_lines

    found = run(notify=progress(quiet), **asked)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    if not quiet:
        click.echo(err=True)
    for line in recommendation_lines(found):
        click.echo(line)
    if found.folder is not None:
        show_written(f"{found.folder}/tuned.json is", f"{found.folder}/tuned.json")
