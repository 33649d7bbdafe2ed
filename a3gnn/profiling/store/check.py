"""Checks files and stores of measurements, row by row; exports and imports their rows."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, StoreError
from a3gnn.measurement import MEASUREMENT_VERSION, Measurement
from a3gnn.profiling.store.jsonl import read_lines, write_measurements
from a3gnn.profiling.store.provenance import Provenance, line_hash
from a3gnn.profiling.store.store import ProfileStore, key_columns
from a3gnn.task import Task
from a3gnn.units import MOST_CHARACTERS, MOST_FAULTS

#: The fields of a row. It also has either metrics or a failure.
_FIELDS = {"config", "task", "graph", "hardware", "accuracy_budget", "seconds", "version", "created", "id"}
_OUTCOMES = {"metrics", "failure"}
#: Rows stored before measurements had ids lack these.
_OPTIONAL = {"id"}
#: The Python types that each annotation accepts.
_TYPES: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "str": (str,), "bool": (bool,)}
#: Metrics that must be positive, because their logarithm is fitted.
_POSITIVE = ("throughput_epochs_per_s", "peak_host_bytes")
#: The row of a fault that concerns the whole file.
_FILE = "file"


class Fault(NamedTuple):
    """A fault of a row.

    Attributes:
        row: `line 17` of a file, `row 17` of a store, or `file`.
        reason: The rule, and the value found.
    """

    row: str
    reason: str

    def describe(self) -> str:
        """Returns the fault as one line."""
        return f"{self.row}: {self.reason}"


class Checked(NamedTuple):
    """The result of a check."""

    sound: dict[str, Measurement]  # the measurements without faults by row, in order
    faults: tuple[Fault, ...]  # the faults of other rows, and of the whole file

    @property
    def num_rows(self) -> int:
        """Number of checked rows."""
        return len(self.sound) + len({fault.row for fault in self.faults} - {_FILE})

    def with_faults(self, faults: Iterable[Fault]) -> Checked:
        """Returns the result with further `faults`; their rows no longer count as sound."""
        more = tuple(faults)
        wrong = {fault.row for fault in more}
        return Checked({row: one for row, one in self.sound.items() if row not in wrong}, (*self.faults, *more))


class ExaminedRow(NamedTuple):
    """The result for one row."""

    measurement: Measurement | None  # the row's measurement; None if the row has a fault
    faults: tuple[str, ...] = ()  # the rule and the value found, for each fault


def check_file(path: str | Path, most_faults: int | None = None) -> Checked:
    """Checks a file of measurements, also against the hashes in its provenance if it has one.

    Args:
        path: The file.
        most_faults: The check ends after so many faults; None checks every row.

    Raises:
        StoreError: The file can't be read.
    """
    provenance, lines = read_lines(path)
    checked = _checked(((f"line {number}", text) for number, text in lines.items()), most_faults)
    ended = most_faults is not None and len(checked.faults) >= most_faults
    return checked if provenance is None or ended else checked.with_faults(_changed(provenance, lines))


def check_store(store: ProfileStore) -> Checked:
    """Checks the rows of a store, and the columns by which they are found.

    Raises:
        StoreError: The store can't be read.
    """
    rows = {f"row {row['id']}": row for row in store.raw_rows()}
    checked = _checked((name, row["payload"]) for name, row in rows.items())
    return checked.with_faults(
        Fault(name, f"column {column} must be {own}, as in the row's payload, got {rows[name][column]}")
        for name, measurement in checked.sound.items()
        for column, own in key_columns(measurement).items()
        if rows[name][column] != own
    )


def examine_row(text: str) -> ExaminedRow:
    """Returns the measurement in the JSON `text`, or all its faults.

    All fields must have the names, types and schema versions of a measurement, and numbers must be finite. The
    machine's fingerprint, and an id made from the row's content, must match their content.
    """
    try:
        return _examined(text)
    except RecursionError:
        return ExaminedRow(None, ("must not be nested as deeply as it is",))


def _examined(text: str) -> ExaminedRow:
    try:
        fields: Any = json.loads(text)
    except ValueError as error:
        return ExaminedRow(None, (f"must be JSON: {error}",))
    if not isinstance(fields, dict):
        return ExaminedRow(None, (f"must be a JSON object, got a {type(fields).__name__}",))
    faults = (*_names(fields), *_not_finite(fields))
    if faults:
        return ExaminedRow(None, faults)
    try:
        measurement = Measurement.from_dict(fields)
    except (A3GNNError, ValueError, TypeError, AttributeError) as error:
        return ExaminedRow(None, (str(error),))
    except KeyError as error:
        return ExaminedRow(None, (f"must have the field {error}",))
    faults = tuple(_mistyped(measurement)) or (*_out_of_range(measurement), *_hashes(measurement, fields))
    return ExaminedRow(None if faults else measurement, faults)


def export_rows(store: ProfileStore, path: Path) -> int:
    """Writes every row of `store` to `path`, with provenance, and returns the number of rows.

    Raises:
        StoreError: A row has a fault, or the file can't be written; nothing was changed.
    """
    found = check_store(store)
    _refuse(found, "nothing was exported; a3gnn profiles check names every fault")
    return write_measurements(path, found.sound.values(), provenance=True)


def import_rows(path: Path, place: str) -> tuple[int, int]:
    """Adds the rows of a file to a store, all or none; returns the number of added rows, and of rows in the file.

    A store holds one row per configuration, task, graph, hardware and version. An existing row stays, and a new one
    with the same key is left out.

    Args:
        path: The file.
        place: The store's path or SQLAlchemy URL. A missing store is made if the file is sound.

    Raises:
        StoreError: The file or a row has a fault, or the store can't be written; the store is unchanged.
    """
    found = check_file(path, MOST_FAULTS + 1)
    _refuse(found, f"nothing was imported; a3gnn profiles check {shlex.quote(str(path))} names every fault")
    with ProfileStore.open(place) as store:
        return store.add_missing(found.sound.values()), len(found.sound)


def _checked(rows: Iterable[tuple[str, str]], most_faults: int | None = None) -> Checked:
    """Checks `rows`, pairs of a name and a text, until there are `most_faults`."""
    sound: dict[str, Measurement] = {}
    faults: list[Fault] = []
    first: dict[str, tuple[str, str]] = {}
    for name, text in rows:
        measurement, reasons = examine_row(text)
        if measurement is not None:
            content = json.dumps(measurement.to_dict(), sort_keys=True)
            before, same = first.setdefault(measurement.id, (name, content))
            if same == content:
                sound[name] = measurement
            else:
                reasons = (f"must have an id of its own, got {measurement.id}, which {before} has with other content",)
        faults += [Fault(name, reason) for reason in reasons]
        if most_faults is not None and len(faults) >= most_faults:
            break
    return Checked(sound, tuple(faults))


def _changed(provenance: Provenance, lines: dict[int, str]) -> Iterator[Fault]:
    """Yields rows that were not exported as they are now, and the number of missing rows."""
    exported = set(provenance.hashes)
    for number, text in lines.items():
        if line_hash(text) not in exported:
            yield Fault(f"line {number}", f"must be as exported, got other content: {line_hash(text)}")
    if len(provenance.hashes) != len(lines):
        yield Fault(_FILE, f"must have the {len(provenance.hashes):,} exported rows, got {len(lines):,}")


def _names(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yields missing and unknown fields."""
    names = set(fields)
    for name in sorted(_FIELDS - _OPTIONAL - names):
        yield f"must have the field {name!r}"
    for name in sorted(names - _FIELDS - _OUTCOMES):
        yield f"must not have the field {name!r}"
    if len(names & _OUTCOMES) != 1:
        yield f"must have either metrics or a failure, got {' and '.join(sorted(names & _OUTCOMES)) or 'neither'}"


def _not_finite(value: Any, place: str = "") -> Iterator[str]:
    """Yields the places of numbers that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{place} must be finite, got {value}"
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _not_finite(inner, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _not_finite(inner, f"{place}[{number}]")


def _mistyped(found: Any, place: str = "") -> Iterator[str]:
    """Yields the fields of a dataclass, nested ones included, whose values do not have the declared type.

    Skips configurations and tasks, which check themselves.
    """
    for field in dataclasses.fields(found):
        value, name = getattr(found, field.name), f"{place}{field.name}"
        if isinstance(value, TrainConfig | Task):
            continue
        if dataclasses.is_dataclass(value):
            yield from _mistyped(value, f"{name}.")
        elif not _fits(value, str(field.type)):
            yield f"{name} must be {field.type}, got {value!r}"


def _fits(value: Any, declared: str) -> bool:
    """Returns whether `value` has a `declared` type; types other than plain ones were checked when they were made."""
    kind = declared.removesuffix(" | None")
    if value is None:
        return kind != declared
    if kind.startswith("tuple["):
        inner = kind.removeprefix("tuple[").split(",")[0]
        return isinstance(value, tuple) and all(_fits(one, inner) for one in value)
    if kind not in _TYPES:
        return True
    return isinstance(value, _TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))


def _out_of_range(row: Measurement) -> Iterator[str]:
    if not 1 <= row.version <= MEASUREMENT_VERSION:
        yield f"version must be in [1, {MEASUREMENT_VERSION}] for this a3gnn, got {row.version}"
    for name in _POSITIVE:
        value = getattr(row.metrics, name, None)
        if value is not None and value <= 0:
            yield f"metrics.{name} must be positive, got {value}"
    try:
        datetime.fromisoformat(row.created)
    except ValueError:
        yield f"created must be a time in ISO 8601, got {row.created!r}"
    if row.config != row.config.canonical():
        settled = row.config.canonical().to_dict()
        others = [name for name, value in row.config.to_dict().items() if value != settled[name]]
        yield f"config must be canonical, but idle knobs differ from their defaults: {', '.join(others)}"


def _hashes(row: Measurement, fields: Mapping[str, Any]) -> Iterator[str]:
    hardware = row.setting.hardware.fingerprint
    for name, stored, own in (
        ("hardware.fingerprint", fields["hardware"].get("fingerprint", hardware), hardware),
        ("id", fields.get("id") or row.id, row.id),
    ):
        if stored != own:
            yield f"{name} must be {own}, the hash of the row's content, got {stored}"


def _refuse(found: Checked, remedy: str) -> None:
    if found.faults:
        named = "; ".join(_shortened(fault.describe()) for fault in found.faults[:MOST_FAULTS])
        more = "; and there are more faults" if len(found.faults) > MOST_FAULTS else ""
        raise StoreError(f"{named}{more}: {remedy}")


def _shortened(text: str) -> str:
    """Returns a fault, which may quote a value of any length."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
