"""The front as a figure; needs the extra `plot`."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from a3gnn._imports import optional
from a3gnn.report.front import Front, FrontRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A limit beyond so many times the largest measured memory is not drawn to scale. Guess.
_MAX_LIMIT_RATIO = 1.4
#: Markers of rows that break limits, one per set of limits.
_BROKEN_MARKS = ("o", "v", "s")
#: Marker and size, by label.
_MARKS = {"chosen": ("*", 320), "default": ("D", 70)}


def front_figure(front: Front, title: str = "") -> Figure:
    """Returns throughput against peak memory, coloured by accuracy, with the limit as a line.

    Feasible rows that are not on the front are small, rows that break a limit hollow; the legend says which limits they
    break, and by how much at most.
    """
    optional("matplotlib", "plot", "A figure of the front")
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    within = [row for row in front.rows if row.feasible]
    colours = axes.scatter(
        [_memory_mib(front, row) for row in within],
        [row.measured.throughput_epochs_per_s for row in within],
        c=[row.measured.test_accuracy * 100 for row in within],
        s=[64 if row.on_front else 22 for row in within],
        cmap="viridis",
        zorder=3,
    )
    _draw_broken(axes, front)
    figure.colorbar(colours, ax=axes, label="test accuracy (%)")
    _draw_front(axes, front)
    _mark(axes, front)
    kind = "device" if front.memory == "peak_device_bytes" else "host"
    axes.set(xlabel=f"peak {kind} memory (MiB)", ylabel="throughput (epochs/s)", title=title)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
    axes.yaxis.set_major_formatter("{x:.3g}")
    axes.yaxis.set_minor_formatter("")
    axes.margins(x=0.08, y=0.12)
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", markerscale=0.6)
    return figure


def save_front_figure(front: Front, path: Path, title: str = "") -> None:
    """Writes the figure of `front` to `path` (its ending decides the format)."""
    front_figure(front, title).savefig(path, dpi=130)


def _memory_mib(front: Front, row: FrontRow) -> float:
    return float(getattr(row.measured, front.memory)) / 2**20


def _draw_broken(axes: Axes, front: Front) -> None:
    """Draws the rows that break limits, one marker per set of limits."""
    kinds: dict[tuple[str, ...], list[FrontRow]] = {}
    for row in front.rows:
        if not row.feasible:
            kinds.setdefault(tuple(breach.limit for breach in row.broken), []).append(row)
    for marker, (kind, rows) in zip(cycle(_BROKEN_MARKS), sorted(kinds.items()), strict=False):
        axes.scatter(
            [_memory_mib(front, row) for row in rows],
            [row.measured.throughput_epochs_per_s for row in rows],
            facecolors="none",
            edgecolors="0.4",
            marker=marker,
            s=30,
            label=_describe_broken(kind, rows),
        )


def _describe_broken(kind: tuple[str, ...], rows: list[FrontRow]) -> str:
    """Returns the legend's line: `breaks a limit: host memory by up to 12.0 MiB (2)`."""
    worst = [max((row.broken[i] for row in rows), key=lambda breach: breach.excess) for i in range(len(kind))]
    said = ", ".join(f"{breach.name} by up to {breach.amount()}" for breach in worst)
    return f"breaks a limit{f': {said}' if said else ''} ({len(rows)})"


def _draw_front(axes: Axes, front: Front) -> None:
    """Draws the front's edge in the plane of memory and throughput, and the limit."""
    points = sorted(
        (_memory_mib(front, row), row.measured.throughput_epochs_per_s) for row in front.rows if row.on_front
    )
    edge: list[tuple[float, float]] = []
    for memory, throughput in points:
        if not edge or throughput > edge[-1][1]:
            edge.append((memory, throughput))
    if edge:
        axes.step(*zip(*edge, strict=True), where="post", color="0.4", linewidth=1, label="front", zorder=2)
    if front.limit_bytes:
        _draw_limit(axes, front, front.limit_bytes / 2**20)


def _draw_limit(axes: Axes, front: Front, limit_mib: float) -> None:
    """Draws the limit as a line; one that is far off as an arrow at the edge, so that the points stay apart."""
    most = max((_memory_mib(front, row) for row in front.rows), default=limit_mib)
    if limit_mib <= _MAX_LIMIT_RATIO * most:
        axes.axvline(limit_mib, color="tab:red", linestyle="--", label="memory limit")
        return
    axes.plot([], [], color="tab:red", linestyle="--", label="memory limit")
    axes.text(
        0.99,
        0.01,
        f"limit {limit_mib:,.0f} MiB \u2192",
        color="tab:red",
        ha="right",
        va="bottom",
        transform=axes.transAxes,
    )


def _mark(axes: Axes, front: Front) -> None:
    for label, (marker, size) in _MARKS.items():
        for row in front.rows:
            if label in row.labels:
                at = (_memory_mib(front, row), row.measured.throughput_epochs_per_s)
                axes.scatter(
                    *at,
                    marker=marker,
                    s=size,
                    facecolors="none",
                    edgecolors="black",
                    linewidths=1.4,
                    label=label,
                    zorder=4,
                )
