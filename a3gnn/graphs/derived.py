"""Files derived from a graph on disk and stored beside it: parts, the rows within parts, tables, seconds.

A table is a matrix with a row per node, dense or CSR.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import event
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.derived_room import make_room
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.soundness import row_violations
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.mapping import in_large_pages, settle
from a3gnn.storage.npy import NpyWriter, content_hash, open_npy, save_npy
from a3gnn.storage.stamp import forget, note_use, verify_once
from a3gnn.units import format_size

_PARTS = re.compile(r"parts-(\d+)-seed-\d+.*\.npy")
# Edges from which an order of the nodes is kept: counting them then takes longer than reading the file. Guess.
_LEAST_EDGES = 1 << 24
_SOME_ROWS = re.compile(r"-of-(\d+)-")
#: indptr, int64, and indices, int32, ascending in each row.
DerivedRows = tuple[NDArray[np.int64], NDArray[np.int32]]
#: Remedy for a damaged table, in messages.
REMEDY = "delete it; a3gnn creates it again"


def write_parts(graph: GraphArrays, path: Path, parts: NDArray[np.int32]) -> None:
    """Writes the part of each node to `path`, whole or not at all.

    Raises:
        GraphError: It can't be written.
    """
    with keeping(graph, path, parts.nbytes) as draft, draft.open("wb") as file:
        np.save(file, parts)


def read_parts(graph: GraphArrays, path: Path, num_parts: int) -> NDArray[np.int32]:
    """Returns the part of each node from `path`, int32 in [0, num_parts), shape (num_nodes,).

    Raises:
        GraphError: The file is damaged.
    """
    parts = opened(path, np.dtype(np.int32), graph.num_nodes)
    if len(parts) and (parts.min() < 0 or parts.max() >= num_parts):
        raise GraphError(
            f"{path} is damaged: parts must be in [0, {num_parts}), got {parts.min()} to {parts.max()}; {REMEDY}"
        )
    note_use(path)
    return np.array(parts)


def kept_order(graph: GraphArrays, name: str, compute: Callable[[], NDArray[np.int32]]) -> NDArray[np.int32]:
    """Returns all nodes in the order of `compute`, int32, shape (num_nodes,), which a large graph on disk keeps.

    The file is left out if it can't be written, or would take more than half of the free disk.

    Raises:
        GraphError: The file is damaged.
    """
    if graph.folder is None or graph.num_edges < _LEAST_EDGES:
        return compute()
    path, needed = graph.folder / "derived" / f"{name}.npy", 4 * graph.num_nodes
    if not path.exists():
        order = compute()
        if 2 * needed <= shutil.disk_usage(graph.folder).free:
            with suppress(GraphError), keeping(graph, path, needed) as draft:
                save_npy(draft, order)
        return order
    return _read_order(graph, path)


def _read_order(graph: GraphArrays, path: Path) -> NDArray[np.int32]:
    order = opened(path, np.dtype(np.int32), graph.num_nodes)
    if order.min() < 0 or order.max() >= graph.num_nodes:
        raise GraphError(f"{path} is damaged: nodes must be in [0, {graph.num_nodes}); {REMEDY}")
    note_use(path)
    return order


def write_rows(
    graph: GraphArrays, folder: Path, indptr: NDArray[np.int64], pieces: Iterable[NDArray[np.int32]]
) -> None:
    """Writes rows to `folder`, whole or not at all; entries come in `pieces`, so RAM holds no copy of them.

    Raises:
        GraphError: It can't be written.
    """
    with keeping(graph, folder, indptr.nbytes + 4 * int(indptr[-1])) as draft:
        draft.mkdir()
        with NpyWriter(draft / "indptr.npy", np.int64) as writer:
            writer.append(indptr)
        with NpyWriter(draft / "indices.npy", np.int32) as writer:
            for piece in pieces:
                writer.append(piece)
        settle(draft)


def read_rows(graph: GraphArrays, folder: Path) -> DerivedRows:
    """Returns rows from `folder` as memory maps; their content is verified once.

    Raises:
        GraphError: A file is damaged.
    """
    indptr = opened(folder / "indptr.npy", np.dtype(np.int64), graph.num_nodes + 1)
    indices = opened(folder / "indices.npy", np.dtype(np.int32), int(indptr[-1]))
    verify_once(folder, partial(_check_rows, folder, indptr, indices))
    return in_large_pages(indptr), in_large_pages(indices)


@contextmanager
def noting_seconds(graph: GraphArrays, path: Path) -> Iterator[None]:
    """Records beside the derived file or folder `path` how long the body took to make it.

    Nothing is recorded if numba compiled a kernel in the body, because that happens once per machine, not once per
    graph.

    Raises:
        GraphError: The record can't be written.
    """
    with event.install_recorder("numba:compile") as compiled:
        begin = time.perf_counter()
        yield
        seconds = time.perf_counter() - begin
    if compiled.buffer:
        return
    text = f"{seconds:.6f}\n"
    with keeping(graph, _seconds_file(path), len(text)) as draft:
        draft.write_text(text, encoding="ascii")


def seconds_of_making(path: Path, make: Callable[[], None]) -> float:
    """Returns the seconds that making the derived `path` took; without a record, makes it again."""
    while (seconds := noted_seconds(path)) is None:
        make()
    return seconds


def noted_seconds(path: Path) -> float | None:
    """Returns the recorded seconds of making the derived file or folder `path`, or None without a record."""
    try:
        return float(_seconds_file(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _seconds_file(path: Path) -> Path:
    return path.with_name(f"seconds-{path.name.removesuffix('.npy')}.txt")


def examine(graph: GraphArrays) -> Iterator[tuple[Path, str]]:
    """Yields each derived file or folder, and its error, or ""; all files are read again."""
    assert graph.folder is not None
    for path in sorted((graph.folder / "derived").glob("[!.]*")):
        named = _PARTS.fullmatch(path.name)
        try:
            if named:
                read_parts(graph, path, int(named[1]))
            elif path.name.startswith("order-"):
                _read_order(graph, path)
            elif path.name.startswith("within-"):
                forget(path)
                read_rows(graph, path)
            elif path.name.startswith("table-"):
                forget(path)
                some = _SOME_ROWS.search(path.name)
                read_table(graph, path, int(some[1]) if some else None)
            else:
                continue
        except GraphError as error:
            yield path, str(error)
        else:
            yield path, ""


def _check_rows(folder: Path, indptr: NDArray[np.int64], indices: NDArray[np.int32], _changed: bool) -> None:
    for violation in row_violations("indptr", indptr, "indices", indices, len(indptr) - 1):
        raise GraphError(f"{folder} is damaged: {violation.rule}; {REMEDY}")


def write_table(
    graph: GraphArrays,
    folder: Path,
    columns: int,
    pieces: Iterable[NDArray[np.floating]],
    dtype: type = np.float32,
    rows: int | None = None,
) -> None:
    """Writes a dense matrix and its hash to `folder`, whole or not at all.

    Args:
        graph: The graph that the matrix is derived from.
        folder: Destination.
        columns: Of the matrix.
        pieces: Runs of rows, in order, of `dtype`.
        dtype: float32 or float16.
        rows: Number of rows; by default one per node.

    Raises:
        GraphError: It can't be written.
    """
    count = graph.num_nodes if rows is None else rows
    with keeping(graph, folder, np.dtype(dtype).itemsize * count * columns) as draft:
        draft.mkdir()
        with _Hashed(draft, "rows", dtype, columns) as written:
            for piece in pieces:
                written.append(piece)
        _finish(draft, columns, dtype, written)


def write_sparse_table(
    graph: GraphArrays,
    folder: Path,
    columns: int,
    indptr: NDArray[np.int64],
    pieces: Iterable[tuple[NDArray[np.int32], NDArray[np.floating]]],
    dtype: type = np.float32,
) -> None:
    """Writes a CSR matrix and its hashes to `folder`, whole or not at all.

    Args:
        graph: The graph that the matrix is derived from.
        folder: Destination.
        columns: Of the matrix.
        indptr: Row starts, int64, shape (num_nodes + 1,).
        pieces: Column numbers, ascending in each row, int32, and values, of `dtype`, both of shape (n,); in order of
            rows.
        dtype: float32 or float16.

    Raises:
        GraphError: It can't be written.
    """
    entry_bytes = 4 + np.dtype(dtype).itemsize
    with keeping(graph, folder, indptr.nbytes + entry_bytes * int(indptr[-1])) as draft, ExitStack() as stack:
        draft.mkdir()
        starts = stack.enter_context(_Hashed(draft, "indptr", np.int64))
        indices = stack.enter_context(_Hashed(draft, "indices", np.int32))
        data = stack.enter_context(_Hashed(draft, "data", dtype))
        starts.append(indptr)
        for some_indices, some_data in pieces:
            indices.append(some_indices)
            data.append(some_data)
        stack.close()
        _finish(draft, columns, dtype, starts, indices, data)


def read_table(graph: GraphArrays, folder: Path, count: int | None = None) -> DenseFeatures | SparseFeatures:
    """Returns the matrix in `folder`, a row per node or `count` rows, as memory maps; hashes are verified once.

    Raises:
        GraphError: A file is damaged.
    """
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        hashes, columns = dict(meta["hashes"]), int(meta["columns"])
        dtype = np.dtype(meta.get("dtype", "float32"))  # older files have no dtype
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GraphError(f"{folder / 'meta.json'} is missing or damaged ({error}); {REMEDY}") from error
    if "rows" in hashes:
        rows = opened(folder / "rows.npy", dtype, graph.num_nodes if count is None else count, columns)
        verify_once(folder, partial(_check, folder, {"rows": rows}, hashes))
        return DenseFeatures(in_large_pages(rows))
    indptr = opened(folder / "indptr.npy", np.dtype(np.int64), graph.num_nodes + 1)
    indices = opened(folder / "indices.npy", np.dtype(np.int32), int(indptr[-1]))
    data = opened(folder / "data.npy", dtype, int(indptr[-1]))
    verify_once(folder, partial(_check, folder, {"indptr": indptr, "indices": indices, "data": data}, hashes))
    data, indices, indptr = (in_large_pages(array) for array in (data, indices, indptr))
    return SparseFeatures(data, indices, indptr, (graph.num_nodes, columns))


def opened(path: Path, dtype: np.dtype[Any], *shape: int) -> NDArray[Any]:
    """Returns the array at `path` as a memory map, which must be of `dtype` and `shape`.

    Raises:
        GraphError: It is missing, truncated, or another array.
    """
    try:
        array = open_npy(path)
    except (OSError, ValueError, EOFError) as error:
        raise GraphError(f"{path} is missing or truncated ({error}); {REMEDY}") from error
    if array.dtype != dtype or array.shape != shape:
        raise GraphError(
            f"{path} must hold {' x '.join(map(str, shape))} values of {dtype}, got {array.dtype} of shape "
            f"{array.shape}; {REMEDY}"
        )
    return array


@contextmanager
def keeping(graph: GraphArrays, path: Path, needed: int) -> Iterator[Path]:
    """Yields a draft path for `needed` bytes, which becomes `path` at the end.

    Older files may be removed for it (`make_room`).

    Raises:
        GraphError: It can't be written; the message contains a remedy.
    """
    try:
        with replacing(path, durable=False) as draft:  # not durable, so set-up does not wait for the disk
            make_room(path, needed)
            need_room(draft.parent, needed)
            yield draft
    except OSError as error:
        raise GraphError(
            f"{path} can't be written ({error}). Data derived from a graph is stored beside the graph, and this file "
            f"needs {format_size(needed)}. Free some space, or copy the graph: a3gnn graph convert "
            f"{shlex.quote(str(graph.folder))} FOLDER"
        ) from error


class _Hashed(NpyWriter):
    """Writes `name`.npy to `folder`, and hashes the written bytes."""

    def __init__(self, folder: Path, name: str, dtype: Any, columns: int | None = None) -> None:
        super().__init__(folder / f"{name}.npy", dtype, columns)
        self.name = name
        self.digest = hashlib.blake2b(digest_size=16)

    def append(self, piece: NDArray[Any]) -> None:
        """Appends `piece`, which has the writer's dtype."""
        self.digest.update(np.ascontiguousarray(piece).data)
        super().append(piece)


def _finish(draft: Path, columns: int, dtype: type, *files: _Hashed) -> None:
    hashes = {file.name: file.digest.hexdigest() for file in files}
    meta = {"columns": columns, "dtype": np.dtype(dtype).name, "hashes": hashes}
    (draft / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    settle(draft)


def _check(folder: Path, arrays: dict[str, NDArray[Any]], hashes: dict[str, str], _changed: bool) -> None:
    for name, array in arrays.items():
        if (found := content_hash(array)) != hashes.get(name):
            raise GraphError(
                f"{folder} is damaged: its {name} must have the hash {hashes.get(name)}, got {found}; {REMEDY}"
            )
