"""The knobs of a study, with the values that its trials had."""

from __future__ import annotations

from typing import Any

from a3gnn.config import KNOBS
from a3gnn.domains import Size
from a3gnn.knobs import TASKS, Knob
from a3gnn.page.stored_study import Measured
from a3gnn.units import format_size


def knob_views(measured: Measured) -> list[dict[str, Any]]:
    """Returns a dict per knob: its values in the trials in order, what each is called, and whether they differ."""
    return [_knob(knob, [getattr(trial.measurement.config, knob.name) for trial in measured.trials]) for knob in KNOBS]


def _knob(knob: Knob, found: list[Any]) -> dict[str, Any]:
    values = sorted(set(found), key=lambda value: _order(knob, value))
    return {
        "name": knob.name,
        "help": knob.help,
        "default": knob.default,
        "values": values,
        "texts": [_text(knob, value) for value in values],
        "differs": len(values) > 1,
    }


def _order(knob: Knob, value: Any) -> Any:
    """Returns what values are ordered by: choices as they are declared; what the task has comes last."""
    if isinstance(value, str):
        return knob.values.index(value) if value in knob.values else len(knob.values)
    return float("inf") if value is None else value


def _text(knob: Knob, value: Any) -> str:
    if value is None:
        return f"the {TASKS}'s"
    if isinstance(knob.domain, Size):
        return format_size(value) if value else "none"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
