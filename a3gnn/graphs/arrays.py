"""`GraphArrays`: the arrays of one graph, which every reader returns and every writer takes; and ranges of CSR rows."""

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
from a3gnn.graphs.links import Links
from a3gnn.graphs.types import GraphTypes, Types
from a3gnn.metric import Target

#: Most nodes of a graph: ids are int32.
MAX_NODES = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class GraphArrays:
    """An attributed, labeled, directed graph; its arrays may be memory maps and must not be written to.

    Attributes:
        name: Shown to users.
        indptr: int64, shape (num_nodes + 1,). In-neighbors of v: `indices[indptr[v]:indptr[v + 1]]`, ascending.
        indices: int32, shape (num_edges,).
        features: Dense or CSR rows, one per node.
        labels: Of one of three kinds (`a3gnn.graphs.labels`): classes, several labels per node, or values. For `links`,
            zeros, or the values of edges that are predicted.
        train_ids: Train seeds, int32, ascending; numbers of `links` if they are predicted, as the other ids.
        val_ids: Validation nodes, int32, ascending.
        test_ids: Test nodes, int32, ascending.
        num_classes: A model's outputs per node: the number of classes, each label below it; the number of labels; or 1
            for values.
        notes: Remarks for users on how the graph was read, such as self loops and removed duplicates.
        folder: The converted folder that the graph was opened from, if any.
        source: Identity of the file that the graph was read from (`a3gnn.storage.graph_copies.source_of`), if any.
        known: Its characteristics, if the folder contained them.
        types: Node types, relations and the features of each type; None for a graph without types. With types,
            `features` has no columns, nodes count through all types, and `indices` ascend in each row of `Types`.
        edge_attr: Attributes of edges, aligned with `indices`, float32, shape (num_edges, columns); None without any.
            With types, `Types.edge_columns` has the columns of each relation.
        edge_weight: Weights of edges, float32, shape (num_edges,); None without any.
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
    types: Types | None = None
    edge_attr: NDArray[np.float32] | None = None
    edge_weight: NDArray[np.float32] | None = None

    @property
    def target(self) -> Target:
        """Kind of the labels, which are of nodes or of edges: classes, labels or values. Or links."""
        return target_of(self.labels) if self.links is None or self.links.valued else "links"

    @property
    def links(self) -> Links | None:
        """The links or edges that are predicted: labels and ids of the split are theirs. None if nodes are."""
        return None if self.types is None else self.types.links

    @property
    def num_examples(self) -> int:
        """Nodes, or links if they are predicted: the rows of labels."""
        return self.num_nodes if self.links is None else self.links.pairs.shape[1]

    def nodes_of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns the nodes of the examples `ids`, int32: themselves, or the distinct sources of links, ascending."""
        if self.types is None or self.links is None:
            return ids
        first = np.int32(self.types.schema.first_node(self.links.ends[0]))
        return np.unique(self.links.pairs[0, ids]) + first

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
        """Columns of the feature matrix; with types, the most of a type."""
        return self.features.shape[1] if self.types is None else self.types.for_model.width

    @property
    def in_channels(self) -> int | GraphTypes:
        """What a model's factory gets as its first argument: columns of features, or the types."""
        return self.num_features if self.types is None else self.types.for_model

    @property
    def target_type(self) -> str:
        """The predicted node type; "" without types."""
        return "" if self.types is None else self.types.target.partition(",")[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns all arrays by their names in a converted folder."""
        return {
            "indptr": self.indptr,
            "indices": self.indices,
            "labels": self.labels,
            "train_ids": self.train_ids,
            "val_ids": self.val_ids,
            "test_ids": self.test_ids,
            **self.features.arrays(),
            **({} if self.types is None else self.types.arrays()),
            **self.edge_values,
        }

    @property
    def edge_values(self) -> dict[str, NDArray[np.float32]]:
        """The values of edges that there are, by name."""
        values = {"edge_attr": self.edge_attr, "edge_weight": self.edge_weight}
        return {name: array for name, array in values.items() if array is not None}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content (BLAKE2b over names, dtypes, shapes and bytes): equal wherever the graph is stored."""
        return self.content_fingerprint() if self.known is None else self.known.fingerprint

    def content_fingerprint(self) -> str:
        """Returns the fingerprint of the arrays' present content, even if their folder states another."""
        digest = hashlib.blake2b(digest_size=16)
        for name, array in sorted(self.arrays().items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        if self.types is not None:
            digest.update(repr(self.types.to_dict()).encode())
        return digest.hexdigest()


def row_spans(indptr: NDArray[np.integer], most: int, most_rows: int = sys.maxsize) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows, in order, of at most `most` entries; a longer row is a range of its own.

    Args:
        indptr: Start of each row and end of the last one, shape (n_rows + 1,).
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
    """Returns the CSR of rows `ids`: its indptr, and the position of each entry in the whole CSR; both int64."""
    starts = indptr[ids]
    counts = indptr[ids.astype(np.int64) + 1] - starts
    own = np.concatenate([[0], np.cumsum(counts)])
    return own, np.arange(own[-1]) + np.repeat(starts - own[:-1], counts)
