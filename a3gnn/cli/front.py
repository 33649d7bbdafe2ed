"""`a3gnn front`: shows the Pareto front of a tune."""

from __future__ import annotations

from pathlib import Path

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, say, show, show_json
from a3gnn.units import count


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Show every measured configuration.")
@JSON
def front(folder: Path, everything: bool, as_json: bool) -> None:
    """Show the Pareto front of the tune in the folder DIR.

    An unfinished tune shows the front so far.
    """
    from a3gnn.report.front import Front
    from a3gnn.tuning.outcome.result import unfinished_front

    so_far = unfinished_front(folder)
    if so_far is not None:
        say(
            f"the tune in {folder} is not finished, and this is its front so far; run its command with --resume to "
            "continue"
        )
    found = so_far or Front.read(folder)
    if as_json:
        show_json(found.to_dict())
        return
    from a3gnn.report.front import front_cells, front_lines

    for line in front_lines(found, everything):
        click.echo(line)
    left_out = 0 if everything else len(found.rows) - sum(1 for _ in front_cells(found).rows)
    if left_out:
        show(f"\n{count(left_out, 'measured configuration')} not shown; --all shows all")
