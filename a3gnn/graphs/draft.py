"""`Draft`: a converted folder while it is written.

Edges in any order become the CSR in `indptr.npy` and `indices.npy`. Features come in pieces of rows. Neither needs to
fit in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.arrays import row_spans
from a3gnn.graphs.edge_list_kernels import count_targets, sort_into_buckets, sort_rows, sources_by_row
from a3gnn.graphs.features import DenseFeatures, SparseFeatures, features_from, stored_dtype
from a3gnn.notify import ConversionProgress
from a3gnn.storage.npy import NpyWriter, open_npy, save_npy

#: Sources and targets, int32, of equal length.
EdgePieces = Iterable[tuple[NDArray[np.int32], NDArray[np.int32]]]
FeaturePieces = Iterable[DenseFeatures | SparseFeatures]

#: Disk bytes per edge of scratch files and result.
EDGE_DISK_BYTES = 12
#: Memory budget per entry: int32 entries of the rows in RAM take half, counts and pieces of edges the rest. Guess.
_BUDGET_BYTES_PER_ENTRY = 8
#: Scratch files open at once: below the usual limit of 1,024 open files per process. Guess.
_MAX_FILES = 256
# Values per copy, so features of any size cost tens of MiB. Guess.
_VALUES_PER_PIECE = 1 << 22


@dataclass
class Draft:
    """A destination for a graph's arrays, one by one, and for its description.

    Attributes:
        folder: Takes the graph's .npy files, by the names of `GraphArrays.arrays`.
        scratch: Folder for temporary files.
        memory_bytes: Budget for edges in RAM.
        progress: Called with the progress of the conversion.
        name: Shown to users.
        num_classes: A model's outputs per node.
        notes: Remarks for users on how the graph was read.
        layout: How the arrays make a data object of PyG's (`data_folder`); None for a graph of a3gnn's.
    """

    folder: Path
    scratch: Path
    memory_bytes: int
    progress: ConversionProgress
    name: str = ""
    num_classes: int = 0
    notes: tuple[str, ...] = ()
    layout: dict[str, Any] | None = None
    _opened: dict[int, tuple[Path, NDArray[Any]]] = field(default_factory=dict)

    def open(self, path: Path) -> NDArray[Any]:
        """Returns the array in the scratch file at `path`, an .npy file, as a memory map."""
        array = open_npy(path)
        self._opened[array.ctypes.data] = path, array
        return array

    def cast(self, array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        """Returns `array` in `dtype`: itself, or the memory map of another scratch file."""
        if array.dtype == dtype:
            return array
        path = Path(tempfile.mkdtemp(dir=self.scratch)) / "cast.npy"
        save_npy(path, array, dtype)
        return self.open(path)

    def canonical(self, features: SparseFeatures) -> SparseFeatures:
        """Returns `features` as stored, with columns ascending and distinct in each row, in scratch files."""
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        write_features(canonical_pieces(features), features.shape[0], folder, self.progress)
        found = features_from({path.stem: self.open(path) for path in folder.iterdir()})
        assert isinstance(found, SparseFeatures)
        return found

    def put(self, name: str, array: NDArray[Any]) -> None:
        """Writes an array in pieces; the map of a whole scratch file moves without being written again.

        Raises:
            OSError: It can't be written.
        """
        target = self.folder / f"{name}.npy"
        if self.moves(array):
            os.replace(self._opened.pop(array.ctypes.data)[0], target)
        else:
            save_npy(target, array)

    def moves(self, array: NDArray[Any]) -> bool:
        """Returns whether `array` is the map of a whole scratch file, in C order, that is still there."""
        _, whole = self._opened.get(array.ctypes.data, (None, np.empty(0, dtype=[])))
        return array.flags.c_contiguous and (array.shape, array.dtype) == (whole.shape, whole.dtype)

    def fill(self, name: str, shape: tuple[int, ...], write: Callable[[NDArray[np.float32]], None]) -> None:
        """Writes a float32 array of `shape`: zeros in a memory map, which `write` changes.

        Raises:
            OSError: It can't be written.
        """
        path = self.folder / f"{name}.npy"
        if not shape[0]:
            np.save(path, np.zeros(shape, dtype=np.float32))  # an empty file can't be mapped
            return
        write(np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape))

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Writes a whole array.

        Raises:
            OSError: It can't be written.
        """
        np.save(self.folder / f"{name}.npy", array)


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


def joined(pieces: FeaturePieces, num_nodes: int) -> DenseFeatures | SparseFeatures:
    """Returns the `num_nodes` rows of `pieces` in RAM."""
    sparse: list[SparseFeatures] = []
    array, done = np.empty((0, 0), dtype=np.float32), 0
    for piece in pieces:
        if isinstance(piece, SparseFeatures):
            sparse.append(piece)
            continue
        if not done:
            array = np.empty((num_nodes, piece.shape[1]), dtype=piece.array.dtype)
        array[done : done + len(piece.array)] = piece.array
        done += len(piece.array)
    if not sparse:
        return DenseFeatures(array)
    lengths = np.concatenate([[0], *(np.diff(piece.indptr) for piece in sparse)])
    return SparseFeatures(
        np.concatenate([piece.data for piece in sparse]),
        np.concatenate([piece.indices for piece in sparse]),
        np.cumsum(lengths),
        (num_nodes, sparse[0].shape[1]),
    )


def write_features(pieces: FeaturePieces, num_nodes: int, folder: Path, progress: ConversionProgress) -> int:
    """Writes the `num_nodes` rows of `pieces` to `folder`, and returns the number of stored values.

    Raises:
        OSError: A file can't be written.
    """
    rest = iter(pieces)
    first = next(rest)
    stored = done = 0
    with ExitStack() as files:
        writers = {
            name: files.enter_context(
                NpyWriter(folder / f"{name}.npy", array.dtype, array.shape[1] if array.ndim == 2 else None)
            )
            for name, array in first.arrays().items()
            if name != "x_shape"
        }
        if isinstance(first, SparseFeatures):
            writers["x_indptr"].append(np.zeros(1, dtype=np.int64))
            np.save(folder / "x_shape.npy", np.array((num_nodes, first.shape[1]), dtype=np.int64))
        for piece in chain([first], rest):
            arrays = piece.arrays()
            if isinstance(piece, SparseFeatures):
                arrays["x_indptr"] = piece.indptr[1:] + stored
            for name, writer in writers.items():
                writer.append(arrays[name])
            stored += len(piece.data) if isinstance(piece, SparseFeatures) else piece.array.size
            done += piece.shape[0]
            progress("writing features", done, num_nodes)
    return stored


def canonical_pieces(features: DenseFeatures | SparseFeatures) -> Iterator[DenseFeatures | SparseFeatures]:
    """Yields the rows of `features`, such as memory maps, as stored: in C order, CSR columns ascending and distinct."""
    if isinstance(features, SparseFeatures):
        yield from _canonical_csr(features)
        return
    step = max(1, _VALUES_PER_PIECE // max(features.shape[1], 1))
    for start in range(0, features.shape[0], step):
        yield DenseFeatures(
            np.ascontiguousarray(features.array[start : start + step], stored_dtype(features.array.dtype))
        )


def _canonical_csr(features: SparseFeatures) -> Iterator[SparseFeatures]:
    kept = stored_dtype(features.data.dtype)
    # The whole matrix decides whether rows count as sorted, because a sort changes the order in which repeated entries
    # are added.
    canonical, sorted_ = True, True
    for rows in _row_slices(features):
        canonical &= bool(rows.has_canonical_format)
        sorted_ &= bool(rows.has_sorted_indices)
    for rows in _row_slices(features):
        matrix = rows
        if not canonical:
            # scipy adds no halves; summing in float32 and rounding once is also more exact.
            matrix = csr_array((rows.data.astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)
            matrix.has_canonical_format = False
            matrix.has_sorted_indices = sorted_
            matrix.sum_duplicates()
        yield SparseFeatures(
            np.ascontiguousarray(matrix.data, dtype=kept),
            matrix.indices.astype(np.int32),
            matrix.indptr.astype(np.int64),
            matrix.shape,
        )


def _row_slices(features: SparseFeatures) -> Iterator[csr_array]:
    """Yields copies of the rows, about `_VALUES_PER_PIECE` entries at a time; a longer row comes alone."""
    for first, last in row_spans(features.indptr, _VALUES_PER_PIECE, _VALUES_PER_PIECE):
        begin, end = int(features.indptr[first]), int(features.indptr[last])
        yield csr_array(
            (
                np.array(features.data[begin:end]),
                np.array(features.indices[begin:end]),
                np.array(features.indptr[first : last + 1]) - begin,
            ),
            shape=(last - first, features.shape[1]),
        )
