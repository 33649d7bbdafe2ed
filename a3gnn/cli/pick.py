"""`a3gnn pick`: picks the best measured trial of a tune by another priority or other limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import PRIORITY
from a3gnn.cli.options import ANY_LIMIT
from a3gnn.cli.output import show_written


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--priority", type=PRIORITY, help="time, throughput, memory, accuracy, balanced, T,M,A.")
@click.option("--max-memory", "--memory-limit", "memory_limit", type=ANY_LIMIT, help="Such as 4GiB, default, or none.")
@click.option("--max-host-memory", "--host-memory-limit", "host_memory_limit", type=ANY_LIMIT, help="Beside a GPU.")
@click.option("--max-accuracy-drop", type=float, help="Points below the baseline, by the metric.")
@click.option("--min-accuracy", "--target-accuracy", "target_accuracy", type=float, help="In percent, by the metric.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PLACE",
    help="A new FILE.json, or a folder for a tuned.json; FOLDER/picked.json by default, which the next pick replaces.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def pick(folder: Path, out: Path | None, as_json: bool, **asked: Any) -> None:
    """Pick the best of what the tune in FOLDER measured by what is asked now, without a trial.

    What is not asked stays as it was in the tune. Shows the configuration beside the baseline, says what is uncertain
    about it, and writes what a3gnn train takes. The tune's own tuned.json stays. Exits with 3 where nothing that was
    measured keeps the limits, and says what comes closest.
    """
    from a3gnn.tuning.outcome.pick import pick as run
    from a3gnn.tuning.outcome.picked import file_at, pick_lines

    if out is not None:
        file_at(out)
    found = run(folder, **asked)
    file = found.write(out)
    if as_json:
        click.echo(json.dumps(found.to_dict() | {"file": str(file)}, indent=2))
        return
    for line in pick_lines(found):
        click.echo(line)
    show_written(f"{file} is", file)
