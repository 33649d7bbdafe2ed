"""The document of one run, which is stored, printed and compared with the goals."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from a3gnn.machine.processor import cpu_name
from a3gnn.storage.host_memory import host_memory_bytes
from a3gnn.threads.affinity import available_cores
from benchmarks.engine.client import ROOT

FORMAT = 1


def new_report(effort: dict[str, Any]) -> dict[str, Any]:
    """Returns an empty document with this machine and the date."""
    return {
        "format": FORMAT,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpu": cpu_name(), "cores": available_cores(), "memory_bytes": host_memory_bytes()},
        "effort": effort,
        "versions": {},
        "skipped": {},
        "graphs": {},
        "limits": {},
        "rows": {},
        "shares": {},
        "first_batch": {},
        "memory": {},
        "growth": {"graph": "", "by_epoch": []},
        "verdicts": [],
    }


def default_path(report: dict[str, Any]) -> Path:
    """Returns the default path of the document."""
    cpu = re.sub(r"[^A-Za-z0-9]+", "-", report["machine"]["cpu"]).strip("-").lower()
    return ROOT / "benchmarks" / "results" / f"engine-{cpu}-{report['date'][:10]}.json"


def write_report(report: dict[str, Any], path: Path) -> None:
    """Writes the document as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def read_report(path: Path) -> dict[str, Any]:
    """Returns a stored document.

    Raises:
        ValueError: It is of another format.
    """
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if report.get("format") != FORMAT:
        raise ValueError(f"{path} must have format {FORMAT}, got {report.get('format')!r}; measure again")
    return report


def merged(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the document of several runs on one machine, such as one per graph or row; later ones only fill gaps.

    Raises:
        ValueError: They are of different machines, versions or efforts.
    """
    whole = copy.deepcopy(reports[0])
    for report in reports[1:]:
        for name in ("machine", "effort", "versions"):
            if report[name] != whole[name]:
                raise ValueError(f"runs shown together must have one {name}, got {whole[name]} and {report[name]}")
        for name in ("skipped", "graphs", "shares", "first_batch", "memory"):
            whole[name] = report[name] | whole[name]
        for key, by_graph in report["rows"].items():
            whole["rows"][key] = by_graph | whole["rows"].get(key, {})
        if report["limits"].get("entries", 0) > whole["limits"].get("entries", 0):
            whole["limits"] = report["limits"]
        if not whole["growth"]["by_epoch"]:
            whole["growth"] = report["growth"]
    return whole
