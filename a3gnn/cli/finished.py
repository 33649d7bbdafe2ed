"""Commands that read what a tune left in its folder: front, pick, compare, export and report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import PRIORITY
from a3gnn.cli.options import ANY_LIMIT
from a3gnn.cli.output import QUIET, progress, say, show, show_written
from a3gnn.errors import UsageError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Every measured configuration, not the front alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def front(folder: Path, everything: bool, as_json: bool) -> None:
    """Show the Pareto front in FOLDER, the --out of a tune; of one that has not chosen yet, the front so far."""
    from a3gnn.report.front import Front, front_lines
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
    for line in front_lines(found, everything):
        click.echo(line)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--priority", type=PRIORITY, help="time, throughput, memory, accuracy, balanced, T,M,A.")
@click.option("--max-memory", "--memory-limit", "memory_limit", type=ANY_LIMIT, help="Such as 4GiB, default, or none.")
@click.option("--max-host-memory", "--host-memory-limit", "host_memory_limit", type=ANY_LIMIT, help="Beside a GPU.")
@click.option("--max-accuracy-drop", type=float, help="Points below the default, by the metric.")
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

    What is not asked stays as it was in the tune. Shows the configuration beside the default, says what is uncertain
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


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR DIR ...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV on stdout, a row per tune.")
def compare(folders: tuple[Path, ...], as_json: bool, as_csv: bool) -> None:
    """Compare what the tunes in two folders or more were asked for, and found.

    Shows each one's default and choice, their ratios with ranges, and the knobs that differ; and says what does not
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


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--optuna", "url", required=True, metavar="URL", help="The storage, such as sqlite:///optuna.db.")
@click.option("--study-name", help="Of the new study; the graph's name and the folder's by default.")
@click.option("--replace", is_flag=True, help="Write an earlier export of that name anew.")
@QUIET
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def export(folder: Path, url: str, study_name: str | None, replace: bool, quiet: bool, as_json: bool) -> None:
    """Write the trials of the tune in FOLDER into an Optuna storage, as a study of its own.

    Knobs are parameters with their scales; speed, memory and accuracy are the objectives, limits the constraints,
    learning curves the intermediate values. optuna-dashboard URL shows it.
    """
    from a3gnn.tuning.outcome.optuna_export import export_to_optuna

    found = export_to_optuna(folder, url, study_name=study_name, replace=replace, notify=progress(quiet))
    if as_json:
        click.echo(json.dumps(found._asdict(), indent=2))
        return
    show(found.describe())


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
