"""`Draft`: a converted folder while it is written.

Edges in any order become the CSR in `indptr.npy` and `indices.npy`. Features come in pieces of rows. Neither needs to
fit in memory.
"""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.arrays import row_spans
from a3gnn.graphs.edge_list_kernels import count_targets, sort_into_buckets, sort_rows, sources_by_row
from a3gnn.graphs.features import DenseFeatures, SparseFeatures, features_from, stored_dtype
from a3gnn.notify import ConversionProgress
from a3gnn.storage.atomic import need_room
from a3gnn.storage.npy import NpyWriter, open_npy, save_npy
from a3gnn.storage.unfinished import GrowingFile, Mark, Unfinished
from a3gnn.units import format_size

#: Sources and targets, int32, of equal length.
EdgePieces = Iterable[tuple[NDArray[np.int32], NDArray[np.int32]]]
FeaturePieces = Iterable[DenseFeatures | SparseFeatures]

#: Disk bytes per edge of scratch files and result. Scratch files go before features come.
EDGE_DISK_BYTES = 12
_SCRATCH_EDGE_BYTES, _EDGE_BYTES = 8, 4
#: Memory budget per entry: int32 entries of the rows in RAM take half, counts and pieces of edges the rest. Guess.
_BUDGET_BYTES_PER_ENTRY = 8
#: Scratch files open at once: a quarter of the usual limit of 1,024 open files per process (getrlimit(2)).
_MAX_FILES = 256
#: Memory per node: a random split's order and masks, or a description's counts. And of Python with its libraries and
#: pieces of edges and features. Both measured by `python -m benchmarks.scale.conversion`.
_NODE_BYTES, _PROCESS_BYTES = 8, 384 << 20
#: Memory per node of a range of targets: counts and their sums, int64, and a copy of them.
_RANGE_NODE_BYTES = 24
#: Part of the budget for a range's nodes, beside the half for its entries. Guess.
_RANGE_SHARE = 8
#: Disk of scratch files beside the result, in parts of it. With narrow features, edges are read several times for that:
#: so many times as often if few nodes have most edges, as a pass that ends early has used over half of its room.
_SCRATCH_SHARE, _MORE_PASSES = 0.1, 3
#: A pass with too many edges leaves a quarter of them to the next one; their order is known by so many. Guesses.
_SAMPLED_KEYS = 1 << 16
#: Bytes of edges or features that a killed conversion writes again at most. Guess: less than a second of a disk.
_KEPT_BYTES = 1 << 28
# Values per copy, so features of any size cost tens of MiB. Guess.
_VALUES_PER_PIECE = 1 << 22


class Scratch(NamedTuple):
    """A scratch file: its path, and the stage and the mark by which it is found after a kill; without, it is not."""

    path: Path
    stage: str = ""
    mark: Mark | None = None


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
        unfinished: What a killed conversion of the same graph has finished; None without one.
    """

    folder: Path
    scratch: Path
    memory_bytes: int
    progress: ConversionProgress
    name: str = ""
    num_classes: int = 0
    notes: tuple[str, ...] = ()
    layout: dict[str, Any] | None = None
    unfinished: Unfinished | None = None
    _scratch_bytes: int | None = None
    _opened: dict[int, tuple[Scratch, NDArray[Any]]] = field(default_factory=dict)
    _casts: int = 0

    def plan(
        self,
        num_edges: int,
        num_nodes: int,
        features: int,
        others: int,
        unpacked: int = 0,
        node_bytes: int = _NODE_BYTES,
    ) -> None:
        """Prints what the conversion takes of disk and memory, and checks that the disk has it.

        Args:
            num_edges: Edges, duplicates included.
            num_nodes: Nodes.
            features: Bytes of the features in the result, which are written last.
            others: Bytes of the result's other files without its edges.
            unpacked: Bytes of arrays that are unpacked to scratch files.
            node_bytes: Memory per node.

        Raises:
            OSError: The disk has less room.
        """
        others += 8 * (num_nodes + 1)
        result = _EDGE_BYTES * num_edges + others + features
        every = scratch = _SCRATCH_EDGE_BYTES * num_edges
        if every > self.memory_bytes:
            scratch = self._scratch_bytes = min(every, int(_SCRATCH_SHARE * result) + features)
        needed = max(result - features + scratch, result) + unpacked
        of_edges = self.memory_bytes // 2 + self.memory_bytes // _RANGE_SHARE
        self.tell(result, needed, max(of_edges, node_bytes * num_nodes), _num_passes(num_edges, scratch))

    def tell(self, result: int, needed: int, memory: int, passes: int = 1) -> None:
        """Prints what the conversion takes, and checks that the disk has it.

        Args:
            result: Bytes of the result.
            needed: Most bytes of disk, the result included.
            memory: Bytes of memory, without the process itself.
            passes: How often the edges are read if all nodes have about as many.

        Raises:
            OSError: The disk has less room.
        """
        more = f", and reads the edges {passes} times (up to {_MORE_PASSES * passes} if few nodes have most of them)"
        self.progress.say(
            f"the graph takes up to {format_size(result)} of disk, and {format_size(needed - result)} more while it is "
            f"written; the conversion takes up to {format_size(memory + _PROCESS_BYTES)} of memory"
            f"{more if passes > 1 else ''}"
        )
        held = sum(path.stat().st_blocks * 512 for path in self.folder.parent.rglob("*") if path.is_file())
        need_room(self.folder, needed - held)

    def open(self, scratch: Scratch) -> NDArray[Any]:
        """Returns the array in the .npy file `scratch` as a memory map."""
        array = open_npy(scratch.path)
        self._opened[array.ctypes.data] = scratch, array
        return array

    def written(self, stage: str, write: Callable[[Path], Mark]) -> Scratch:
        """Returns the scratch file that `write` writes and marks, or that a killed conversion has written as `stage`.

        Raises:
            OSError: It can't be written.
        """
        found = self.unfinished.stage(stage) if self.unfinished else None
        if found is not None:
            path = self.folder.parent / found["path"]
            return Scratch(path, stage, found["files"][path.name])
        path = Path(tempfile.mkdtemp(dir=self.scratch)) / "array.npy"  # a name may lead elsewhere
        return self._kept(Scratch(path, stage, write(path)))

    def _kept(self, scratch: Scratch) -> Scratch:
        if self.unfinished is not None and scratch.mark is not None:
            path = str(scratch.path.relative_to(self.folder.parent))
            self.unfinished.keep(scratch.stage, {scratch.path: scratch.mark}, path=path)
        return scratch

    def cast(self, array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        """Returns `array` in `dtype`: itself, or the memory map of another scratch file."""
        if array.dtype == dtype:
            return array
        stage, self._casts = f"cast {self._casts}", self._casts + 1
        return self.open(self.written(stage, lambda path: save_npy(path, array, dtype)))

    def canonical(self, features: SparseFeatures) -> SparseFeatures:
        """Returns `features` as stored, with columns ascending and distinct in each row, in scratch files."""
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        write_features(canonical_pieces(features), features.shape[0], folder, self.progress)
        found = features_from({path.stem: self.open(Scratch(path)) for path in folder.iterdir()})
        assert isinstance(found, SparseFeatures)
        return found

    def put(self, name: str, array: NDArray[Any]) -> None:
        """Writes an array in pieces; the map of a whole scratch file moves without being written again.

        Raises:
            OSError: It can't be written.
        """
        target = self.folder / f"{name}.npy"
        if self.moves(array):
            scratch, _ = self._opened.pop(array.ctypes.data)
            os.replace(scratch.path, target)
            self._kept(scratch._replace(path=target))
        elif self.unfinished is None:
            save_npy(target, array)
        elif self.unfinished.stage(name) is None:
            self.unfinished.keep(name, {target: save_npy(target, array)})

    def moves(self, array: NDArray[Any]) -> bool:
        """Returns whether `array` is the map of a whole scratch file, in C order, that is still there."""
        _, whole = self._opened.get(array.ctypes.data, (None, np.empty(0, dtype=[])))
        return array.flags.c_contiguous and (array.shape, array.dtype) == (whole.shape, whole.dtype)

    def write_edges(self, pieces: Callable[[], EdgePieces], num_edges: int, num_nodes: int) -> EdgeCounts:
        """Writes the adjacency as `write_adjacency`, or what a killed conversion has left of it."""
        places = self.folder, self.scratch, self.memory_bytes, self.progress
        return write_adjacency(pieces, num_edges, num_nodes, *places, self.unfinished, self._scratch_bytes)

    def write_features(self, pieces: FeaturePieces, num_nodes: int) -> int:
        """Writes features as `write_features`, or what a killed conversion has left of them."""
        return write_features(pieces, num_nodes, self.folder, self.progress, self.unfinished)

    def fill(self, name: str, shape: tuple[int, ...], write: Callable[[NDArray[np.float32]], None]) -> None:
        """Writes a float32 array of `shape`: zeros in a memory map, which `write` changes.

        Raises:
            OSError: It can't be written.
        """
        path = self.folder / f"{name}.npy"
        if not shape[0]:
            np.save(path, np.zeros(shape, dtype=np.float32))  # an empty file can't be mapped
            return
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        with path.open("r+b") as file:  # a full disk under a memory map would kill the process
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, file.seek(0, os.SEEK_END))
        write(array)

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Writes a whole array.

        Raises:
            OSError: It can't be written.
        """
        np.save(self.folder / f"{name}.npy", array)

    def save_pieces(self, name: str, pieces: Iterable[NDArray[Any]]) -> None:
        """Writes an array, of which `pieces` are the rows.

        Raises:
            OSError: It can't be written.
        """
        with ExitStack() as files:
            writer = None
            for piece in pieces:
                if writer is None:
                    columns = piece.shape[1] if piece.ndim == 2 else None
                    writer = files.enter_context(NpyWriter(self.folder / f"{name}.npy", piece.dtype, columns))
                writer.append(piece)


class EdgeCounts(NamedTuple):
    """Counts of the edges of a source."""

    given: int  # edges, duplicates included
    loops: int  # self loops in `given`
    kept: int  # distinct edges


def num_ranges(num_edges: int, num_nodes: int, memory_bytes: int) -> int:
    """Returns into how many ranges of targets `write_adjacency` divides edges, so that a range fits `memory_bytes`."""
    by_edges = -(-num_edges * _BUDGET_BYTES_PER_ENTRY // memory_bytes)
    by_nodes = num_nodes * _RANGE_NODE_BYTES // max(memory_bytes // _RANGE_SHARE, 1)
    return min(max(by_edges, by_nodes, 1), _MAX_FILES, num_nodes)


def _num_passes(num_edges: int, scratch_bytes: int | None) -> int:
    """Returns how often edges are read if a pass has room for `scratch_bytes`, and all nodes have about as many."""
    return -(-_SCRATCH_EDGE_BYTES * num_edges // scratch_bytes) if scratch_bytes else 1


def write_adjacency(
    pieces: Callable[[], EdgePieces],
    num_edges: int,
    num_nodes: int,
    folder: Path,
    scratch: Path,
    memory_bytes: int,
    progress: ConversionProgress,
    unfinished: Unfinished | None = None,
    scratch_bytes: int | None = None,
) -> EdgeCounts:
    """Writes `indptr.npy` (int64) and `indices.npy` (int32, ascending and distinct in each row) to `folder`.

    Edges first go to scratch files by ranges of targets. Then each range's rows are filled in RAM, as many at a time as
    the budget holds. They are sorted, freed of duplicates and appended to the result, and the scratch file is deleted.
    Several passes over the edges take a part of the ranges each. A pass ends early if its edges take more room.

    Args:
        pieces: Begins the edges: (sources, targets) with ids in [0, num_nodes).
        num_edges: Upper bound on their number.
        num_nodes: Number of nodes.
        folder: Destination of the result.
        scratch: Folder for temporary files.
        memory_bytes: Budget for the rows in RAM; a single row may take more.
        progress: Called with the progress of the conversion.
        unfinished: What a killed process has finished of the same edges, in the same pieces.
        scratch_bytes: Most bytes of temporary files; None for 8 per edge, which needs one pass.

    Raises:
        OSError: A file can't be written.
    """
    found = (unfinished.stage("edges") or unfinished.stage("passes")) if unfinished else None
    passes = _num_passes(num_edges, scratch_bytes)
    per_pass = -(-num_ranges(num_edges, num_nodes, memory_bytes) // passes)
    done = _Done(**found["done"]) if found else _Done(min(per_pass * passes, num_nodes), per_pass)
    marks: dict[str, Mark] = found["files"] if found else {}
    for path in scratch.glob("edges-*"):
        if path.name not in marks:
            path.unlink()  # of a killed process, but damaged, such as by a pass that was ending early
    with (
        NpyWriter(folder / "indptr.npy", np.int64, mark=marks.get("indptr.npy")) as indptr,
        NpyWriter(folder / "indices.npy", np.int32, mark=marks.get("indices.npy")) as indices,
    ):

        def keep(files: dict[Path, Mark]) -> None:
            if unfinished is not None:
                rows = {folder / "indptr.npy": indptr.mark, folder / "indices.npy": indices.mark}
                for stage in ("edges",) if files else ("edges", "passes"):  # without files, a pass begins
                    unfinished.keep(stage, rows | files, done=dataclasses.asdict(done))

        if not indptr.mark.size:
            indptr.append(np.zeros(1, dtype=np.int64))
        most = max(1, memory_bytes // _BUDGET_BYTES_PER_ENTRY)
        while done.low < num_nodes**2:
            with EdgeBuckets(scratch, num_nodes, done, marks, scratch_bytes) as buckets:
                if not done.read:
                    _read_edges(pieces, num_edges, buckets, done, keep, progress)
                for bucket in buckets.read():
                    done.kept = _write_rows(bucket, num_nodes, most, done.kept, indptr, indices)
                    done.low = bucket.high
                    if done.low == done.high < num_nodes**2:
                        done.read, done.given, done.high = False, 0, 0  # the next pass
                    keep(buckets.marks())
                    progress("sorting rows", bucket.high // num_nodes, num_nodes)
            marks = {}
    return EdgeCounts(done.given, done.loops, done.kept)


@dataclass
class _Done:
    """What `write_adjacency` has done.

    An edge's key is its target times the number of nodes, plus its source: the order of the result.
    """

    ranges: int  # ranges of targets in all
    ranges_per_pass: int  # most of them in one pass over the edges
    given: int = 0  # edges that this pass has read
    loops: int = 0  # self loops that the first pass has read
    read: bool = False  # whether this pass has read all edges
    low: int = 0  # edges of lower keys are written, and their scratch files are deleted
    high: int = 0  # the key at which this pass ends; 0 before it begins
    kept: int = 0  # edges that are written


def _read_edges(
    pieces: Callable[[], EdgePieces],
    num_edges: int,
    buckets: EdgeBuckets,
    done: _Done,
    keep: Callable[[dict[Path, Mark]], None],
    progress: ConversionProgress,
) -> None:
    """Writes the edges after the first `done.given` to `buckets`."""
    seen = unkept = 0
    for sources, targets in pieces():
        seen += len(sources)
        if seen <= done.given:
            continue
        high = done.high
        buckets.add(sources, targets)
        done.given += len(sources)
        if not done.low:
            done.loops += int(np.count_nonzero(sources == targets))
        unkept += _SCRATCH_EDGE_BYTES * len(sources)
        progress("reading edges", done.given, num_edges)
        if done.high < high or unkept >= _KEPT_BYTES:
            unkept = 0
            keep(buckets.marks())
    done.read = True
    keep(buckets.marks())


class Bucket(NamedTuple):
    """The edges of the keys [low, high): (source, target), int32, shape (num_edges, 2), a memory map."""

    low: int
    high: int
    pairs: NDArray[np.int32]


class EdgeBuckets:
    """Files of edges in a scratch folder, one for each range of targets of a pass; a context manager.

    A pass that would take more room than it has ends at a lower key, even within the edges of one target.

    Args:
        folder: Folder of the files, each of which is deleted after it is read.
        num_nodes: Nodes of the graph.
        done: The number of ranges, and how far this process, or a killed one, came.
        marks: The finished parts of its files, by name.
        most_bytes: Room for the files; None for any.
    """

    def __init__(
        self, folder: Path, num_nodes: int, done: _Done, marks: Mapping[str, Mark], most_bytes: int | None
    ) -> None:
        self._num_nodes, self._done, self._most = num_nodes, done, most_bytes
        self._width = -(-num_nodes // done.ranges)
        self._span = self._width * num_nodes  # keys of a range
        self._first = done.low // self._span
        done.high = done.high or min(done.low + done.ranges_per_pass * self._span, num_nodes**2)
        self._paths = {i: folder / f"edges-{i}" for i in range(self._first, -(-done.high // self._span))}
        self._marks = {path: marks[path.name] for path in self._paths.values() if path.name in marks}
        self._files = [] if done.read else [GrowingFile(path, self._marks.get(path)) for path in self._paths.values()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()

    def marks(self) -> dict[Path, Mark]:
        """Returns the parts of the files that are not read yet."""
        self._marks |= {path: file.mark for path, file in zip(self._paths.values(), self._files, strict=False)}
        return {path: self._marks[path] for i, path in self._paths.items() if self._end(i) > self._done.low}

    def add(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
        """Writes edges to the files of their targets; both int32, shape (n,), ids in [0, num_nodes)."""
        step = max(1, len(sources) if self._most is None else self._most // (8 * _SCRATCH_EDGE_BYTES))
        for start in range(0, len(sources), step):
            self._write(*self._inside(sources[start : start + step], targets[start : start + step]))

    def _inside(
        self, sources: NDArray[np.int32], targets: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the edges of this pass, after making room for them."""
        if self._most is None:
            return sources, targets
        keys = self._keys(sources, targets)
        inside = (keys >= self._done.low) & (keys < self._done.high)
        while self._held and self._held + np.count_nonzero(inside) > self._most // _SCRATCH_EDGE_BYTES:
            if not self._cut():
                break
            inside &= keys < self._done.high
        return sources[inside], targets[inside]

    def _write(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
        pairs, ends = sort_into_buckets(sources, targets, self._width, self._first + len(self._files))
        start = 0
        for file, end in zip(self._files, ends[self._first :].tolist(), strict=True):
            file.append(pairs[start:end].reshape(-1).view(np.uint8).data)
            start = end

    def read(self) -> Iterator[Bucket]:
        """Yields the buckets by rising targets, and deletes each file when the caller asks for the next bucket."""
        for i, path in self._paths.items():
            low, high = max(i * self._span, self._done.low), self._end(i)
            if low < high:
                yield Bucket(low, high, _pairs(path, "r"))
                path.unlink()

    @property
    def _held(self) -> int:
        return sum(file.mark.size for file in self._files) // _SCRATCH_EDGE_BYTES

    def _end(self, i: int) -> int:
        """Returns the key at which the range `i` ends in this pass."""
        return min((i + 1) * self._span, self._done.high)

    def _keys(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> NDArray[np.int64]:
        return targets.astype(np.int64) * self._num_nodes + sources

    def _cut(self) -> bool:
        """Leaves about a quarter of the edges so far, the last ones, to the next pass; returns False if it can't.

        If all have one key, one of them stays, because equal edges become one.
        """
        before, kept = (self._done.high, self._held), self._held * 3 // 4
        ends = np.cumsum([file.mark.size // _SCRATCH_EDGE_BYTES for file in self._files])
        top = int(np.searchsorted(ends, kept, side="right"))
        while len(self._files) > top:
            self._files.pop().close()
            _, path = self._paths.popitem()
            if len(self._files) > top:
                path.unlink()
        self._paths[self._first + top], pairs = path, _pairs(path, "r+")
        sample = pairs[:: max(1, len(pairs) // _SAMPLED_KEYS)]
        place = (kept - int(ends[top]) + len(pairs)) * len(sample) // len(pairs)
        high = int(np.partition(self._keys(sample[:, 0], sample[:, 1]), place)[place])
        self._done.high = max(high, self._done.low + 1)
        self._files.append(GrowingFile(path, self._compacted(pairs)))
        return (self._done.high, self._held) != before

    def _compacted(self, pairs: NDArray[np.int32]) -> Mark:
        """Moves the edges that this pass keeps to the front of their file, and returns their mark."""
        kept = checksum = 0
        most = 1 if self._done.high == self._done.low + 1 else len(pairs)
        for piece in dense_rows(pairs):
            part = piece[self._keys(piece[:, 0], piece[:, 1]) < self._done.high][: most - kept]
            pairs[kept : kept + len(part)] = part
            kept, checksum = kept + len(part), zlib.crc32(part.data, checksum)
        return Mark(0, kept * _SCRATCH_EDGE_BYTES, checksum)


def _pairs(path: Path, mode: Literal["r", "r+"]) -> NDArray[np.int32]:
    """Returns the edges in a scratch file, shape (num_edges, 2), as a memory map."""
    size = path.stat().st_size
    pairs = np.asarray(np.memmap(path, np.int32, mode)) if size else np.empty(0, dtype=np.int32)
    return pairs.reshape(-1, 2)


def _write_rows(bucket: Bucket, num_nodes: int, most: int, kept: int, indptr: NpyWriter, indices: NpyWriter) -> int:
    """Appends the rows of `bucket`, about `most` entries at a time, and returns the edges written so far.

    The last row may go on in the next bucket, and ends there.
    """
    low, ended = bucket.low // num_nodes, bucket.high // num_nodes
    counts = np.zeros(-(-bucket.high // num_nodes) - low, dtype=np.int64)
    count_targets(bucket.pairs, low, counts)
    reach = np.concatenate([[0], np.cumsum(counts)])
    for first, last in row_spans(reach, most):
        starts = reach[first : last + 1] - reach[first]
        entries = sources_by_row(bucket.pairs, low + first, starts)
        ends = sort_rows(starts, entries)
        indptr.append(ends[: max(ended - low - first, 0)] + kept)
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


def write_features(
    pieces: FeaturePieces,
    num_nodes: int,
    folder: Path,
    progress: ConversionProgress,
    unfinished: Unfinished | None = None,
) -> int:
    """Writes the `num_nodes` rows of `pieces` to `folder`, and returns the number of stored values.

    Args:
        pieces: The rows.
        num_nodes: Their number.
        folder: Destination.
        progress: Called with the progress of the conversion.
        unfinished: What a killed process has finished of the same rows, in the same pieces.

    Raises:
        OSError: A file can't be written.
    """
    found = unfinished.stage("features") if unfinished else None
    stored, done, whole = (found["stored"], found["done"], found["whole"]) if found else (0, 0, False)
    rest = iter(pieces)
    first = next(rest)
    seen = unkept = 0
    with ExitStack() as files:
        writers = _feature_writers(first, folder, found["files"] if found else {}, files)
        if isinstance(first, SparseFeatures):
            if not done:
                writers["x_indptr"].append(np.zeros(1, dtype=np.int64))
            np.save(folder / "x_shape.npy", np.array((num_nodes, first.shape[1]), dtype=np.int64))

        def keep(whole: bool) -> None:
            if unfinished is not None:
                kept = {folder / f"{name}.npy": writer.mark for name, writer in writers.items()}
                unfinished.keep("features", kept, stored=stored, done=done, whole=whole)

        for piece in () if whole else chain([first], rest):
            seen += piece.shape[0]
            if seen <= done:
                continue
            stored += _append(piece, writers, stored)
            done += piece.shape[0]
            unkept += piece.nbytes
            progress("writing features", done, num_nodes)
            if unkept >= _KEPT_BYTES:
                unkept = 0
                keep(whole=False)
        keep(whole=True)  # `pieces` has ended without an error, so its checks have passed
    return stored


def _append(piece: DenseFeatures | SparseFeatures, writers: Mapping[str, NpyWriter], stored: int) -> int:
    """Appends rows to the files of features, which have `stored` values, and returns the number of their values."""
    arrays = piece.arrays()
    if isinstance(piece, SparseFeatures):
        arrays["x_indptr"] = piece.indptr[1:] + stored
    for name, writer in writers.items():
        writer.append(arrays[name])
    return len(piece.data) if isinstance(piece, SparseFeatures) else piece.array.size


def _feature_writers(
    first: DenseFeatures | SparseFeatures, folder: Path, marks: Mapping[str, Mark], files: ExitStack
) -> dict[str, NpyWriter]:
    """Returns a writer for each array of features, which `first` is a piece of; `files` closes it."""
    return {
        name: files.enter_context(
            NpyWriter(
                folder / f"{name}.npy",
                array.dtype,
                array.shape[1] if array.ndim == 2 else None,
                marks.get(f"{name}.npy"),
            )
        )
        for name, array in first.arrays().items()
        if name != "x_shape"
    }


def dense_rows(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yields the rows of an array, such as a memory map, some MiB at a time."""
    step = max(1, _VALUES_PER_PIECE // max(math.prod(array.shape[1:]), 1))
    for start in range(0, array.shape[0], step):
        yield array[start : start + step]


def canonical_pieces(features: SparseFeatures) -> Iterator[SparseFeatures]:
    """Yields the rows of `features`, such as memory maps, as stored: columns ascending and distinct."""
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
