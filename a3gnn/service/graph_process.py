"""The process that looks at a graph: `python -m a3gnn.service.graph_process`, started by `a3gnn.service.graph_shelf`.

It reads one JSON object from stdin:

    {"parent": PID, "spec": SPEC, "folder": PATH or null, "max_bytes": N or null, "max_nodes": N, "max_edges": N}

validates the graph, converts it once (into the folder, or else into the cache folder), and writes to stdout what is
known of it: {"name", "spec", "fingerprint", "about": {...}, "notes": [...]}, or {"error": PROBLEM}. What a file holds
is looked up in its arrays' headers first; of an upload, the process may hold no more than a multiple of max_bytes.
"""

from __future__ import annotations

import json
import os
import resource
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a3gnn.process.child import take_order, take_stdout
from a3gnn.service.npz_bounds import check_bound, check_npz
from a3gnn.service.problems import Problem

#: Bytes that the process may hold beside so many times those that a graph's arrays may have. Guesses: libraries take
#: half a GiB, and edges are sorted in copies.
_MOST_BYTES, _TIMES = 2 << 30, 4


def main() -> None:
    """Answers one order."""
    order = take_order()
    if order is None:
        return
    os.nice(10)
    if order["max_bytes"] is not None:
        most = _MOST_BYTES + _TIMES * order["max_bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    answer = take_stdout()
    try:
        found = _examined(order)
    except Exception as error:
        problem = Problem.of(error)
        if problem.kind == "internal":
            traceback.print_exc()
        problem.detail = problem.detail.replace(order["spec"], Path(order["spec"]).name)  # where it lies is nobody's
        found = {"error": problem.to_dict()}
    os.write(answer, json.dumps(found).encode())


def _examined(order: Mapping[str, Any]) -> dict[str, Any]:
    from a3gnn.graphs.graph import Graph

    spec = str(order["spec"])
    if spec.endswith(".npz"):
        check_npz(Path(spec), order["max_bytes"], order["max_nodes"], order["max_edges"])
    graph = Graph.load(spec)
    for what, found in (("nodes", graph.num_nodes), ("edges", graph.num_edges)):
        check_bound(what, found, order[f"max_{what}"])
    if order["folder"] is not None:
        kept = graph.save(order["folder"])
        spec = str(kept.folder)
    else:
        kept = graph.on_disk()
    about = kept.characteristics().to_dict()
    return {
        "name": graph.name,
        "spec": spec,
        "fingerprint": graph.fingerprint,
        "about": about,
        "notes": list(graph.notes),
    }


if __name__ == "__main__":
    main()
