"""The front as a figure; needs the extra `plot`. It imports matplotlib only to draw."""

from __future__ import annotations

import math
from io import BytesIO
from itertools import cycle
from typing import TYPE_CHECKING

from a3gnn._imports import optional
from a3gnn.limits import Breach
from a3gnn.report.rows import UNCOMPARED, FrontRow, FrontRows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Markers of rows that break limits, one per set of limits.
_BROKEN_MARKS = ("o", "v", "s")
#: Marker and size, by label.
_MARKS = {"chosen": ("*", 320), "default": ("D", 70)}


def front_figure(front: FrontRows, title: str = "") -> Figure:
    """Returns a figure of speed against peak memory, colored by validation quality, with the limit as a line.

    Speed is epochs per second, or seconds to accuracy with fewer further up; bars are the range of its replicates.
    Rows on the front are large and other compared rows small. Other feasible rows are crosses, and rows that break a
    limit are hollow. The legend says which limits these break, and by how much at most. It also counts the rows without
    a place, which miss the target.
    """
    optional("matplotlib", "plot", "A figure of the front")
    from matplotlib import colormaps

    figure = _shown_figure()
    axes = figure.subplots()
    placed = [row for row in front.rows if not math.isnan(_speed(front, row))]
    within = [row for row in placed if row.compared]
    colors = axes.scatter(
        [_memory_mib(front, row) for row in within],
        [_speed(front, row) for row in within],
        c=[math.nan if (found := row.measured.val_accuracy) is None else front.metric.number(found) for row in within],
        s=[64 if row.on_front else 22 for row in within],
        cmap=colormaps["viridis"].with_extremes(bad="0.8"),
        plotnonfinite=True,
        label=f"compared ({len(within)}), large: on the front",
        zorder=3,
    )
    _draw_others(axes, front, [row for row in placed if row.feasible and not row.compared])
    _draw_broken(axes, front, placed)
    figure.colorbar(colors, ax=axes, label=f"validation {front.metric.label} ({front.metric.unit})")
    _draw_front(axes, front, placed)
    _draw_ranges(axes, front)
    _mark(axes, front, placed)
    if len(placed) < len(front.rows):
        axes.plot([], [], linestyle="none", label=f"target not reached, not drawn ({len(front.rows) - len(placed)})")
    _scale(axes, front)
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", markerscale=0.6)
    return figure


def _shown_figure() -> Figure:
    """Returns an empty figure that a notebook shows at the end of a cell, whether or not pyplot was set up for that."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            drawn = BytesIO()
            self.savefig(drawn, format="png")
            return drawn.getvalue()

    return ShownFigure(figsize=(8, 5), layout="constrained")


def _scale(axes: Axes, front: FrontRows) -> None:
    """Labels and scales the axes; faster is further up for both kinds of speed."""
    from matplotlib.ticker import LogLocator

    kind = "device" if front.memory == "peak_device_bytes" else "host"
    speed = f"{front.seconds_heading} (validation)" if front.by_seconds else "throughput (epochs/s)"
    axes.set(xlabel=f"peak {kind} memory (MiB)", ylabel=speed)
    if any(math.isfinite(_speed(front, row)) for row in front.rows):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
    if front.by_seconds:
        axes.invert_yaxis()
    axes.yaxis.set_major_formatter("{x:.3g}")
    axes.yaxis.set_minor_formatter("")
    axes.margins(x=0.08, y=0.12)
    axes.grid(visible=True, which="major", alpha=0.3)


def _memory_mib(front: FrontRows, row: FrontRow) -> float:
    return float(getattr(row.measured, front.memory)) / 2**20


def _speed(front: FrontRows, row: FrontRow) -> float:
    """Returns the value of `row` on the speed axis; NaN if it misses the target."""
    found: float | None = getattr(row.measured, front.speed)
    return math.nan if found is None else found


def _draw_ranges(axes: Axes, front: FrontRows) -> None:
    """Draws the range of each row's repeats on the speed axis."""
    for row in front.rows:
        one = row.measured
        low, high = (
            (one.seconds_low, one.seconds_high) if front.by_seconds else (one.throughput_low, one.throughput_high)
        )
        if low is not None and high is not None and low < high:
            axes.plot([_memory_mib(front, row)] * 2, [low, high], color="0.6", linewidth=0.8, zorder=1)


def _draw_others(axes: Axes, front: FrontRows, rows: list[FrontRow]) -> None:
    """Draws the rows that keep the limits and are not compared with the others."""
    if rows:
        axes.scatter(
            [_memory_mib(front, row) for row in rows],
            [_speed(front, row) for row in rows],
            color="0.6",
            marker="x",
            s=22,
            label=f"{UNCOMPARED} ({len(rows)})",
        )


def _draw_broken(axes: Axes, front: FrontRows, placed: list[FrontRow]) -> None:
    """Draws the rows that break limits, one marker per set of limits."""
    kinds: dict[tuple[str, ...], list[FrontRow]] = {}
    for row in placed:
        if not row.feasible:
            kinds.setdefault(tuple(breach.limit for breach in row.broken), []).append(row)
    for marker, (kind, rows) in zip(cycle(_BROKEN_MARKS), sorted(kinds.items()), strict=False):
        axes.scatter(
            [_memory_mib(front, row) for row in rows],
            [_speed(front, row) for row in rows],
            facecolors="none",
            edgecolors="0.4",
            marker=marker,
            s=30,
            label=_describe_broken(kind, rows),
        )


def _describe_broken(kind: tuple[str, ...], rows: list[FrontRow]) -> str:
    """Returns the legend's line: `breaks a limit: host memory by up to 12.0 MiB (2)`."""
    said = ", ".join(_worst([row.broken[i] for row in rows]) for i in range(len(kind)))
    return f"breaks a limit{f': {said}' if said else ''} ({len(rows)})"


def _worst(breaches: list[Breach]) -> str:
    """Returns the largest known breach of one limit: `accuracy by up to 0.8 points`."""
    known = [breach for breach in breaches if breach.found]
    if not known:
        return breaches[0].short()
    worst = max(known, key=lambda breach: breach.excess)
    return f"{worst.name} by up to {worst.amount()}"


def _draw_front(axes: Axes, front: FrontRows, placed: list[FrontRow]) -> None:
    """Draws the front's edge in the plane of memory and speed, and the limit."""
    sign = 1 if front.by_seconds else -1
    points = sorted((_memory_mib(front, row), sign * _speed(front, row)) for row in placed if row.on_front)
    edge: list[tuple[float, float]] = []
    for memory, slowness in points:
        if not edge or slowness < sign * edge[-1][1]:
            edge.append((memory, sign * slowness))
    if edge:
        axes.step(*zip(*edge, strict=True), where="post", color="0.4", linewidth=1, label="front", zorder=2)
    if front.limit_bytes:
        _draw_limit(axes, front, front.limit_bytes / 2**20)


def _draw_limit(axes: Axes, front: FrontRows, limit_mib: float) -> None:
    """Draws the limit as a line, or as an arrow at the edge if it is far off, so that the points stay apart."""
    if not front.rows or limit_mib <= axes.get_xlim()[1]:
        axes.axvline(limit_mib, color="tab:red", linestyle="--", label="memory limit")
        return
    axes.text(
        0.99,
        0.01,
        f"limit {limit_mib:,.0f} MiB \u2192",
        color="tab:red",
        ha="right",
        va="bottom",
        transform=axes.transAxes,
    )


def _mark(axes: Axes, front: FrontRows, placed: list[FrontRow]) -> None:
    for label, (marker, size) in _MARKS.items():
        for row in placed:
            if label in row.labels:
                axes.scatter(
                    _memory_mib(front, row),
                    _speed(front, row),
                    marker=marker,
                    s=size,
                    facecolors="none",
                    edgecolors="black",
                    linewidths=1.4,
                    label="baseline" if label == "default" else label,
                    zorder=4,
                )
