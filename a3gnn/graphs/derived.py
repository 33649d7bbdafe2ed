"""Files derived from a graph on disk and stored beside it: parts, the rows within parts, seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numba.core import event
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.soundness import row_violations
from a3gnn.graphs.tables import REMEDY, keeping, opened, read_table
from a3gnn.storage.mapping import in_large_pages, settle
from a3gnn.storage.npy import NpyWriter
from a3gnn.storage.stamp import forget, verify_once

_PARTS = re.compile(r"parts-(\d+)-seed-\d+.*\.npy")

#: indptr, int64, and indices, int32, ascending in each row.
DerivedRows = tuple[NDArray[np.int64], NDArray[np.int32]]


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
    return np.array(parts)


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
            elif path.name.startswith("within-"):
                forget(path)
                read_rows(graph, path)
            elif path.name.startswith("table-"):
                forget(path)
                read_table(graph, path)
            else:
                continue
        except GraphError as error:
            yield path, str(error)
        else:
            yield path, ""


def _check_rows(folder: Path, indptr: NDArray[np.int64], indices: NDArray[np.int32], _changed: bool) -> None:
    for violation in row_violations("indptr", indptr, "indices", indices, len(indptr) - 1):
        raise GraphError(f"{folder} is damaged: {violation.rule}; {REMEDY}")
