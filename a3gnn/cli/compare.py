"""`a3gnn compare`: compares several tunes."""

from __future__ import annotations

from pathlib import Path

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, show_json
from a3gnn.errors import UsageError


@click.command(cls=Command)
@click.argument("folders", nargs=-1, required=True, metavar="DIR DIR ...", type=click.Path(path_type=Path))
@JSON
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per tune.")
def compare(folders: tuple[Path, ...], as_json: bool, as_csv: bool) -> None:
    """Compare the requests and results of two or more tunes.

    Shows each tune's baseline and choice, their ratios with ranges, and the knobs that differ. Warns about different
    graphs, machines, metrics and versions. Unfinished tunes show their best trial so far.
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other; give one of them")
    from a3gnn.tuning.outcome.compare import compare as run
    from a3gnn.tuning.outcome.compare import compare_lines

    found = run(folders)
    if as_json:
        show_json(found.to_dict())
    elif as_csv:
        click.echo(found.csv(), nl=False)
    else:
        for line in compare_lines(found):
            click.echo(line)
