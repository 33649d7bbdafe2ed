"""The joint table of tunes on several kinds of machines, of at most 80 columns: the best machine first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from a3gnn.profiling.store.provenance import describe_machine
from a3gnn.report.table import configuration, wrapped
from a3gnn.report.text import show_quality, show_seconds, show_throughput
from a3gnn.tuning.outcome.kept_tune import ToldTune
from a3gnn.tuning.run.machines import TunedMachine, ranked, why_no_best
from a3gnn.units import format_size

_HEADINGS = ("machine", "epochs/s", "seconds to target", "memory", "quality")


def machines_lines(found: Sequence[TunedMachine]) -> Iterator[str]:
    """Yields a row per machine with the figures of its choice, best machine first, then what each one is and chose.

    Where none can be called the best, it says why, and what to do.
    """
    order = ranked(found)
    rows = [(one, one.tune, one.tune.choice) for one in order if one.tune is not None and one.tune.choice is not None]
    first, why_none = rows[0][1], why_no_best(found)
    best = f"none is called the best: {why_none}" if why_none else f"best on {rows[0][0].machines}"
    yield from wrapped(
        f"{first.setting.task.model} on {first.setting.graph.name}, by the priority {first.request.priority.text}: "
        f"{best}"
    )
    yield ""
    cells = [
        (
            one.machines,
            show_throughput(figures),
            show_seconds(figures),
            format_size(getattr(figures, tune.front.memory)),
            show_quality(figures, tune.front.metric),
        )
        for one, tune, figures in rows
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *cells, strict=True)]
    for row in (_HEADINGS, *cells):
        name, *figures = zip(row, widths, strict=True)
        yield "  ".join([f"{name[0]:<{name[1]}}", *(f"{text:>{width}}" for text, width in figures)])
    for one, tune, _ in rows:
        yield ""
        yield from _told(one, tune)
    for one in order:
        if one.tune is None:
            yield ""
            yield from wrapped(f"{one.machines}: nothing was chosen: {one.error}", "", "  ")


def _told(one: TunedMachine, tune: ToldTune) -> Iterator[str]:
    yield from wrapped(f"{one.machines}: {describe_machine(tune.setting.hardware)}", "", "  ")
    if tune.front.target is not None:
        yield f"  target     {tune.front.metric.show(tune.front.target)}"
    if tune.config is not None:
        yield from configuration("  chosen", tune.config)
    yield f"  a3gnn train --config {shlex.quote(f'{one.folder}/tuned.json')}"
