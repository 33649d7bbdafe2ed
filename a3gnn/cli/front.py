"""`a3gnn front`: shows the Pareto front of a tune."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a3gnn.cli.output import say


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Every measured configuration, not the front alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def front(folder: Path, everything: bool, as_json: bool) -> None:
    """Show the Pareto front in FOLDER, the --out of a tune; of one that has not chosen yet, the front so far."""
    from a3gnn.report.front import Front
    from a3gnn.tuning.outcome.result import unfinished_front

    so_far = unfinished_front(folder)
    if so_far is not None:
        say(
            f"nothing is chosen in {folder} yet: this is the front of what was measured so far; "
            "the tune's command with --resume goes on"
        )
    found = so_far or Front.read(folder)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    from a3gnn.report.front import front_lines

    for line in front_lines(found, everything):
        click.echo(line)
