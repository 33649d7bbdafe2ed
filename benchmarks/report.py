"""What benchmarks read, print and store: measurements, medians with ranges, and results, whole or line by line."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from a3gnn.machine.host import cpu_name
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import read_measurements, shipped_measurements
from a3gnn.threads.affinity import available_cores


def add_profiles(parser: argparse.ArgumentParser) -> None:
    """Adds the option `--profiles`, which `profiles` reads."""
    parser.add_argument("--profiles", type=Path, help="other measurements than those that ship")


def profiles(options: argparse.Namespace) -> list[Measurement]:
    """Returns the measurements that the option `--profiles` names, by default those that ship."""
    return list(read_measurements(options.profiles)) if options.profiles else shipped_measurements()


def median_and_range(values: Sequence[float], digits: int = 2) -> str:
    """Returns the median and, in brackets, the minimum and maximum."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def write_report(path: Path, **parts: Any) -> None:
    """Writes the machine and `parts` as JSON to `path`."""
    machine = {"processor": cpu_name(), "cores": available_cores()}
    path.write_text(json.dumps({"machine": machine, **parts}, indent=1) + "\n")


class ResultLines:
    """Results by key; one that is put again takes the place of the first.

    Args:
        path: Where they are; made, with its folder, where it is not there. A last line that an interruption cut short
            is left out, and cut off the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
            path.write_text("".join(lines), encoding="utf-8")
        entries = [json.loads(line) for line in lines]
        self._values = {tuple(entry["key"]): entry["value"] for entry in entries}

    def get(self, *key: str | int) -> Any:
        """Returns the result of `key` as JSON types, or None where there is none."""
        return self._values.get(key)

    def all(self) -> dict[tuple[str | int, ...], Any]:
        """Returns every result by its key, in the order in which keys were first put."""
        return dict(self._values)

    def put(self, *key: str | int, value: Any) -> None:
        """Keeps `value`, which JSON can hold and is not None, as the result of `key`."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": list(key), "value": value}) + "\n")
        self._values[key] = value
