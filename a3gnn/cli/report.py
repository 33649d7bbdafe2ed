"""`a3gnn report`: writes a study as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The file to write; FOLDER/report.html by default."
)
def report(folder: Path, out: Path | None) -> None:
    """Write the study in FOLDER, the --out of a tune, as one HTML file.

    The file holds everything that it shows, works offline and can be mailed: the measured front, a picker by other
    limits and weights, the knobs, learning curves, where the time of a step goes, and every trial. FOLDER may be that
    of a tune that still runs. A file that is there already is replaced.
    """
    from a3gnn.page.views import write_report

    click.echo(write_report(folder, out))
