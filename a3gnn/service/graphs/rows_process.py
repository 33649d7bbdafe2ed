"""The process that adds measurements to the store: `python -m a3gnn.service.graphs.rows_process`.

`a3gnn.service.graphs.examiner` starts it. It reads one JSON object from stdin:

    {"parent": PID, "path": PATH, "store": PATH or URL, "most_bytes": N}

It checks the rows of the file, adds all of them or none, and writes the result to stdout: {"added": N, "rows": N}, or
{"error": PROBLEM}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a3gnn.errors import StoreError
from a3gnn.service.graphs.examiner import answer_order, limit_memory
from a3gnn.service.http.problems import ProblemDetails


def main() -> None:
    """Adds the rows of the file named on stdin."""
    answer_order(_added, "rows", "file of measurements")


def _added(order: Mapping[str, Any]) -> dict[str, Any]:
    from a3gnn.profiling.store.check import import_rows

    limit_memory(order["most_bytes"])
    try:
        added, rows = import_rows(order["path"], order["store"])
    except StoreError as error:
        raise ProblemDetails(422, "rows", str(error).replace(f" {order['path']}", "")) from error
    return {"added": added, "rows": rows}


if __name__ == "__main__":
    main()
