"""Files and stores of measurements, checked row by row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from a3gnn.measurement import Measurement
from a3gnn.profiling.store.examined_row import examine_row
from a3gnn.profiling.store.jsonl import read_lines
from a3gnn.profiling.store.provenance import Provenance, line_hash
from a3gnn.profiling.store.store import ProfileStore, key_columns

#: The name of what is wrong with a file as a whole.
_FILE = "file"


class Fault(NamedTuple):
    """What is wrong with a row.

    Attributes:
        row: Which: `line 17` of a file, `row 17` of a store, or `file`.
        reason: The rule, and what was found.
    """

    row: str
    reason: str

    def describe(self) -> str:
        """Returns it in a line."""
        return f"{self.row}: {self.reason}"


class Checked(NamedTuple):
    """What a check found.

    Attributes:
        sound: The measurements with which nothing is wrong, by their row, in their order.
        faults: What is wrong with others, and with the file as a whole.
    """

    sound: dict[str, Measurement]
    faults: tuple[Fault, ...]

    @property
    def num_rows(self) -> int:
        """Rows that were looked at."""
        return len(self.sound) + len({fault.row for fault in self.faults} - {_FILE})

    def with_faults(self, faults: Iterable[Fault]) -> Checked:
        """Returns it with further `faults`, whose rows are no longer sound."""
        more = tuple(faults)
        wrong = {fault.row for fault in more}
        return Checked({row: one for row, one in self.sound.items() if row not in wrong}, (*self.faults, *more))


def check_file(path: str | Path) -> Checked:
    """Returns what is sound and what is wrong in a file of measurements; where it has provenance, by its hashes too.

    Raises:
        StoreError: The file can't be read.
    """
    provenance, lines = read_lines(path)
    checked = _checked((f"line {number}", text) for number, text in lines.items())
    return checked if provenance is None else checked.with_faults(_changed(provenance, lines))


def check_store(store: ProfileStore) -> Checked:
    """Returns what is sound and what is wrong in a store: rows, and the columns by which they are found.

    Raises:
        StoreError: It can't be read.
    """
    rows = {f"row {row['id']}": row for row in store.raw_rows()}
    checked = _checked((name, row["payload"]) for name, row in rows.items())
    return checked.with_faults(
        Fault(name, f"column {column} must be {own}, of what the row holds, got {rows[name][column]}")
        for name, measurement in checked.sound.items()
        for column, own in key_columns(measurement).items()
        if rows[name][column] != own
    )


def _checked(rows: Iterable[tuple[str, str]]) -> Checked:
    """Returns what is sound and what is wrong in `rows`: each one's name and text."""
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
                reasons = (f"must have an id of its own, got {measurement.id}, that of {before}, which differs",)
        faults += [Fault(name, reason) for reason in reasons]
    return Checked(sound, tuple(faults))


def _changed(provenance: Provenance, lines: dict[int, str]) -> Iterator[Fault]:
    """Yields which rows are none of those that were exported, and how many of these are missing."""
    exported = set(provenance.hashes)
    for number, text in lines.items():
        if line_hash(text) not in exported:
            yield Fault(f"line {number}", f"must be as it was exported, got another content: {line_hash(text)}")
    if len(provenance.hashes) != len(lines):
        yield Fault(_FILE, f"must hold the {len(provenance.hashes):,} rows that were exported, got {len(lines):,}")
