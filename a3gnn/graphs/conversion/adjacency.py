"""The CSR of a graph larger than memory: from edges in any order to `indptr.npy` and `indices.npy`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.conversion.buckets import Bucket, EdgeBuckets
from a3gnn.graphs.conversion.progress import ConversionProgress
from a3gnn.graphs.kernels import count_targets, sort_rows, sources_by_row
from a3gnn.graphs.rows import row_spans
from a3gnn.storage.npy import NpyWriter

#: Bytes of scratch and result that an edge takes on disk.
EDGE_DISK_BYTES = 12
#: Of a memory budget: the entries, int32, of the rows in RAM take half, counts and pieces of edges the rest. Guess.
_BUDGET_BYTES_PER_ENTRY = 8
#: Scratch files that are open at once: below the usual limit of 1,024 open files per process. Guess.
_MAX_FILES = 256

#: Sources and targets, int32, of equal length.
EdgePieces = Iterable[tuple[NDArray[np.int32], NDArray[np.int32]]]


class EdgeCounts(NamedTuple):
    """What the edges held.

    Attributes:
        given: Edges, duplicates included.
        loops: Self loops among them.
        kept: Distinct edges.
    """

    given: int
    loops: int
    kept: int


def write_adjacency(
    pieces: EdgePieces,
    num_edges: int,
    num_nodes: int,
    folder: Path,
    scratch: Path,
    memory_bytes: int,
    progress: ConversionProgress,
) -> EdgeCounts:
    """Writes `indptr.npy` (int64) and `indices.npy` (int32, ascending and distinct in each row) to `folder`.

    Edges go to scratch files by ranges of targets; then each range's rows are filled in RAM, as many at a time as the
    budget holds, sorted, freed of duplicates and appended to the result.

    Args:
        pieces: The edges: (sources, targets) with ids in [0, num_nodes).
        num_edges: How many there are, at most.
        num_nodes: Nodes.
        folder: Where the result goes.
        scratch: Where pairs may lie meanwhile, 8 bytes per edge.
        memory_bytes: For the rows in RAM; a single row may take more.
        progress: Called with how far the conversion is.

    Raises:
        OSError: A file can't be written.
    """
    most = max(1, memory_bytes // _BUDGET_BYTES_PER_ENTRY)
    given = loops = kept = 0
    with EdgeBuckets(scratch, num_nodes, min(-(-num_edges // most) or 1, _MAX_FILES)) as buckets:
        for sources, targets in pieces:
            buckets.add(sources, targets)
            given += len(sources)
            loops += int(np.count_nonzero(sources == targets))
            progress("reading edges", given, num_edges)
        with (
            NpyWriter(folder / "indptr.npy", np.int64) as indptr,
            NpyWriter(folder / "indices.npy", np.int32) as indices,
        ):
            indptr.append(np.zeros(1, dtype=np.int64))
            for bucket in buckets.read():
                kept = _write_rows(bucket, most, kept, indptr, indices)
                progress("sorting rows", bucket.last, num_nodes)
    return EdgeCounts(given, loops, kept)


def _write_rows(bucket: Bucket, most: int, kept: int, indptr: NpyWriter, indices: NpyWriter) -> int:
    """Appends the rows of `bucket`, about `most` entries at a time, and returns the edges written so far."""
    counts = np.zeros(bucket.last - bucket.first, dtype=np.int64)
    count_targets(bucket.pairs, bucket.first, counts)
    reach = np.concatenate([[0], np.cumsum(counts)])
    for first, last in row_spans(reach, most):
        starts = reach[first : last + 1] - reach[first]
        entries = sources_by_row(bucket.pairs, bucket.first + first, starts)
        ends = sort_rows(starts, entries)
        indptr.append(ends + kept)
        indices.append(entries[: ends[-1]])
        kept += int(ends[-1])
    return kept
