"""`a3gnn report`: writes a study as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, show_json


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="HTML file to write. Default: DIR/report.html."
)
@JSON
def report(folder: Path, out: Path | None, as_json: bool) -> None:
    """Write the tune in the folder DIR as one HTML file.

    The page works offline. It shows the measured front, learning curves, the time of each stage of a step, the knobs
    and every trial, and it picks another configuration by other limits and weights. The tune may still be running. An
    existing file is replaced.
    """
    from a3gnn.page.views import write_report

    written = write_report(folder, out)
    if as_json:
        show_json({"file": str(written)})
    else:
        click.echo(written)
