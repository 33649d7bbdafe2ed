"""python -m benchmarks.scale FOLDER --scale 24: writes a Kronecker graph, and prints its bytes and checksum."""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

from a3gnn.graphs.convert import DEFAULT_MEMORY_BYTES
from a3gnn.notify import ConversionProgress
from a3gnn.units import format_size
from benchmarks.scale.kronecker import Kronecker


def main() -> None:
    """Writes the graph that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=int, choices=range(8, 31), default=22, metavar="8..30")
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begin = time.perf_counter()
    graph = Kronecker(given.scale, given.features, given.seed)
    written = graph.write(given.folder, DEFAULT_MEMORY_BYTES, ConversionProgress(print))
    size = sum(path.stat().st_size for path in given.folder.iterdir())
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{written.num_nodes:,} nodes, {written.num_edges:,} edges, {format_size(size)} on disk")
    print(f"{time.perf_counter() - begin:.0f} s, peak {format_size(peak)} (mapped files included)")
    print(f"checksum {written.fingerprint}")


if __name__ == "__main__":
    main()
