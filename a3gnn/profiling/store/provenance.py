"""`Provenance`: the first line of an exported file, which describes the origin of its rows."""

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

_NAME = "provenance"


class Holding(NamedTuple):
    """The stored measurements of one graph and model on one machine.

    Attributes:
        graph: The graph's name.
        model: The model's name.
        hardware: The machine.
        rows: Number of measurements.
        failed: Number of failures among them.
        versions: Their measurement versions.
        measured: Times of the first and the last measurement, ISO 8601, UTC.
    """

    graph: str
    model: str
    hardware: Hardware
    rows: int
    failed: int
    versions: tuple[int, ...]
    measured: tuple[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types, with the machine's fingerprint as `hardware`."""
        return self._asdict() | {"hardware": self.hardware.fingerprint}


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of exported rows."""

    a3gnn: str  # the version that exported them
    exported: str  # time of the export, ISO 8601, UTC
    graphs: tuple[str, ...]  # names of their graphs
    machines: tuple[str, ...]  # descriptions of their machines
    versions: tuple[int, ...]  # their measurement versions
    measured: tuple[str, ...]  # times of the first and the last measurement, ISO 8601, UTC; empty without rows
    hashes: tuple[str, ...]  # a hash of each row's line, in order, which shows changed and lost rows

    @classmethod
    def of(cls, measurements: Sequence[Measurement], lines: Sequence[str]) -> Self:
        """Returns the provenance of `measurements`, exported now as `lines` without line ends."""
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
        """Returns the file's first line, without its end."""
        return json.dumps({_NAME: dataclasses.asdict(self)}, sort_keys=True)

    @classmethod
    def from_line(cls, line: str) -> Self | None:
        """Returns the provenance in `line`; None if it is another kind of line.

        Raises:
            StoreError: The provenance is of another version, or was changed.
        """
        try:
            fields: Any = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(fields, dict) or set(fields) != {_NAME}:
            return None
        try:
            return from_fields(cls, fields[_NAME])
        except (UsageError, AttributeError, TypeError) as error:
            raise StoreError(
                f"the first line must be the provenance of an export by this version of a3gnn: {error}; export again"
            ) from error


def holdings(measurements: Iterable[Measurement]) -> list[Holding]:
    """Groups measurements by graph, model and machine, in the order of their first rows; holds one at a time."""
    groups: dict[tuple[str, str, str], Holding] = {}
    for row in measurements:
        setting = row.setting
        key = (setting.graph.fingerprint, setting.task.model, setting.hardware.fingerprint)
        one = Holding(
            graph=setting.graph.name,
            model=setting.task.model,
            hardware=setting.hardware,
            rows=1,
            failed=int(row.metrics is None),
            versions=(row.version,),
            measured=(row.created, row.created),
        )
        groups[key] = _joined(groups[key], one) if key in groups else one
    return list(groups.values())


def line_hash(line: str) -> str:
    """Returns a hash of a row's line, without its end."""
    return hashlib.blake2b(line.encode(), digest_size=8).hexdigest()


def describe_machine(hardware: Hardware) -> str:
    """Describes a machine in a line that begins with its fingerprint."""
    return f"{hardware.fingerprint} {machine_words(hardware)}"


def machine_words(hardware: Hardware) -> str:
    """Describes a machine in a line."""
    device = f"{hardware.num_devices} x {hardware.device}" if hardware.has_device else "no GPU"
    label = f", labeled {hardware.label}" if hardware.label else ""
    return (
        f"{hardware.cpu}, {count(hardware.num_cores, 'core')}, "
        f"{format_size(hardware.host_memory_bytes)}, {device}{label}"
    )


def _joined(one: Holding, other: Holding) -> Holding:
    return one._replace(
        rows=one.rows + other.rows,
        failed=one.failed + other.failed,
        versions=tuple(sorted({*one.versions, *other.versions})),
        measured=(min(one.measured[0], other.measured[0]), max(one.measured[1], other.measured[1])),
    )
