"""What the page of a training shows: its learning curve, and its figures beside those that the study promised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from a3gnn.errors import A3GNNError
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.metric import ACCURACY, Metric
from a3gnn.report.ratios import show_ratio, show_speed, shown
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.studies.study_files import FileCache
from a3gnn.training.tuned import TunedConfig
from a3gnn.units import count, format_seconds, format_size

#: Most points of a curve that a page draws. Guess: more than a screen has columns.
_MOST_POINTS = 1500
_kept = FileCache()


class Figure(NamedTuple):
    """A row of the table.

    Attributes:
        name: The figure.
        promised: The study's value as text; "" if it has none.
        reached: The training's value as text; "" before it is known.
        note: A text below it.
        range: A text below the promise.
    """

    name: str
    promised: str = ""
    reached: str = ""
    note: str = ""
    range: str = ""


def training_view(folder: JobFolder) -> dict[str, Any]:
    """Returns the content of a training's page as JSON types.

    Returns:
        epochs (finished ones); curve and promised (points of seconds and the shown metric); target (the shown metric,
        the seconds promised to it as median, low and high, and the seconds it took), or None; metric (label, unit and
        whether larger is better); and figures, the rows of the table.
    """
    promise = promise_of(folder)
    result = _result(folder)
    epochs = _epochs(folder)
    metric = _metric(promise, result)
    setup_s = _setup_s(promise, result, epochs)
    curve = _curve(epochs, setup_s, result)
    target = _target(promise, result, curve, metric)
    return {
        "epochs": len(epochs),
        "metric": {"label": metric.label, "unit": metric.unit, "larger": metric.larger_is_better},
        "curve": _shown(curve, metric),
        "promised": [] if promise is None else _shown(_promised_curve(promise), metric),
        "target": target,
        "ended": None if result is None else result["ended"],
        "figures": [row._asdict() for row in _figures(promise, result, epochs, curve, metric, target)],
    }


def promise_of(folder: JobFolder) -> TunedConfig | None:
    """Returns the choice that is trained, as the study measured it; None before the training has begun."""
    path = folder.choice
    try:
        return _kept.get("choice", path, lambda: TunedConfig.read(path))
    except (FileNotFoundError, A3GNNError):
        return None


def _result(folder: JobFolder) -> dict[str, Any] | None:
    path = folder.run / "result.json"
    try:
        found: dict[str, Any] = _kept.get("result", path, lambda: json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError):
        return None
    return found


def _epochs(folder: JobFolder) -> list[dict[str, Any]]:
    """Returns the finished epochs, as metrics.jsonl has them."""
    path = folder.run / "metrics.jsonl"

    def read() -> list[dict[str, Any]]:
        lines = path.read_bytes().split(b"\n")[:-1]  # without one that is being written
        return [json.loads(line) for line in lines]

    try:
        return _kept.get("epochs", path, read)
    except (FileNotFoundError, ValueError):
        return []


def _metric(promise: TunedConfig | None, result: dict[str, Any] | None) -> Metric:
    if result is not None:
        return Metric(**result["metric"])
    return ACCURACY if promise is None else promise.limits.metric


def _setup_s(promise: TunedConfig | None, result: dict[str, Any] | None, epochs: list[dict[str, Any]]) -> float:
    """Returns the seconds of set-up: the training's once it has ended with an epoch, else those that were promised."""
    if result is not None and result["ended"] != "target":
        return max(0.0, float(result["train_seconds"]) - sum(float(epoch["train_s"]) for epoch in epochs))
    return 0.0 if promise is None or promise.measured is None else promise.measured.pace.setup_s


def _curve(epochs: list[dict[str, Any]], setup_s: float, result: dict[str, Any] | None) -> list[tuple[float, float]]:
    """Returns seconds of training, set-up included, and validation quality after each epoch and at the end."""
    found, seconds = [], setup_s
    for epoch in epochs:
        seconds += epoch["train_s"]
        found.append((seconds, float(epoch["val_accuracy"])))
    if result is not None and result["ended"] == "target":
        found.append((result["train_seconds"], result["val_accuracy"]))
    return sorted(found)


def _promised_curve(promise: TunedConfig) -> list[tuple[float, float]]:
    """Returns seconds and quality of the study's own trial of the choice."""
    measured = promise.measured
    if measured is None or measured.curve is None:
        return []
    seconds = map(measured.pace.seconds, measured.curve.batches)
    return list(zip(seconds, measured.curve.val_accuracy, strict=True))


def _shown(points: list[tuple[float, float]], metric: Metric) -> list[tuple[float, float]]:
    """Returns at most `_MOST_POINTS` of the points, the last one among them, with the shown metric."""
    every = len(points) // _MOST_POINTS + 1
    return [(round(seconds, 4), round(metric.number(quality), 6)) for seconds, quality in points[::-1][::every][::-1]]


def _target(
    promise: TunedConfig | None, result: dict[str, Any] | None, curve: list[tuple[float, float]], metric: Metric
) -> dict[str, Any] | None:
    target = (
        promise.target_accuracy if result is None and promise is not None else (result or {}).get("target_accuracy")
    )
    if target is None:
        return None
    seconds = None if promise is None else promise.seconds_to_accuracy
    return {
        "value": metric.number(target),
        "shown": metric.show(target),
        "promised_s": None if seconds is None else [seconds[name] for name in ("median", "low", "high")],
        "reached_s": _seconds_to(target, result, curve),
    }


def _seconds_to(target: float, result: dict[str, Any] | None, curve: list[tuple[float, float]]) -> float | None:
    """Returns the seconds to the target: as the result has them, or the end of the first epoch that kept it so far."""
    if result is not None:
        found: float | None = result["seconds_to_accuracy"]
        return found
    epochs = LearningCurve(tuple(range(1, len(curve) + 1)), tuple(quality for _, quality in curve), CurveEnd.BUDGET)
    place = epochs.place_reaching(target)
    return None if place is None else curve[place][0]


def _figures(
    promise: TunedConfig | None,
    result: dict[str, Any] | None,
    epochs: list[dict[str, Any]],
    curve: list[tuple[float, float]],
    metric: Metric,
    target: dict[str, Any] | None,
) -> Iterator[Figure]:
    if target is not None:
        yield _seconds_row(target, result is not None)
    val_accuracy, test_accuracy = _promised_quality(promise)
    best = max((quality for _, quality in curve), default=None)
    yield Figure(
        f"validation {metric.label}",
        shown(val_accuracy, metric.show),
        shown(best if result is None else result["val_accuracy"], metric.show),
        "the best so far" if result is None and best is not None else "",
    )
    yield Figure(
        f"test {metric.label}",
        shown(test_accuracy, metric.show),
        shown(None if result is None else result["test_accuracy"], metric.show),
    )
    trained = None if promise is None else promise.trained
    spent = curve[-1][0] if curve else None
    yield Figure(
        "time of training",
        shown(None if trained is None else trained.seconds, format_seconds),
        shown(spent if result is None else result["train_seconds"], format_seconds),
        "" if result is None else f"{count(len(epochs), 'epoch')}",
    )
    yield from _measured(promise, result, epochs)


def _promised_quality(promise: TunedConfig | None) -> tuple[float | None, float | None]:
    """Returns the choice's validation and test quality: trained to the end, or else as far as its trial went."""
    if promise is None:
        return None, None
    final = (promise.final or {}).get("other")
    if final is not None:
        return final["val_accuracy"], final["test_accuracy"]
    measured = promise.measured
    if measured is None or measured.curve is None:
        return None, None
    return max(measured.curve.val_accuracy, default=None), measured.test_accuracy


def _seconds_row(target: dict[str, Any], has_ended: bool) -> Figure:
    promised = between = ""
    if target["promised_s"] is not None:
        promised, low, high = map(format_seconds, target["promised_s"])
        between = f"{low} to {high}"
    reached, note = target["reached_s"], ""
    if reached is not None and target["promised_s"] is not None:
        over = reached / target["promised_s"][0]
        note = f"{show_ratio(over)} the promise" if has_ended else "by the end of its epoch"
    return Figure(
        f"time to {target['shown']}",
        promised,
        format_seconds(reached) if reached is not None else "not reached" if has_ended else "not yet",
        note,
        between,
    )


def _measured(
    promise: TunedConfig | None, result: dict[str, Any] | None, epochs: list[dict[str, Any]]
) -> Iterator[Figure]:
    """Yields speed and memory, beside what the study measured."""
    before = None if promise is None else promise.measured
    speeds = sorted(epoch["epochs_per_s"] for epoch in epochs)
    speed = result["throughput_epochs_per_s"] if result is not None else speeds[len(speeds) // 2] if speeds else None
    yield Figure(
        "epochs per second",
        shown(None if before is None else before.throughput_epochs_per_s, show_speed),
        shown(speed, show_speed),
        _over(speed, None if before is None else before.throughput_epochs_per_s),
    )
    name = "peak_device_bytes" if before is not None and before.peak_device_bytes else "peak_host_bytes"
    most = None if before is None else getattr(before, name)
    took = None if result is None else result[name]
    yield Figure("peak memory", shown(most, format_size), shown(took, format_size), _over(took, most))


def _over(found: float | None, before: float | None) -> str:
    return f"{show_ratio(found / before)} the study's" if found and before else ""
