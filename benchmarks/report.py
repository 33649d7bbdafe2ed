"""What benchmarks print and store: a median with its range, and results with the machine they were measured on."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from a3gnn.machine.processor import cpu_name
from a3gnn.threads.affinity import available_cores


def median_and_range(values: Sequence[float], digits: int = 2) -> str:
    """Returns the median and, in brackets, the minimum and maximum."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def write_report(path: Path, **parts: Any) -> None:
    """Writes the machine and `parts` as JSON to `path`."""
    machine = {"processor": cpu_name(), "cores": available_cores()}
    path.write_text(json.dumps({"machine": machine, **parts}, indent=1) + "\n")
