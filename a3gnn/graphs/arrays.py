"""The arrays of one graph: what every reader returns and every writer takes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.labels import target_of
from a3gnn.metric import Target


def row_spans(indptr: NDArray[np.integer], most: int, most_rows: int = sys.maxsize) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows, in order, that hold `most` entries at most, or of one row that holds more.

    Args:
        indptr: Where each row begins and the last one ends, shape (n_rows + 1,).
        most: Entries per range.
        most_rows: Rows per range.
    """
    first, rows = 0, len(indptr) - 1
    while first < rows:
        reach = int(np.searchsorted(indptr, int(indptr[first]) + most, side="right")) - 1
        last = min(max(first + 1, reach), first + most_rows)
        yield first, last
        first = last


def row_slots(indptr: NDArray[np.int64], ids: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the rows `ids` as a CSR of their own: its indptr, and where each entry lies in the whole; both int64."""
    starts = indptr[ids]
    counts = indptr[ids.astype(np.int64) + 1] - starts
    own = np.concatenate([[0], np.cumsum(counts)])
    return own, np.arange(own[-1]) + np.repeat(starts - own[:-1], counts)


@dataclass(frozen=True, eq=False, repr=False)
class GraphArrays:
    """An attributed, labelled, directed graph; its arrays may be memory maps and must not be written to.

    Attributes:
        name: For people.
        indptr: int64, shape (num_nodes + 1,). In-neighbours of v: `indices[indptr[v]:indptr[v + 1]]`, ascending.
        indices: int32, shape (num_edges,).
        features: Dense or CSR rows, one per node.
        labels: Of one of three kinds (`a3gnn.graphs.labels`): classes, several labels per node, or values.
        train_ids: Train seeds, int32, ascending.
        val_ids: Validation nodes, int32, ascending.
        test_ids: Test nodes, int32, ascending.
        num_classes: What a model puts out per node: classes, of which each label is below it; labels; or 1, a value.
        notes: What people should know of how the graph was read: self loops, duplicates that were removed.
        folder: The converted folder that it was opened from, if it was.
        source: Identity of the file that it was read from (`a3gnn.storage.cache.source_of`), if it was.
        known: Its characteristics, if the folder had them.
    """

    name: str
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    features: DenseFeatures | SparseFeatures
    labels: NDArray[Any]
    train_ids: NDArray[np.int32]
    val_ids: NDArray[np.int32]
    test_ids: NDArray[np.int32]
    num_classes: int
    notes: tuple[str, ...] = ()
    folder: Path | None = None
    source: str | None = None
    known: GraphCharacteristics | None = None

    @property
    def target(self) -> Target:
        """What the labels are: classes, labels or values."""
        return target_of(self.labels)

    @property
    def num_nodes(self) -> int:
        """Nodes."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Directed edges."""
        return len(self.indices)

    @property
    def num_features(self) -> int:
        """Columns of the feature matrix."""
        return self.features.shape[1]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns all arrays by the names that a converted folder gives them."""
        return {
            "indptr": self.indptr,
            "indices": self.indices,
            "labels": self.labels,
            "train_ids": self.train_ids,
            "val_ids": self.val_ids,
            "test_ids": self.test_ids,
            **self.features.arrays(),
        }

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content (BLAKE2b over names, dtypes, shapes and bytes): equal wherever the graph is stored."""
        return self.content_fingerprint() if self.known is None else self.known.fingerprint

    def content_fingerprint(self) -> str:
        """Returns the fingerprint of what the arrays hold now, whatever their folder says of them."""
        digest = hashlib.blake2b(digest_size=16)
        for name, array in sorted(self.arrays().items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()
