"""`Provenance`: the first line of an exported file, which says where the rows after it come from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from a3gnn._fields import from_fields
from a3gnn.errors import StoreError, UsageError
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement
from a3gnn.units import count, format_size
from a3gnn.version import __version__


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


_NAME = "provenance"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where exported rows come from.

    Attributes:
        a3gnn: The version that exported them.
        exported: When, ISO 8601, UTC.
        graphs: Names of their graphs.
        machines: What they were measured on.
        versions: Their measurement versions.
        measured: When the first and the last of them were made, ISO 8601, UTC; empty without rows.
        hashes: A hash of each row's line, in their order, by which a changed or lost row shows.
    """

    a3gnn: str
    exported: str
    graphs: tuple[str, ...]
    machines: tuple[str, ...]
    versions: tuple[int, ...]
    measured: tuple[str, ...]
    hashes: tuple[str, ...]

    @classmethod
    def of(cls, measurements: Sequence[Measurement], lines: Sequence[str]) -> Self:
        """Returns the provenance of `measurements`, which are exported now as `lines`, without their line ends."""
        made = sorted(row.created for row in measurements)
        return cls(
            a3gnn=__version__,
            exported=datetime.now(UTC).isoformat(timespec="seconds"),
            graphs=tuple(sorted({row.setting.graph.name for row in measurements})),
            machines=tuple(sorted({describe_machine(row.setting.hardware) for row in measurements})),
            versions=tuple(sorted({row.version for row in measurements})),
            measured=(made[0], made[-1]) if made else (),
            hashes=tuple(map(line_hash, lines)),
        )

    def to_line(self) -> str:
        """Returns the line of the file, without its end."""
        return json.dumps({_NAME: dataclasses.asdict(self)}, sort_keys=True)

    @classmethod
    def from_line(cls, line: str) -> Self | None:
        """Returns the provenance in `line`; None where it is none.

        Raises:
            StoreError: It is one of another version, or was changed.
        """
        try:
            fields: Any = json.loads(line)
        except ValueError:
            return None
        if not isinstance(fields, dict) or set(fields) != {_NAME}:
            return None
        try:
            return from_fields(cls, fields[_NAME])
        except (UsageError, AttributeError, TypeError) as error:
            raise StoreError(
                f"its first line must be the provenance of an export by this version of a3gnn: {error}; export again"
            ) from error


def line_hash(line: str) -> str:
    """Returns a hash of a row's line, without its end."""
    return hashlib.blake2b(line.encode(), digest_size=8).hexdigest()


def describe_machine(hardware: Hardware) -> str:
    """Returns what a machine is, beginning with its fingerprint."""
    device = f"{hardware.num_devices} x {hardware.device}" if hardware.has_device else "no GPU"
    label = f", labelled {hardware.label}" if hardware.label else ""
    return (
        f"{hardware.fingerprint} {hardware.cpu}, {count(hardware.num_cores, 'core')}, "
        f"{format_size(hardware.host_memory_bytes)}, {device}{label}"
    )
