"""Measurements as JSON lines: the format of shipped, exported and imported profiles."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from a3gnn.errors import A3GNNError, StoreError
from a3gnn.launch import QUICK
from a3gnn.measurement import Measurement, distinct
from a3gnn.profiling.store.provenance import Provenance
from a3gnn.storage.atomic import replacing

#: Shipped measurements that are learned from: all, or the first, of ten graphs, which fit in a fifth of the time.
_MOST_SHIPPED = 150 if QUICK else None
#: The shipped measurements of graphs with types and links.
_TYPED = "typed.jsonl.gz"


class RowLines(NamedTuple):
    """The unparsed lines of a file of measurements."""

    provenance: Provenance | None  # the origin of the rows, if the file states it
    rows: dict[int, str]  # each row's line, by its number in the file, from 1 on


def write_measurements(path: str | Path, measurements: Iterable[Measurement], *, provenance: bool = False) -> int:
    """Writes one JSON object per line to `path` (gzip if it ends in .gz), and returns the number of rows.

    The file appears whole or not at all. Without provenance, equal measurements give equal files.

    Args:
        path: The file.
        measurements: Its rows.
        provenance: Begin with a line that states the origin of the rows and holds their hashes.

    Raises:
        StoreError: The file can't be written.
    """
    path, rows = Path(path), list(measurements)
    lines = [json.dumps(measurement.to_dict(), sort_keys=True) for measurement in rows]
    head = [Provenance.of(rows, lines).to_line()] if provenance else []
    content = "".join(f"{line}\n" for line in (*head, *lines)).encode()
    try:
        with replacing(path) as draft:
            draft.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        raise StoreError(f"can't write the measurements to {path}: {error}; nothing was changed") from error
    return len(lines)


def read_lines(path: str | Path) -> RowLines:
    """Returns the lines of a file that `write_measurements` wrote; empty ones are left out.

    Raises:
        StoreError: The file can't be read.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise StoreError(
            f"can't read measurements from {path}: {error}; the file must be JSON lines that a3gnn exported"
        ) from error
    rows = {number: line for number, line in enumerate(lines, start=1) if line.strip()}
    try:
        provenance = Provenance.from_line(lines[0]) if lines else None
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error
    if provenance is not None:
        del rows[1]
    return RowLines(provenance, rows)


def read_measurements(path: str | Path) -> Iterator[Measurement]:
    """Yields the measurements in a file of `write_measurements`.

    Raises:
        StoreError: The file can't be read, or a line is not a measurement; the message names the line.
    """
    for number, line in read_lines(path).rows.items():
        yield _parse(line, f"{path}, line {number}")


def shipped_profiles() -> Path | None:
    """Returns the folder of the shipped profiles, in a built package or beside it in a checkout; None if missing."""
    package = Path(__file__).parents[2]
    folders = (package / "_profiles", package.parent / "profiles")
    return next((folder for folder in folders if folder.is_dir()), None)


def shipped_measurements(typed: bool = False) -> list[Measurement]:
    """Returns every shipped measurement once, with files in the order of their names; empty if none are shipped.

    Where `a3gnn.launch.QUICK` holds, only the first ones.

    Args:
        typed: Whether also the measurements of graphs with types and links: only such graphs' predictions use them.
    """
    folder = shipped_profiles()
    files = [file for file in sorted(folder.glob("*.jsonl.gz")) if typed or file.name != _TYPED] if folder else []
    return distinct(islice(chain.from_iterable(map(read_measurements, files)), _MOST_SHIPPED))


def _parse(line: str, place: str) -> Measurement:
    try:
        return Measurement.from_dict(json.loads(line))
    except (A3GNNError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{place} is not a measurement of this version of a3gnn: {error}") from error
