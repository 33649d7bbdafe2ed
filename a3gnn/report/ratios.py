"""Figures in words: speed, seconds, memory, quality, and how they differ. All views take them from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from a3gnn.figures import Figures, Spread
from a3gnn.metric import Metric
from a3gnn.units import format_size

T = TypeVar("T")


class FigureTexts(NamedTuple):
    """The figures of a configuration as text: epochs per second, seconds to the target, memory and quality."""

    throughput: str
    seconds: str
    memory: str
    quality: str

    @classmethod
    def of(cls, figures: Figures, memory: str, metric: Metric) -> FigureTexts:
        """Returns the texts of `figures`, with the memory metric of this name."""
        size = format_size(getattr(figures, memory))
        return cls(show_throughput(figures), show_seconds(figures), size, show_quality(figures, metric))


def show_speed(epochs_per_s: float) -> str:
    """Returns epochs per second: `7.96`."""
    return f"{epochs_per_s:.3g}"


def show_throughput(figures: Figures) -> str:
    """Returns the median throughput and the range of the replicates: `7.96 (7.8 to 8.2)`."""
    low, high = show_speed(figures.throughput_low), show_speed(figures.throughput_high)
    median = show_speed(figures.throughput_epochs_per_s)
    return median if low == high else f"{median} ({low} to {high})"


def show_seconds(figures: Figures, unit: str = "") -> str:
    """Returns the seconds to the target and `unit`: `1.65`, `not reached`, or the seeds with it: `1 of 2 seeds`."""
    if figures.seconds_to_accuracy is not None:
        return f"{figures.seconds_to_accuracy:.3g}{unit}"
    reached = figures.seeds - figures.seeds_missed
    return f"{reached} of {figures.seeds} seeds" if figures.seeds_missed and reached else "not reached"


def show_quality(figures: Figures, metric: Metric) -> str:
    """Returns the validation quality, with `>=` if it is a lower bound: `>= 78.75%`."""
    if figures.val_accuracy is None:
        return "no"
    return (metric.show if figures.complete else metric.show_at_least)(figures.val_accuracy)


def show_ratio(ratio: float) -> str:
    """Returns a ratio: `1.48x`."""
    return f"{ratio:.2f}x"


def show_percent(ratio: float) -> str:
    """Returns a ratio as a change in percent: `+5%`, `-12%`, or `0%`."""
    change = round(100 * (ratio - 1))
    return f"{change:+d}%" if change else "0%"


def show_points(points: float | Spread, metric: Metric) -> str:
    """Returns a difference of qualities in points, with its range: `+0.31 points (-0.10 to +0.52)`."""
    spread = points if isinstance(points, Spread) else Spread(points, points, points, 1)
    return spread.describe("+.2f", f" {'points' if metric.scale is None else f'points of {metric.scale / 100:.3g}'}")


def shown(value: T | None, show: Callable[[T], str], unknown: str = "") -> str:
    """Returns `show(value)`, or `unknown` without a value."""
    return unknown if value is None else show(value)


def describe_figures(figures: Figures, memory: str, speed: str, metric: Metric, target: float | None = None) -> str:
    """Returns speed, memory and validation quality of `figures` in one line.

    An example: `3.7 s to 87.20% · 7.96 (7.8 to 8.2) epochs/s · 300 MiB · >= 87.20% validation accuracy`. The seconds
    come first if they are the `speed`, and are left out without a target.

    Args:
        figures: Figures of a configuration.
        memory: Name of the memory metric.
        speed: Name of the speed metric.
        metric: Metric of the quality.
        target: The validation quality to reach, if known.
    """
    texts = FigureTexts.of(figures, memory, metric)
    parts = [f"{texts.throughput} epochs/s", texts.memory, f"{texts.quality} validation {metric.label}"]
    by_seconds = speed == "seconds_to_accuracy"
    if by_seconds or target is not None or figures.seconds_to_accuracy is not None:
        goal = metric.label if target is None else metric.show(target)
        parts.insert(0 if by_seconds else 1, _seconds_to(figures, goal))
    return " · ".join(parts)


def _seconds_to(figures: Figures, target: str) -> str:
    text = show_seconds(figures, f" s to {target}")
    if figures.seconds_to_accuracy is not None:
        return text
    return f"{target} {text if text == 'not reached' else f'reached with {text}'}"
