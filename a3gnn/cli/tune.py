"""`a3gnn tune`: finds the best training configuration for a graph, here, on a server, or per kind of machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a3gnn._imports import importing
from a3gnn.cli.completion import ENGINE
from a3gnn.cli.executor_options import executor_options, refuse_executor, take_choice
from a3gnn.cli.help import Command
from a3gnn.cli.options import BUDGET, LIMIT, REFERENCES, disk_limit_option
from a3gnn.cli.output import JSON, QUIET, VERBOSE, progress, show_json
from a3gnn.cli.study_options import as_arguments, study_options
from a3gnn.errors import UsageError
from a3gnn.notify import Message, shown, with_details
from a3gnn.option_names import again, option
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.tuning.tell.events import BeganEvent, HeadingEvent, PhaseEvent, TrialEvent, TrialRow
from a3gnn.units import count, format_duration, short_duration

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from a3gnn.tuning.outcome.result import TuneResult

#: Options of `a3gnn tune` that are not options of a study on a server.
_OWN = ("dataset", "split", "split_seed", "store", "out", "resume", "task")


@click.command(cls=Command)
@study_options(LIMIT, "such as 4GiB, or 'baseline' for the baseline's peak")
@click.option(
    "--budget", type=BUDGET, default="5min", show_default=True, help="Time such as 10min, or a number of trials."
)
@click.option(
    "--engine",
    type=ENGINE,
    default="ppo",
    show_default=True,
    help="Chooses the trials: ppo, ei, gp, tpe, nsga2, random or exhaustive.",
)
@click.option(
    "--search",
    multiple=True,
    metavar="KEY=VALUES|FILE.toml",
    help="Also try values of the model or of training: layers=2,3 or lr=1e-4:1e-1:log. May be repeated.",
)
@click.option(
    "--target-accuracy",
    type=float,
    metavar="PERCENT",
    help="Validation target by --metric. Default: the baseline's best minus --max-accuracy-drop.",
)
@click.option(
    "--accuracy-epochs",
    type=click.IntRange(1),
    help="Epochs of the baseline. Default: --lr-epochs, or until it stops improving.",
)
@REFERENCES
@click.option("--store", metavar="PATH|URL", help="Store of measurements. Default: DIR/profiles.sqlite.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="New folder for results. Default: runs/GRAPH."
)
@click.option("--resume", is_flag=True, help="Continue the tune in --out.")
@disk_limit_option
@executor_options("Kinds of machines, such as a,b or all; each kind gets a tune of its own in DIR/KIND.")
@click.option("--server", metavar="URL", help="Tune on the machine of this a3gnn serve.")
@click.option("--token", envvar="A3GNN_TOKEN", show_envvar=True, metavar="TEXT", help="Access token of --server.")
@QUIET
@VERBOSE
@JSON
def tune(quiet: bool, verbose: bool, as_json: bool, server: str | None, token: str | None, **options: Any) -> None:
    """Find the best training configuration for a graph on this machine.

    Measures the baseline, tries the configurations with the best predictions, and measures the best one in turns with
    the baseline. Writes DIR/tuned.json, front.csv and front.png.

    Ctrl-C keeps all measurements, and --resume continues. A file named stop in DIR ends the tune at once with the best
    configuration so far.
    """
    refuse_executor(options, server)
    choice = take_choice(options)
    asked = as_arguments(options)
    if choice.names_several:
        tune_machines(choice, asked, as_json, progress(quiet, verbose))
        return
    if server is not None:
        result = tune_on_server(server, token, options, asked, progress(quiet, verbose))
    else:
        with importing():
            from a3gnn.tuning.tune import tune as run

        with live_tune(quiet, verbose) as notify, choice.opened(notify) as executor:
            result = run(notify=notify, executor=executor, **asked)
    if as_json:
        show_json(result.to_dict())
        return
    from a3gnn.report.front import front_lines
    from a3gnn.tuning.tell.summary import summary_lines

    if not quiet:
        click.echo(err=True)
    found = result.summary
    more = [] if server is not None else longer(result.folder, options["budget"], found.warnings)
    for line in summary_lines(found, result.folder, verbose, more):
        click.echo(line)
    if verbose:
        click.echo()
        for line in front_lines(result.front):
            click.echo(line)


def longer(folder: Path, budget: float | int, warnings: Sequence[str]) -> list[str]:
    """Returns the command that goes on with the tune under twice its budget, if a warning advises to resume."""
    if not any(option("resume", True) in warning for warning in warnings):
        return []
    doubled = 2 * budget
    larger = doubled if isinstance(budget, int) else short_duration(doubled)
    return [again(out=folder, resume=True, budget=larger).strip()]


def tune_machines(
    choice: ExecutorChoice, asked: Mapping[str, Any], as_json: bool, notify: Callable[[str], None]
) -> None:
    """Tunes on each kind of machines, and prints the best kind and the results of each kind's choice.

    Raises:
        A3GNNError: None of the tunes has chosen a configuration.
        UsageError: An option is invalid.
    """
    from a3gnn.tuning.machines import machines_lines, ranked, why_no_best
    from a3gnn.tuning.machines import tune_machines as run
    from a3gnn.tuning.study.arguments import check_places

    arguments = {**asked, "task": asked["task"].to_dict()}
    resume = arguments.pop("resume")
    out: Path | None = arguments.pop("out")
    if out is None:
        check_places(out, asked["store"], resume)
    found = run(choice, choice.kinds(), out, arguments, resume=resume, notify=notify)
    if as_json:
        machines = [one.to_dict() for one in ranked(found)]
        show_json({"machines": machines, "no_best": why_no_best(found)})
        return
    notify("\n")
    for line in machines_lines(found):
        click.echo(line)


def tune_on_server(
    url: str, token: str | None, options: Mapping[str, Any], asked: Mapping[str, Any], notify: Callable[[str], None]
) -> TuneResult:
    """Runs a study on the server and returns its result; the local folder gets the files of a local tune.

    Args:
        url: The server's address.
        token: The server's access token; None if it needs none.
        options: The command's options.
        asked: The command's options as arguments of `tune`.
        notify: Takes each line of output.

    Raises:
        UsageError: An option is invalid, or not available with a server.
    """
    from a3gnn.service.client import Client
    from a3gnn.storage.claim import reserved_next
    from a3gnn.tuning.study.folder import check_folder

    if options["split"] is not None:
        raise UsageError(
            "--split has no effect with --server, which does not split graphs; give a folder that a3gnn graph convert "
            f"GRAPH FOLDER --split {options['split']} made"
        )
    for name in ("store", "resume"):
        if options[name]:
            raise UsageError(
                f"--{name} has no effect with --server, which has its own measurements and studies; "
                "Client(URL).study(N).resume() continues a study"
            )
    if options["out"] is not None:
        check_folder(options["out"], resume=False)
    order = {name: value for name, value in options.items() if name not in _OWN}
    order |= {name: asked[name] for name in ("fix", "ranges", "search")}
    if isinstance(order["budget"], float):
        order["budget"] = f"{order['budget']}s"
    study = Client(url, token).start(options["dataset"], **order)
    notify(f"study {study.id} at {url}; Ctrl-C leaves it running there")
    tuned = study.wait(notify)
    out: Path = options["out"] or reserved_next(tuned.setting.graph.name)
    dataset = options["dataset"]
    result = study.save(out, None if dataset.startswith("graph:") else dataset, notify)  # graph:N is the server's
    assert result is not None, "it has chosen"
    return result


#: Trials that are shown, besides the best one.
_TRIALS = 6
#: The phases of a tune in order, each with its mark while it waits, runs, and is done.
_PHASES, _MARKS = ("baseline", "search", "verify"), ("○", "●", "✓")
#: Width of the bar.
_BAR = 30


@contextmanager
def live_tune(quiet: bool, verbose: bool) -> Iterator[Callable[[str], None]]:
    """Yields the function that takes a tune's messages; in a terminal it draws them until the context ends."""
    if quiet or verbose or not sys.stderr.isatty():
        yield progress(quiet, verbose)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    if console.is_dumb_terminal:
        yield progress()
        return
    drawing = _Drawing(console)
    live = Live(console=console, get_renderable=drawing.render, refresh_per_second=4, transient=True)
    with live:
        try:
            yield with_details(drawing)
        except BaseException:  # the trials stay on the screen
            live.transient = False
            raise


class _Drawing:
    """The state of a tune as its messages tell it, and its picture."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._trials: tuple[TrialRow, ...] = ()
        self._heading = ""
        self._phase = ""
        self._total_s: float | None = None
        self._ends_at: float | None = None
        self._running: tuple[BeganEvent, float] | None = None

    def __call__(self, line: str) -> None:
        """Takes a message: draws an event, and prints other lines above the picture."""
        event = line.event if isinstance(line, Message) else None
        if isinstance(event, TrialEvent):
            self._trials = event.rows
            self._running = None
        elif isinstance(event, HeadingEvent):
            self._heading = event.line
        elif isinstance(event, BeganEvent):
            self._running = event, time.monotonic()
        elif isinstance(event, PhaseEvent):
            self._begin(event)
        elif text := shown(line):
            from rich.text import Text

            self._console.print(Text(text))

    def _begin(self, event: PhaseEvent) -> None:
        self._phase, self._running = event.phase, None
        self._total_s = event.total_s
        self._ends_at = None if event.left_s is None else time.monotonic() + event.left_s

    def render(self) -> RenderableType:
        """Returns the picture as rich draws it."""
        from rich.console import Group

        return Group(*self._lines()) if self._phase else Group()

    def _lines(self) -> Iterator[RenderableType]:
        from rich.text import Text

        at = _PHASES.index(self._phase)
        for i, phase in enumerate(_PHASES):
            yield self._phase_line(phase, _MARKS[1 + (i < at)] if i <= at else _MARKS[0], i == at)
        counted = [trial for trial in self._trials if trial.name != "baseline"]
        best = next((trial for trial in counted if trial.best), None)
        last = counted[-_TRIALS:]
        rows = last if best is None or best in last else [best, *last[1:]]
        if rows and self._heading:
            yield Text(f"\n{self._heading}", style="bold")
        for trial in rows:
            style = "bold green" if trial is best else "dim" if trial.ended else ""
            yield Text(trial.columns, style=style, no_wrap=True, overflow="ellipsis")
        running = self._running  # another thread may end it meanwhile
        if running is not None:
            began, since = running
            what = "" if began.name == "baseline" else f": {began.what}"
            text = f"{began.name:<9} running, {format_duration(time.monotonic() - since)}{what}"
            yield Text(text, style="cyan", no_wrap=True, overflow="ellipsis")

    def _phase_line(self, phase: str, mark: str, runs: bool) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        cells: list[RenderableType] = [Text(f"{mark} {phase:<9}", style="bold" if runs else "")]
        counted = sum(trial.name != "baseline" for trial in self._trials)
        if phase == "baseline":
            baseline = next((trial for trial in reversed(self._trials) if trial.name == "baseline"), None)
            if baseline is not None:
                cells.append(Text(" · ".join(filter(None, (baseline.speed, baseline.memory)))))
        elif runs and (total_s := self._total_s) is not None and (ends_at := self._ends_at) is not None:
            left_s = max(ends_at - time.monotonic(), 0.0)
            cells.append(ProgressBar(total_s, total_s - left_s, width=_BAR))
            cells.append(Text(f" {count(counted, 'trial')} · {format_duration(left_s)} left"))
        elif runs or (phase == "search" and mark == _MARKS[2]):
            cells.append(Text(count(counted, "trial")))
        grid = Table.grid(padding=(0, 1))
        grid.add_row(*cells)
        return grid
