"""`live_tune`: the progress of a tune, drawn in a terminal; in a pipe or a file, lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from a3gnn.cli.output import progress
from a3gnn.notify import Message, shown, with_details
from a3gnn.tuning.tell.events import BeganEvent, HeadingEvent, PhaseEvent, TrialEvent, TrialRow
from a3gnn.units import count, format_duration

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

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
