"""`a3gnn status` and `a3gnn stop`: show and end a tune that another process runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, show, show_json
from a3gnn.units import count, format_duration, format_size

if TYPE_CHECKING:
    from a3gnn.report.rows import FrontRow
    from a3gnn.tuning.outcome.status import TuneStatus

_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


@click.command(cls=Command)
@_FOLDER
@JSON
def status(folder: Path, as_json: bool) -> None:
    """Show how far the tune in the folder DIR is: its phase, trials, time left and best configuration so far.

    The tune may run in another process, and nothing is changed. If DIR has tunes as its folders, such as runs or the
    DIR of --machines, each of them is shown.
    """
    from a3gnn.tuning.outcome.status import statuses

    _print(folder, statuses(folder), as_json)


@click.command(cls=Command)
@_FOLDER
@JSON
def stop(folder: Path, as_json: bool) -> None:
    """Stop the running tune in the folder DIR at once, with the best configuration so far.

    The tune then writes its results, which takes some seconds. Exits with 2 if no process runs it. If DIR has the tunes
    of several kinds of machines (tune --machines), all of them are stopped.
    """
    from a3gnn.tuning.outcome.status import stop_tune

    _print(folder, stop_tune(folder), as_json)


def _print(folder: Path, found: list[TuneStatus], as_json: bool) -> None:
    is_one = [one.folder for one in found] == [folder]
    if as_json:
        show_json(found[0].to_dict() if is_one else {"tunes": [one.to_dict() for one in found]})
        return
    for one in found:
        if not is_one:
            show(f"{'Tune':<11}{one.folder.name}")
        for line in _lines(one):
            show(line)


def _lines(found: TuneStatus) -> Iterator[str]:
    trials, seconds = found.trials_left, found.seconds_left
    left = count(trials, "trial") if trials is not None else format_duration(seconds or 0.0)
    yield f"{'Phase':<11}{found.phase}"
    progress = f"{count(found.trials, 'trial')}, {format_duration(found.seconds)}"
    if found.phase != "unreadable":
        yield f"{'Progress':<11}{progress}" + ("" if found.has_ended else f", {left} left")
    for name, row in (("Baseline", found.baseline), ("Best", found.best)):
        if row is not None:
            yield f"{name:<11}{_row(row)}"
    if found.problem:
        yield f"{'Problem':<11}{found.problem}"


def _row(row: FrontRow) -> str:
    from a3gnn.report.text import describe_config

    figures, speed = row.measured, f"{row.measured.throughput_epochs_per_s:.3g} epochs/s"
    peak = figures.peak_device_bytes or figures.peak_host_bytes
    return f"{speed}, {format_size(peak)}, {describe_config(row.config)}"
