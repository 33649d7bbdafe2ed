"""The document of one run: stored, read, joined, and printed 120 columns wide with its goals."""

from __future__ import annotations

import copy
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from a3gnn.machine.host import cpu_name
from a3gnn.storage.host_limits import host_memory_bytes
from a3gnn.threads.affinity import available_cores
from benchmarks.engine.client import ROOT
from benchmarks.engine.judge import Standing, Verdict, ms_of, standings
from benchmarks.engine.rows import CONTESTANTS, ROWS

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


_WIDTH = 120


def draw(report: Mapping[str, Any], verdicts: list[Verdict]) -> None:
    """Prints both tables, the limits and why something is missing."""
    console = Console(width=_WIDTH, highlight=False)
    console.print(_times(report))
    console.print("Cells: milliseconds per mini-batch, times a3gnn's, (sample/gather/model) run one after the other;")
    console.print("~ stands for the design's figure scaled by this machine's limits, where a peer was not measured.\n")
    console.print(_goals(verdicts))
    for line in notes(report):
        console.print(line, soft_wrap=True)


def notes(report: Mapping[str, Any]) -> list[str]:
    """Returns lines on the machine, its limits, and what is missing."""
    machine, limits = report["machine"], report["limits"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores; {limits['random_reads_per_s'] / 1e6:.0f} M random 4-byte reads/s "
        f"and {limits['copy_bytes_per_s'] / 1e9:.1f} GB/s copied, one thread, out of cache."
    ]
    for engine, found in report["versions"].items():
        lines.append(f"{engine}: " + ", ".join(f"{name} {version}" for name, version in found.items()))
    missing: dict[str, list[str]] = {
        f"{label}: {outcome['missing']}": [] for _, _, label, outcome in _outcomes(report) if outcome["missing"]
    }
    for row, graph, label, outcome in _outcomes(report):
        if outcome["missing"]:
            missing[f"{label}: {outcome['missing']}"].append(f"{row} {graph}")
    lines += [f"{reason} ({len(where)} of the cells)" for reason, where in missing.items()]
    for graph, shares in report["shares"].items():
        lines += [
            f"{work} on {graph}: distinct cache lines alone are {share['unavoidable_share']:.0%} of the limit"
            for work, share in shares.items()
            if "unavoidable_share" in share
        ]
    for row, graphs in report["rows"].items():
        for graph, outcomes in graphs.items():
            losses = [f"{label} {_last_loss(one):.2f}" for label, one in outcomes.items() if _losses(one)]
            lines += [f"loss at the end of {row} on {graph}: " + ", ".join(losses)] if losses else []
    lines += [f"{graph}: {reason}" for graph, reason in report["skipped"].items()]
    return lines


def _losses(outcome: Mapping[str, Any]) -> list[float]:
    return list(outcome["rounds"][-1]["loss"]) if outcome["rounds"] else []


def _last_loss(outcome: Mapping[str, Any]) -> float:
    return statistics.median(_losses(outcome))


def _outcomes(report: Mapping[str, Any]) -> list[tuple[str, str, str, Mapping[str, Any]]]:
    return [
        (row, graph, label, outcome)
        for row, graphs in report["rows"].items()
        for graph, outcomes in graphs.items()
        for label, outcome in outcomes.items()
    ]


def _times(report: Mapping[str, Any]) -> Table:
    table = Table(
        title="Milliseconds per mini-batch", title_justify="left", box=None, pad_edge=False, collapse_padding=True
    )
    for name, width in (("work", 16), ("graph", 13), ("a3gnn", 18), ("DGL", 20), ("PyG", 22), ("PyG CSR", 20)):
        table.add_column(name, overflow="ellipsis", no_wrap=True, min_width=width)
    for row in ROWS:
        for graph, outcomes in report["rows"].get(row.key, {}).items():
            found = standings(report, row, graph)
            ours = ms_of(outcomes["a3gnn"])
            cells = [
                _short(outcomes["a3gnn"]["missing"])
                if ours is None
                else _cell(f"{_ms(ours.median)}", outcomes["a3gnn"])
            ]
            cells += [_peer(outcomes.get(label), found.get(label)) for label in CONTESTANTS if label != "a3gnn"]
            table.add_row(row.label, graph, *cells)
    return table


def _peer(outcome: Mapping[str, Any] | None, standing: Standing | None) -> str:
    if outcome is None:
        return ""
    if standing is None:
        return _short(outcome["missing"])
    sign = "~" if standing.basis == "scaled" else ""
    return _cell(f"{sign}{_ms(standing.ms)} {standing.ratio.value:.1f}x", outcome)


def _cell(text: str, outcome: Mapping[str, Any]) -> str:
    stages = outcome["stages"]
    parts = [_brief(stages[name]) for name in ("sample", "gather", "model") if name in stages]
    return f"{text} ({'/'.join(parts)})" if len(parts) > 1 else text


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _brief(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _short(reason: str) -> str:
    first = reason.strip().splitlines()[-1] if reason.strip() else ""
    return first if len(first) <= 22 else first[:21] + "…"


def _goals(verdicts: list[Verdict]) -> Table:
    table = Table(title="Goals", title_justify="left", box=None, pad_edge=False, collapse_padding=True)
    for name in ("work", "graph", "against", "goal", "reached", "spread", "basis", ""):
        table.add_column(name, no_wrap=True, justify="right" if name in ("goal", "reached", "spread") else "left")
    for one in verdicts:
        reached = "-" if one.value is None else f"{one.value:.2f} {one.unit}"
        around = "" if one.value is None else f"{one.low:.2f} to {one.high:.2f}"
        said = "" if one.passed is None else "pass" if one.passed else "short"
        table.add_row(one.work, one.graph, one.against, one.goal, reached, around, _short(one.basis), said)
    return table
