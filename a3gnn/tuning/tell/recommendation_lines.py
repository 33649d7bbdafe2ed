"""The lines that show a recommendation, in at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from a3gnn.figures import Spread
from a3gnn.report.ratios import shown
from a3gnn.report.text import configuration, row, wrapped
from a3gnn.task import MODEL_LABELS
from a3gnn.tuning.beliefs.recommendation import Interval, Recommendation
from a3gnn.units import format_size


def recommendation_lines(found: Recommendation) -> Iterator[str]:
    """Yields the recommended configuration and the default, the predictions for both, and what is not known."""
    setting = found.setting
    model = MODEL_LABELS.get(setting.task.model, setting.task.model)
    yield from wrapped(f"Predicted for {model} on {setting.graph.name}, without a trial")
    yield ""
    yield from wrapped(setting.task.describe(), f"{'model':<13}", " " * 13)
    yield from configuration("recommended", found.best.config)
    if found.config == found.default.config:
        yield from wrapped("No other configuration is predicted to beat the baseline by this priority.")
    yield ""
    yield row("predicted", ("recommended", "baseline"))
    for label, *cells in _figures(found):
        yield row(label, cells)
    yield ""
    yield from wrapped("In brackets: the range of nine in ten measurements, as predicted.")
    yield from wrapped(found.corpus.describe())
    if found.unknown:
        yield "Uncertain:"
        for line in found.unknown:
            yield from wrapped(line, "  - ", "    ")
    yield from wrapped("a3gnn tune measures before it chooses.")


def _figures(found: Recommendation) -> Iterator[tuple[str, ...]]:
    """Yields rows of a label, the prediction for the recommended configuration, and for the default."""
    pair = found.best, found.default
    yield "epochs/s", *(_interval(one.throughput_epochs_per_s) for one in pair)
    yield "  over the baseline", *(Spread(*one.throughput_over_default, 2).describe(".3g", "x") for one in pair)
    if found.setting.hardware.has_device:
        yield "device memory", *(_sizes(one.peak_device_bytes) for one in pair)
        yield from _within(found, "device_bytes")
    yield "host memory", *(_sizes(one.peak_host_bytes) for one in pair)
    yield from _within(found, "host_bytes")
    label = found.setting.metric.label
    yield f"{label}, points gained", *(_points(one.accuracy_beside_default) for one in pair)
    yield f"  loses at most {found.request.max_accuracy_drop:g}", *_kept(found, "least_accuracy")
    if found.best.seconds_to_accuracy is not None:
        yield f"seconds to {label}", *(shown(one.seconds_to_accuracy, _interval, "unknown") for one in pair)
    yield f"time to {label}", *(_sooner(one.seconds_over_default) for one in pair)


def _within(found: Recommendation, limit: str) -> Iterator[tuple[str, ...]]:
    """Yields the probability of keeping a memory limit, if it is set."""
    allowed = getattr(found.limits, limit)
    if allowed is not None:
        yield f"  within {format_size(allowed)}", *_kept(found, limit)


def _kept(found: Recommendation, limit: str) -> tuple[str, str]:
    best, default = (f"with probability {one.keeps[limit]:.2f}" for one in (found.best, found.default))
    return best, default


def _interval(interval: Interval, unit: str = "") -> str:
    """Returns text such as `2.4 (1.6 to 3.5)`, followed by the unit."""
    if interval.low == interval.high:
        return f"{_number(interval.mean)}{unit}"
    return f"{_number(interval.mean)} ({_number(interval.low)} to {_number(interval.high)}){unit}"


def _sooner(interval: Interval) -> str:
    """Returns the ratio of the baseline's seconds to its own, as all commands show it; `interval` is the inverse."""
    mean, low, high = interval
    return "1x" if mean == 1 else Spread(1 / mean, 1 / high, 1 / low, 2).sooner(".3g")


def _points(interval: Interval) -> str:
    if interval.low == interval.high == 0:
        return "0"
    return Spread(interval.mean, interval.low, interval.high, 2).describe("+.1f")


def _sizes(interval: Interval | None) -> str:
    """Returns text such as `312 (290 to 336) MiB`, in the unit of the mean."""
    assert interval is not None, "it is shown where there is such memory"
    unit = format_size(interval.mean).split()[1]
    scale = 1024.0 ** ("B", "KiB", "MiB", "GiB", "TiB").index(unit)
    return _interval(interval.scaled(1 / scale), f" {unit}")


def _number(value: float) -> str:
    """Returns `value` with three digits, or with all digits before the point if there are more."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"
