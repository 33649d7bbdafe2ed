"""What is derived from a graph on disk and kept beside it: parts, the rows that are left within parts, aggregates."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import event
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.soundness import row_violations
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.mapping import in_large_pages, settle
from a3gnn.storage.npy import NpyWriter, open_npy
from a3gnn.storage.stamp import forget, verify_once
from a3gnn.units import format_size

_PARTS = re.compile(r"parts-(\d+)-seed-\d+.*\.npy")
_HASHED_ROWS = 1 << 14
_REMEDY = "delete it, and it is made anew"

#: indptr, int64, and indices, int32, ascending in each row.
Rows = tuple[NDArray[np.int64], NDArray[np.int32]]


def write_parts(graph: GraphArrays, path: Path, parts: NDArray[np.int32]) -> None:
    """Writes the part of each node to `path`, whole or not at all.

    Raises:
        GraphError: It can't be written.
    """
    with _keeping(graph, path, parts.nbytes) as draft, draft.open("wb") as file:
        np.save(file, parts)


def read_parts(graph: GraphArrays, path: Path, num_parts: int) -> NDArray[np.int32]:
    """Returns the part of each node from `path`, int32 in [0, num_parts), shape (num_nodes,).

    Raises:
        GraphError: The file is damaged.
    """
    parts = _opened(path, np.dtype(np.int32), graph.num_nodes)
    if len(parts) and (parts.min() < 0 or parts.max() >= num_parts):
        raise GraphError(
            f"{path} is damaged: parts must be in [0, {num_parts}), got {parts.min()} to {parts.max()}; {_REMEDY}"
        )
    return np.array(parts)


def write_rows(
    graph: GraphArrays, folder: Path, indptr: NDArray[np.int64], pieces: Iterable[NDArray[np.int32]]
) -> None:
    """Writes rows to `folder`, whole or not at all; entries come in `pieces`, so that no copy of them is in RAM.

    Raises:
        GraphError: It can't be written.
    """
    with _keeping(graph, folder, indptr.nbytes + 4 * int(indptr[-1])) as draft:
        draft.mkdir()
        with NpyWriter(draft / "indptr.npy", np.int64) as writer:
            writer.append(indptr)
        with NpyWriter(draft / "indices.npy", np.int32) as writer:
            for piece in pieces:
                writer.append(piece)
        settle(draft)


def read_rows(graph: GraphArrays, folder: Path) -> Rows:
    """Returns rows from `folder` as memory maps; what they hold is verified once.

    Raises:
        GraphError: A file is damaged.
    """
    indptr = _opened(folder / "indptr.npy", np.dtype(np.int64), graph.num_nodes + 1)
    indices = _opened(folder / "indices.npy", np.dtype(np.int32), int(indptr[-1]))
    verify_once(folder, partial(_check_rows, folder, indptr, indices))
    return in_large_pages(indptr), in_large_pages(indices)


@contextmanager
def noting_seconds(graph: GraphArrays, path: Path) -> Iterator[None]:
    """Notes beside the derived file or folder `path` how long the body took, which makes it.

    Where numba compiled a kernel meanwhile nothing is noted: that is done once a machine, not once a graph.

    Raises:
        GraphError: The note can't be written.
    """
    with event.install_recorder("numba:compile") as compiled:
        begin = time.perf_counter()
        yield
        seconds = time.perf_counter() - begin
    if compiled.buffer:
        return
    text = f"{seconds:.6f}\n"
    with _keeping(graph, _seconds_file(path), len(text)) as draft:
        draft.write_text(text, encoding="ascii")


def noted_seconds(path: Path) -> float | None:
    """Returns how long making the derived file or folder `path` took, or None where that is not known."""
    try:
        return float(_seconds_file(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _seconds_file(path: Path) -> Path:
    return path.with_name(f"seconds-{path.name.removesuffix('.npy')}.txt")


def write_aggregates(graph: GraphArrays, folder: Path, columns: int, pieces: Iterable[NDArray[np.float32]]) -> None:
    """Writes a matrix with a row per node to `folder`, whole or not at all, with a hash of it; rows come in `pieces`.

    Raises:
        GraphError: It can't be written.
    """
    digest = hashlib.blake2b(digest_size=16)
    with _keeping(graph, folder, 4 * graph.num_nodes * columns) as draft:
        draft.mkdir()
        with NpyWriter(draft / "rows.npy", np.float32, columns) as writer:
            for piece in pieces:
                digest.update(piece.data)
                writer.append(piece)
        (draft / "meta.json").write_text(json.dumps({"hash": digest.hexdigest()}), encoding="utf-8")
        settle(draft)


def read_aggregates(graph: GraphArrays, folder: Path) -> NDArray[np.float32]:
    """Returns the matrix in `folder` as a memory map, float32, shape (num_nodes, columns); its hash is verified once.

    Raises:
        GraphError: A file is damaged.
    """
    rows = _opened(folder / "rows.npy", np.dtype(np.float32), graph.num_nodes, graph.num_features)
    verify_once(folder, partial(_check_hash, folder, rows))
    return in_large_pages(rows)


def examine(graph: GraphArrays) -> Iterator[tuple[Path, str]]:
    """Yields each derived file or folder, and what is wrong with it, or nothing; all are read anew."""
    assert graph.folder is not None
    for path in sorted((graph.folder / "derived").glob("[!.]*")):
        named = _PARTS.fullmatch(path.name)
        try:
            if named:
                read_parts(graph, path, int(named[1]))
            elif path.name.startswith("within-"):
                forget(path)
                read_rows(graph, path)
            elif path.name.startswith("aggregates-"):
                forget(path)
                read_aggregates(graph, path)
            else:
                continue
        except GraphError as error:
            yield path, str(error)
        else:
            yield path, ""


def _check_rows(folder: Path, indptr: NDArray[np.int64], indices: NDArray[np.int32], _changed: bool) -> None:
    for violation in row_violations("indptr", indptr, "indices", indices, len(indptr) - 1):
        raise GraphError(f"{folder} is damaged: {violation.rule}; {_REMEDY}")


def _check_hash(folder: Path, rows: NDArray[np.float32], _changed: bool) -> None:
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, len(rows), _HASHED_ROWS):
        digest.update(np.ascontiguousarray(rows[start : start + _HASHED_ROWS]).data)
    try:
        written = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["hash"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GraphError(f"{folder / 'meta.json'} is missing or damaged ({error}); {_REMEDY}") from error
    if digest.hexdigest() != written:
        raise GraphError(
            f"{folder} is damaged: its rows must have the hash {written}, got {digest.hexdigest()}; {_REMEDY}"
        )


def _opened(path: Path, dtype: np.dtype[Any], *shape: int) -> NDArray[Any]:
    """Returns the array at `path` as a memory map, which must be of `dtype` and `shape`."""
    try:
        array = open_npy(path)
    except (OSError, ValueError, EOFError) as error:
        raise GraphError(f"{path} is missing or truncated ({error}); {_REMEDY}") from error
    if array.dtype != dtype or array.shape != shape:
        raise GraphError(
            f"{path} must hold {' x '.join(map(str, shape))} values of {dtype}, got {array.dtype} of shape "
            f"{array.shape}; {_REMEDY}"
        )
    return array


@contextmanager
def _keeping(graph: GraphArrays, path: Path, needed: int) -> Iterator[Path]:
    """Yields where to write the `needed` bytes that become `path`; a failure says what to do about it."""
    try:
        with replacing(path) as draft:
            need_room(draft.parent, needed)
            yield draft
    except OSError as error:
        raise GraphError(
            f"what is derived from a graph is kept beside it, but {path} can't be written ({error}); it takes "
            f"{format_size(needed)}: free some space, or copy the graph: a3gnn graph convert {graph.folder} FOLDER"
        ) from error
