"""Edges on their way from any order to rows: files of pairs, one per range of targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.kernels import sort_into_buckets


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
