"""Writes the CSR of a graph larger than memory: edges in any order become `indptr.npy` and `indices.npy`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import row_spans
from a3gnn.graphs.edge_list_kernels import count_targets, sort_into_buckets, sort_rows, sources_by_row
from a3gnn.notify import ConversionProgress
from a3gnn.storage.npy import NpyWriter

#: Sources and targets, int32, of equal length.
EdgePieces = Iterable[tuple[NDArray[np.int32], NDArray[np.int32]]]

#: Disk bytes per edge of scratch files and result.
EDGE_DISK_BYTES = 12
#: Memory budget per entry: int32 entries of the rows in RAM take half, counts and pieces of edges the rest. Guess.
_BUDGET_BYTES_PER_ENTRY = 8
#: Scratch files open at once: below the usual limit of 1,024 open files per process. Guess.
_MAX_FILES = 256


class EdgeCounts(NamedTuple):
    """Counts of the edges of a source.

    Attributes:
        given: Edges, duplicates included.
        loops: Self loops in `given`.
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

    Edges first go to scratch files by ranges of targets. Then each range's rows are filled in RAM, as many at a time as
    the budget holds. They are sorted, freed of duplicates and appended to the result.

    Args:
        pieces: The edges: (sources, targets) with ids in [0, num_nodes).
        num_edges: Upper bound on their number.
        num_nodes: Number of nodes.
        folder: Destination of the result.
        scratch: Folder for temporary files of 8 bytes per edge.
        memory_bytes: Budget for the rows in RAM; a single row may take more.
        progress: Called with the progress of the conversion.

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


class Bucket(NamedTuple):
    """The edges into nodes [first, last).

    Attributes:
        first: First target.
        last: One past the last target.
        pairs: (source, target), int32, shape (num_edges, 2); a memory map.
    """

    first: int
    last: int
    pairs: NDArray[np.int32]


class EdgeBuckets:
    """Files of edges in a scratch folder, one for each range of `width` targets; a context manager.

    Args:
        folder: Folder of the files, each of which is deleted after it is read.
        num_nodes: Nodes of the graph.
        count: Number of files, at least 1; more files than nodes are never made.
    """

    def __init__(self, folder: Path, num_nodes: int, count: int) -> None:
        self._num_nodes = num_nodes
        self._width = -(-num_nodes // min(count, num_nodes))
        self._paths = [folder / f"edges-{i}" for i in range(-(-num_nodes // self._width))]
        self._open = ExitStack()
        self._files = [self._open.enter_context(path.open("wb", buffering=0)) for path in self._paths]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
        """Writes edges to the files of their targets; both int32, shape (n,), ids in [0, num_nodes)."""
        pairs, ends = sort_into_buckets(sources, targets, self._width, len(self._files))
        start = 0
        for file, end in zip(self._files, ends.tolist(), strict=True):
            left = pairs[start:end].reshape(-1).view(np.uint8).data
            while left:  # write of a raw file may take only a part
                left = left[file.write(left) :]
            start = end

    def read(self) -> Iterator[Bucket]:
        """Yields the buckets by rising targets, and deletes each file when the caller asks for the next bucket."""
        self._open.close()
        for i, path in enumerate(self._paths):
            pairs = (
                np.asarray(np.memmap(path, dtype=np.int32, mode="r"))
                if path.stat().st_size
                else np.empty(0, dtype=np.int32)
            )
            yield Bucket(i * self._width, min((i + 1) * self._width, self._num_nodes), pairs.reshape(-1, 2))
            path.unlink()


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
