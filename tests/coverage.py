"""`python -m tests.coverage`: the share of lines that tests ran, by room, as a Markdown table from the thinnest.

`make coverage` measures. Compiled kernels (`@njit`) run where no line is counted; they are left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).parents[1]


def rooms(report: Path) -> dict[str, tuple[int, int]]:
    """Returns the covered and all statements of each room: a folder of a3gnn/, its own files, or a package beside it.

    Args:
        report: The JSON report of coverage.
    """
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        parts = Path(name).parts
        room = "vocabulary" if parts[0] == "a3gnn" and len(parts) == 2 else parts[1]
        found[room][0] += file["summary"]["covered_lines"]
        found[room][1] += file["summary"]["num_statements"]
    return {room: (covered, lines) for room, (covered, lines) in found.items() if lines}


def table(found: dict[str, tuple[int, int]]) -> str:
    """Returns the rooms from the lowest share to the highest, and all of them together."""
    ordered = sorted(found.items(), key=lambda row: row[1][0] / row[1][1])
    both = (sum(covered for covered, _ in found.values()), sum(lines for _, lines in found.values()))
    rows = [f"| {room} | {covered / lines:.1%} | {lines} |" for room, (covered, lines) in [*ordered, ("all", both)]]
    return "\n".join(["| room | lines run | lines |", "|---|---|---|", *rows])


if __name__ == "__main__":
    measured = Coverage(config_file=str(ROOT / "pyproject.toml"))
    measured.load()
    measured.json_report(outfile=str(ROOT / "build" / "coverage.json"))
    print(table(rooms(ROOT / "build" / "coverage.json")))
