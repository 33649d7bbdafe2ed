"""The CSR of a graph larger than memory: from edges in any order to `indptr.npy` and `indices.npy`."""

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
        folder: Where the files go; they are deleted as they are read.
        num_nodes: Nodes of the graph.
        count: Files, at least one; there are never more than nodes.
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
            while left:  # a raw file may take less than it is given
                left = left[file.write(left) :]
            start = end

    def read(self) -> Iterator[Bucket]:
        """Yields the buckets by rising targets, and deletes each file once the next one is asked for."""
        self._open.close()
        for i, path in enumerate(self._paths):
            pairs = (
                np.asarray(np.memmap(path, dtype=np.int32, mode="r"))
                if path.stat().st_size
                else np.empty(0, dtype=np.int32)
            )
            yield Bucket(i * self._width, min((i + 1) * self._width, self._num_nodes), pairs.reshape(-1, 2))
            path.unlink()


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
