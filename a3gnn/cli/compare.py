"""`a3gnn compare`: compares several tunes."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a3gnn.errors import UsageError


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR DIR ...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV on stdout, a row per tune.")
def compare(folders: tuple[Path, ...], as_json: bool, as_csv: bool) -> None:
    """Compare what the tunes in two folders or more were asked for, and found.

    Shows each one's baseline and choice, their ratios with ranges, and the knobs that differ; and says what does not
    compare: other graphs, machines, metrics, versions. Tunes that run, or were interrupted, are shown as far as they
    are.
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other; give one of them")
    from a3gnn.tuning.outcome.compare import compare as run
    from a3gnn.tuning.outcome.compare import compare_lines

    found = run(folders)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    elif as_csv:
        click.echo(found.csv(), nl=False)
    else:
        for line in compare_lines(found):
            click.echo(line)
