"""python -m benchmarks.scale.conversion ROOM --scale 22: memory, disk and seconds of converting an .npz file.

The file is a Kronecker graph with int64 edges in random order. It is written first, unless ROOM has it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a3gnn.units import format_size
from benchmarks.scale.kronecker import EDGE_FACTOR, Kronecker

_PERIOD_S = 0.02
_ANONYMOUS = re.compile(r"RssAnon:\s+(\d+)")


def write_npz(graph: Kronecker, path: Path, compressed: bool) -> None:
    """Writes `graph` as an .npz file, in pieces."""
    nodes, kind = graph.nodes, zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    ids = np.arange(nodes) % 64
    shapes = {
        "edge_index": ((2, EDGE_FACTOR * nodes), np.int64, (ends for row in (0, 1) for ends in _ends(graph, row))),
        "x": ((nodes, graph.features), np.float16, (rows.array for rows in graph._features())),
        "y": ((nodes,), np.int64, map(graph.communities, graph._pieces())),
        **{f"{name}_mask": ((nodes,), np.bool_, [ids == i]) for i, name in enumerate(("train", "val", "test"))},
    }
    with zipfile.ZipFile(path, "w", kind, compresslevel=1) as archive:
        for name, (shape, dtype, pieces) in shapes.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                for piece in pieces:
                    member.write(piece.astype(dtype).tobytes())


def _ends(graph: Kronecker, row: int) -> Iterator[NDArray[np.int32]]:
    return (ends[row] for ends in graph._edges())


def main() -> None:
    """Converts as the command line says, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", type=Path)
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--compressed", action="store_true")
    parser.add_argument("options", nargs="*", help="of a3gnn graph convert, after --")
    given = parser.parse_args()
    given.room.mkdir(parents=True, exist_ok=True)
    path, folder = given.room / f"scale-{given.scale}{'-packed' * given.compressed}.npz", given.room / "graph"
    if not path.exists():
        write_npz(Kronecker(given.scale, given.features), path, given.compressed)
    kept = set(given.room.rglob("*"))
    begin, memory, disk = time.perf_counter(), 0, 0
    run = subprocess.Popen([sys.executable, "-m", "a3gnn", "graph", "convert", path, folder, *given.options])
    while run.poll() is None:
        try:
            found = _ANONYMOUS.search(Path(f"/proc/{run.pid}/status").read_text())
            memory = max(memory, 1024 * int(found[1]) if found else 0)
            disk = max(disk, _bytes(set(given.room.rglob("*")) - kept))
        except FileNotFoundError:  # a file that has just gone
            pass
        time.sleep(_PERIOD_S)
    seconds, result = time.perf_counter() - begin, _bytes(set(folder.rglob("*")))
    print(f"{seconds:.1f} s, peak {format_size(memory)} anonymous, source {format_size(path.stat().st_size)}")
    print(f"result {format_size(result)}; at most {format_size(disk)} on disk beside the source")
    print(f"that is {max(disk - result, 0) / result:.1%} more than the result")
    sys.exit(run.returncode)


def _bytes(files: set[Path]) -> int:
    return sum(512 * file.stat().st_blocks for file in files if file.is_file())


if __name__ == "__main__":
    main()
