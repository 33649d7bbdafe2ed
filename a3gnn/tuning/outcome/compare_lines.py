"""The lines that show a comparison of tunes, of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from a3gnn.profiling.store.provenance import describe_machine
from a3gnn.report.columns import WIDTH, configuration, wrapped
from a3gnn.report.text import show_quality, show_seconds, show_throughput
from a3gnn.spread import Spread
from a3gnn.tuning.outcome.compare import Compared
from a3gnn.tuning.outcome.pick_lines import describe_priority
from a3gnn.tuning.outcome.told_tune import ToldTune
from a3gnn.units import count, format_duration, format_size

#: Label and a cell per tune.
_Row = tuple[str, tuple[str, ...]]
#: Tunes beside each other, at most.
_MOST_BESIDE = 3


def compare_lines(found: Compared) -> Iterator[str]:
    """Yields what each tune was asked and chose, their figures beside each other, and what does not compare."""
    for tune in found.tunes:
        yield from _introduced(tune)
    yield ""
    yield from _table([tune.letter for tune in found.tunes], list(_rows(found)))
    if found.caveats:
        yield ""
        yield "What does not compare:"
        for line in found.caveats:
            yield from wrapped(line, "  - ", "    ")


def _introduced(tune: ToldTune) -> Iterator[str]:
    setting, request = tune.setting, tune.request
    limit = request.memory_limit
    limited = "" if limit is None else f" within {limit if isinstance(limit, str) else format_size(limit)}"
    took = f"{count(tune.trials, 'trial')} in {format_duration(tune.seconds)}"
    yield from wrapped(f"{tune.folder}{'' if tune.finished else ' (not finished)'}", f"{tune.letter:<3}", "   ")
    yield from wrapped(
        f"{setting.task.model} on {setting.graph.name}, for {describe_priority(request.priority)}{limited}, at most "
        f"{_points(request.max_accuracy_drop)} below the default; {took}; {describe_machine(setting.hardware)}",
        "   ",
        "   ",
    )
    if tune.config is None:
        yield "   nothing that was measured keeps the limits"
    else:
        yield from configuration("   chosen" if tune.finished else "   best measured so far", tune.config)


def _rows(found: Compared) -> Iterator[_Row]:
    tunes = found.tunes
    for title, name in (("default", "default"), ("chosen", "choice")):
        yield title, ()
        own = [(tune, getattr(tune, name)) for tune in tunes]
        yield "  epochs/s", tuple("-" if one is None else show_throughput(one) for _, one in own)
        yield (
            f"  {_shared([tune.front.seconds_heading for tune in tunes], 'seconds to target')}",
            tuple("-" if one is None else show_seconds(one) for _, one in own),
        )
        yield (
            "  memory",
            tuple("-" if one is None else format_size(getattr(one, tune.front.memory)) for tune, one in own),
        )
        yield (
            f"  {_shared([tune.front.metric.label for tune in tunes], 'quality')}",
            tuple("-" if one is None else show_quality(one, tune.front.metric) for tune, one in own),
        )
    yield "chosen over default (x)", ()
    against = [tune.against for tune in tunes]
    yield "  epochs/s", tuple("-" if one is None else _ratio(one.throughput) for one in against)
    yield (
        "  as early at target",
        tuple("-" if one is None or one.time is None else one.describe_time(".3g") for one in against),
    )
    yield "  memory", tuple("-" if one is None else f"{one.memory:.2f}" for one in against)
    yield (
        "  points more",
        tuple("-" if one is None or one.accuracy is None else one.accuracy.describe("+.1f") for one in against),
    )
    yield "  tells them apart", tuple(_verdict(one) for one in tunes)
    if found.knobs:
        yield "knobs that differ", ()
        for name, values in found.knobs.items():
            yield f"  {name}", tuple(_value(name, value) for value in values)


def _table(letters: Sequence[str], rows: Sequence[_Row]) -> Iterator[str]:
    """Yields the table, in blocks of as many tunes as fit beside each other."""
    first = max(len(label) for label, _ in rows) + 2
    cells = [[row[i] for _, row in rows if row] for i in range(len(letters))]
    widths = [max(map(len, (letters[i], *column))) + 2 for i, column in enumerate(cells)]
    beside = next((n for n in range(_MOST_BESIDE, 1, -1) if first + _widest(widths, n) <= WIDTH), 1)
    for start in range(0, len(letters), beside):
        own = range(start, min(start + beside, len(letters)))
        if start:
            yield ""
        yield _line("", [letters[i] for i in own], first, [widths[i] for i in own])
        for label, row in rows:
            yield _line(label, [row[i] for i in own] if row else [], first, [widths[i] for i in own])


def _widest(widths: Sequence[int], beside: int) -> int:
    """Returns the columns of the widest block of so many tunes."""
    return max(sum(widths[start : start + beside]) for start in range(0, len(widths), beside))


def _line(label: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    shown = "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False))
    return f"{label:<{first}}{shown}".rstrip()


def _shared(names: Sequence[str], otherwise: str) -> str:
    return names[0] if len(set(names)) == 1 else otherwise


def _points(drop: float) -> str:
    return f"{drop:g} point{'' if drop == 1 else 's'}"


def _ratio(spread: Spread) -> str:
    return spread.describe(".3g")


def _verdict(tune: ToldTune) -> str:
    if tune.differs is None:
        return "-"
    return f"yes, by {' and '.join(tune.better_by)}" if tune.differs else "no"


def _value(name: str, value: object) -> str:
    if name == "cache_bytes" and isinstance(value, int) and value:
        return format_size(value)
    return "-" if value is None else str(value)
