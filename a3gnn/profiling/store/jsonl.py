"""Measurements as JSON lines: how profiles are shipped, exported and imported."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from a3gnn.errors import A3GNNError, StoreError
from a3gnn.measurement import Measurement
from a3gnn.storage.atomic import replacing


def write_measurements(path: str | Path, measurements: Iterable[Measurement]) -> int:
    """Writes one JSON object a line to `path` (gzip if it ends in .gz), and returns the number of lines.

    The file appears whole or not at all, and equal measurements give equal files.

    Raises:
        StoreError: It can't be written.
    """
    path = Path(path)
    lines = [json.dumps(measurement.to_dict(), sort_keys=True) + "\n" for measurement in measurements]
    content = "".join(lines).encode()
    try:
        with replacing(path) as draft:
            draft.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        raise StoreError(f"can't write the measurements to {path}: {error}; nothing was changed") from error
    return len(lines)


def read_measurements(path: str | Path) -> Iterator[Measurement]:
    """Yields the measurements of `write_measurements`.

    Raises:
        StoreError: The file can't be read, or a line is not a measurement; the message names the line.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise StoreError(
            f"can't read measurements from {path}: {error}; it must be JSON lines as a3gnn exports them"
        ) from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _parse(line, f"{path}, line {number}")


def _parse(line: str, place: str) -> Measurement:
    try:
        return Measurement.from_dict(json.loads(line))
    except (A3GNNError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{place}: not a measurement of this version of a3gnn: {error}") from error
