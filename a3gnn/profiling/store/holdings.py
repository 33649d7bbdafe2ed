"""`holdings`: what a store or a file of measurements holds, by graph, task and machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement


class Holding(NamedTuple):
    """Measurements of one graph and model on one machine.

    Attributes:
        graph: The graph's name.
        model: What was trained.
        hardware: The machine.
        rows: How many measurements there are.
        failed: How many of them failed.
        versions: Their measurement versions.
        measured: When the first and the last of them were made, ISO 8601, UTC.
    """

    graph: str
    model: str
    hardware: Hardware
    rows: int
    failed: int
    versions: tuple[int, ...]
    measured: tuple[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types; of the machine its fingerprint."""
        return self._asdict() | {"hardware": self.hardware.fingerprint}


def holdings(measurements: Iterable[Measurement]) -> list[Holding]:
    """Returns what there is of each graph, model and machine, in the order of their first rows."""
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for row in measurements:
        setting = row.setting
        key = (setting.graph.fingerprint, setting.task.model, setting.hardware.fingerprint)
        groups.setdefault(key, []).append(row)
    return [_holding(rows) for rows in groups.values()]


def _holding(rows: list[Measurement]) -> Holding:
    made = sorted(row.created for row in rows)
    return Holding(
        graph=rows[0].setting.graph.name,
        model=rows[0].setting.task.model,
        hardware=rows[0].setting.hardware,
        rows=len(rows),
        failed=sum(row.metrics is None for row in rows),
        versions=tuple(sorted({row.version for row in rows})),
        measured=(made[0], made[-1]),
    )
