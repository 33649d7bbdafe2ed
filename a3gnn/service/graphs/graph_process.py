"""The process that reads an upload, started by `a3gnn.service.graphs.examiner`.

It reads one JSON object from stdin, for measurements or for a graph:

    {"parent": PID, "kind": "rows", "path": PATH, "store": PATH or URL}
    {"parent": PID, "kind": "graph", "spec": SPEC, "folder": PATH or null, "max_bytes": N or null, "max_nodes": N,
     "max_edges": N}

It checks the rows of the file, adds all of them or none, and writes the result to stdout: {"added": N, "rows": N}. It
validates the graph, and converts it once, into the folder or else into the cache folder. It writes the result to
stdout: {"name", "spec", "fingerprint", "about": {...}, "notes": [...]}. The headers of a file's arrays are checked
before the arrays are read. The process's memory is limited by the size that an upload may have, and to half of the free
memory for a synthetic graph. Either kind may be answered by {"error": PROBLEM}. A graph below the data root is mapped,
so its size is no limit.
"""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from a3gnn.errors import GraphError, StoreError
from a3gnn.graphs.target import Target
from a3gnn.service.graphs.examiner import answer_order, limit_memory
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.units import format_size

#: Most arrays of a graph's file. FB15k-237, a benchmark with many relations, has 237 with up to seven arrays each
#: (`a3gnn.graphs.typed`). Checking the headers of this many takes 0.1 s.
_MOST_MEMBERS = 2048
#: The process may hold `_TIMES` the bytes allowed for a graph's arrays, or those of a file of measurements, plus
#: `_MOST_BYTES`. Guesses: libraries take half a GiB, sorting edges makes copies, and 64 MiB of measurements take 1 GiB.
_MOST_BYTES, _TIMES = 2 << 30, 4


def main() -> None:
    """Examines the graph, or adds the measurements, named on stdin."""
    answer_order({"graph": _named, "rows": _added})


def _added(order: Mapping[str, Any]) -> dict[str, Any]:
    from a3gnn.profiling.store.check import import_rows

    path = Path(order["path"])
    limit_memory(_MOST_BYTES + _TIMES * path.stat().st_size)
    try:
        added, rows = import_rows(path, order["store"])
    except StoreError as error:
        raise ProblemDetails(422, "rows", str(error).replace(f" {path}", "")) from error
    return {"added": added, "rows": rows}


def _named(order: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the examined graph; errors have its file's name in place of its path, which is private."""
    try:
        return _examined(order)
    except GraphError as error:
        path = Target.in_spec(str(order["spec"]))[1]
        raise GraphError(str(error).replace(path, Path(path).name)) from error


def _examined(order: Mapping[str, Any]) -> dict[str, Any]:
    from a3gnn.graphs.graph import Graph

    spec = str(order["spec"])
    if order["max_bytes"] is not None:
        limit_memory(_MOST_BYTES + _TIMES * order["max_bytes"])
    elif spec.startswith("synthetic:"):
        limit_memory(None)
    if spec.endswith(".npz"):
        check_npz(Path(Target.in_spec(spec)[1]), order["max_bytes"], order["max_nodes"], order["max_edges"])
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


def check_npz(path: Path, max_bytes: int | None, max_nodes: int, max_edges: int) -> None:
    """Checks the file at `path` without reading its arrays.

    Raises:
        GraphError: The file is no .npz, or has an array twice, or has an array of Python objects, which only unpickling
            could read, or exceeds a limit of bytes, nodes or edges.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise GraphError(
                    f"an .npz file of a graph must have at most {_MOST_MEMBERS} arrays, got {len(members)}"
                )
            names = [member.filename.removesuffix(".npy") for member in members]
            for name, count in Counter(names).items():
                if count > 1:
                    raise GraphError(f"an .npz file must have each array once, got {name} {count} times")
            shapes = dict(zip(names, (_header(archive, member) for member in members), strict=True))
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise GraphError(
            f"the file is not a readable .npz: {error}; write one with numpy.savez(FILE, edge_index=..., x=..., y=..., "
            "...)"
        ) from error
    total = sum(count * dtype.itemsize for _, dtype, count in shapes.values())
    if max_bytes is not None:
        check_bound("bytes", total, max_bytes, f", {format_size(total)}")
    edges, nodes = (shapes.get(name, ((0,), np.dtype("u1"), 0))[0] for name in ("edge_index", "y"))
    check_bound("edges", edges[-1] if edges else 0, max_edges)
    check_bound("nodes", nodes[0] if nodes else 0, max_nodes)


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    """Returns the shape, dtype and number of elements of an array, after a check that its member has that size."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
        begin = file.tell()
    if dtype.hasobject:
        raise GraphError(
            f"{member.filename} contains Python objects, which the server does not unpickle; store numbers"
        )
    count = math.prod(shape)
    if member.file_size - begin != count * dtype.itemsize:
        raise GraphError(
            f"{member.filename} must have {count * dtype.itemsize:,} bytes, got {member.file_size - begin:,}"
        )
    return shape, dtype, count


def check_bound(what: str, found: int, most: int, shown: str = "") -> None:
    """Checks a graph's number of bytes, nodes or edges against its limit.

    Raises:
        GraphError: The number exceeds the limit.
    """
    if found > most:
        name = "--max-upload" if what == "bytes" else f"--max-{what}"
        raise GraphError(
            f"a graph must have at most {most:,} {what} here, got {found:,}{shown}; a3gnn serve {name} sets the limit"
        )


if __name__ == "__main__":
    main()
