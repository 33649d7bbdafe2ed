"""The lines that show a pick, of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from a3gnn.breach import MEMORY_NAMES
from a3gnn.figures import Figures
from a3gnn.objectives import Priority
from a3gnn.report.columns import configuration, row, wrapped
from a3gnn.report.text import show_quality, show_seconds, show_throughput
from a3gnn.spread import Spread
from a3gnn.tuning.outcome.picked import Pick
from a3gnn.units import format_size

_MEMORY = {"device_bytes": "peak_device_bytes", "host_bytes": "peak_host_bytes"}


def pick_lines(found: Pick) -> Iterator[str]:
    """Yields what was asked, the picked configuration and the default, what both reached, and what is uncertain."""
    setting = found.tuned.setting
    yield from wrapped(
        f"Picked for {_asked(found)} of what was measured of {setting.task.model} on {setting.graph.name}; no trial "
        "was run for it."
    )
    yield ""
    yield from configuration("picked", found.config)
    if found.default_row is not None:
        yield from configuration("default", found.default_row.config)
    elif found.is_choice and found.tuned.no_gain is not None:
        yield from wrapped("No measurable gain over the default configuration was found.")
    elif found.default == found.config:
        yield from wrapped("Nothing measured is better by this priority than the default configuration.")
    yield ""
    yield row("measured", "picked", "" if found.default_row is None else "default")
    for cells in _figures(found):
        yield row(*cells)
    yield ""
    yield from wrapped(_measured_how(found))
    for line in found.doubts:
        yield from wrapped(line, "  - ", "    ")


def _asked(found: Pick) -> str:
    limits, metric = found.tuned.limits, found.front.metric
    kept = [
        f"{MEMORY_NAMES[name]} <= {format_size(getattr(limits, name))}" for name in _MEMORY if getattr(limits, name)
    ]
    if limits.least_accuracy is not None:
        kept.append(f"validation {metric.label} {metric.show_at_least(limits.least_accuracy)}")
    return f"{describe_priority(found.request.priority)}{' with ' if kept else ''}{', '.join(kept)}"


def describe_priority(priority: Priority) -> str:
    """Returns the name of a priority, or its weights."""
    return priority.name or f"the weights {','.join(f'{weight:.3g}' for weight in priority.weights)}"


def _measured_how(found: Pick) -> str:
    if not found.in_play_off:
        return "In brackets: the range of what was timed. What is uncertain:"
    beside = "" if found.default_row is None else ", as the default was"
    if found.is_choice:
        beside = "" if found.against is None else ", in turns with the default"
        return f"This is the tune's own choice, measured again in the play-off{beside}."
    return f"It was measured again in the play-off{beside}."


def _figures(found: Pick) -> Iterator[tuple[str, ...]]:
    """Yields a label, what the pick reached, and what the default did."""
    own, front = found.row.measured, found.front
    default = None if found.default_row is None else found.default_row.measured
    speed = "epochs/s", show_throughput(own), "" if default is None else show_throughput(default)
    if not front.by_seconds:
        yield speed
        yield from _over(found.throughput)
    if front.times_accuracy:
        yield front.seconds_heading, *_seconds(found)
        at_least = found.against is not None and found.against.time_at_least
        yield from _over(found.time, "  as early as default", "at least " if at_least else "")
    if front.by_seconds:
        yield speed
        yield from _over(found.throughput)
    for name, field in _MEMORY.items():
        if getattr(own, field):
            yield from _memory(found, MEMORY_NAMES[name], field, own, default)
    label = f"validation {front.metric.label}"
    yield label, show_quality(own, front.metric), "" if default is None else show_quality(default, front.metric)
    if found.against is not None and found.against.accuracy is not None:
        yield "  points more", found.against.accuracy.describe("+.2f"), ""


def _memory(found: Pick, label: str, field: str, own: Figures, default: Figures | None) -> Iterator[tuple[str, ...]]:
    sizes = [getattr(one, field) for one in (own, default) if one is not None]
    yield label, *map(format_size, sizes), *[""] * (2 - len(sizes))
    if len(sizes) == 2:
        ratio = (
            found.against.memory if found.against is not None and field == found.front.memory else sizes[0] / sizes[1]
        )
        yield "  over the default's", f"{ratio:.2f} x", ""


def _seconds(found: Pick) -> tuple[str, str]:
    rows = found.row, found.default_row
    own, default = (
        "" if row is None else seconds.describe(".3g") if seconds is not None else show_seconds(row.measured)
        for row, seconds in zip(rows, found.seconds, strict=True)
    )
    return own, default


def _over(ratio: Spread | None, label: str = "  over the default's", at_least: str = "") -> Iterator[tuple[str, ...]]:
    if ratio is not None:
        yield label, f"{at_least}{ratio.describe('.3g')} x", ""
