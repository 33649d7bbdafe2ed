"""Tables: a matrix with a row per node that is derived from a graph and stored beside it, dense or CSR."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.mapping import in_large_pages, settle
from a3gnn.storage.npy import NpyWriter, content_hash, open_npy
from a3gnn.storage.stamp import verify_once
from a3gnn.units import format_size

#: Remedy for a damaged table, in messages.
REMEDY = "delete it, and it is made anew"


def write_table(
    graph: GraphArrays, folder: Path, columns: int, pieces: Iterable[NDArray[np.floating]], dtype: type = np.float32
) -> None:
    """Writes a dense matrix and its hash to `folder`, whole or not at all.

    Args:
        graph: The graph that the matrix is derived from.
        folder: Destination.
        columns: Of the matrix.
        pieces: Runs of rows, in order, of `dtype`.
        dtype: float32 or float16.

    Raises:
        GraphError: It can't be written.
    """
    with keeping(graph, folder, np.dtype(dtype).itemsize * graph.num_nodes * columns) as draft:
        draft.mkdir()
        with _Hashed(draft, "rows", dtype, columns) as rows:
            for piece in pieces:
                rows.append(piece)
        _finish(draft, columns, dtype, rows)


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


def read_table(graph: GraphArrays, folder: Path) -> DenseFeatures | SparseFeatures:
    """Returns the matrix in `folder`, shape (num_nodes, columns), as memory maps; hashes are verified once.

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
        rows = opened(folder / "rows.npy", dtype, graph.num_nodes, columns)
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

    Raises:
        GraphError: It can't be written; the message contains a remedy.
    """
    try:
        with replacing(path, durable=False) as draft:  # not durable, so set-up does not wait for the disk
            need_room(draft.parent, needed)
            yield draft
    except OSError as error:
        raise GraphError(
            f"what is derived from a graph is kept beside it, but {path} can't be written ({error}); it takes "
            f"{format_size(needed)}: free some space, or copy the graph: a3gnn graph convert {graph.folder} FOLDER"
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
