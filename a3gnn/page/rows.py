"""The trials of a study as rows: what ran, what it found, how it is judged, and its learning curve over seconds."""

from __future__ import annotations

import dataclasses
from typing import Any

from a3gnn.measurement import Failure
from a3gnn.page.stored_study import Measured
from a3gnn.report.text import describe_config, show_quality, show_seconds, show_throughput
from a3gnn.units import format_size


def row_views(measured: Measured) -> list[dict[str, Any]]:
    """Returns a dict per trial, in their order; `docs/report.md` says what it holds."""
    return [_row(measured, index) for index in range(len(measured.trials))]


def _row(measured: Measured, index: int) -> dict[str, Any]:
    trial = measured.trials[index]
    measurement = trial.measurement
    outcome = measurement.outcome
    found: dict[str, Any] = {
        "index": index,
        "name": measured.names[index],
        "reason": trial.reason,
        "config": measurement.config.to_dict(),
        "describe": describe_config(measurement.config),
        "took_s": measurement.seconds,
        "created": measurement.created,
        "failure": None,
    }
    if isinstance(outcome, Failure):
        return found | {"failure": {"kind": outcome.kind, "said": outcome.describe(), "detail": outcome.detail}}
    return found | _figures(measured, index) | {"curve": _curve(measured, index)}


def _figures(measured: Measured, index: int) -> dict[str, Any]:
    """Returns what a trial that succeeded reached, in numbers and in words, and what is to be said of it."""
    front, row = measured.front, measured.rows[index]
    figures = row.measured
    shown = None if figures.val_accuracy is None else front.metric.number(figures.val_accuracy)
    return {
        "figures": dataclasses.asdict(figures),
        "shown_quality": shown,
        "text": {
            "throughput": show_throughput(figures),
            "seconds": show_seconds(figures),
            "memory": format_size(getattr(figures, front.memory)),
            "quality": show_quality(figures, front.metric),
        },
        "feasible": row.feasible,
        "on_front": row.on_front,
        "compared": row.compared,
        "labels": list(row.labels),
        "broken": [breach.describe() for breach in row.broken],
        "broken_limits": [breach.name for breach in row.broken],
        "note": row.note,
        "in_play_off": row.in_play_off,
    }


def _curve(measured: Measured, index: int) -> dict[str, Any] | None:
    """Returns what is known of the learning curve of a trial's configuration, at the trial's own pace."""
    config, metrics = measured.rows[index].config, measured.judged[index].metrics
    known = [curve for curve in (measured.history.curve(config), metrics.curve) if curve is not None]
    if not known:
        return None
    curve = max(known, key=lambda one: one.trained)
    return {
        "seconds": [metrics.pace.seconds(batches) for batches in curve.batches],
        "shown": [measured.front.metric.number(quality) for quality in curve.val_accuracy],
        "ended": curve.ended,
    }
