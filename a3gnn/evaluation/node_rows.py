"""`NodeRows`: what a model without a graph network reads of nodes: their features, and means of their in-neighbors'."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, issparse, vstack
from torch import Tensor

from a3gnn.evaluation.inference import CHUNK_BYTES
from a3gnn.evaluation.share import LeftOutError, Share
from a3gnn.graphs.arrays import row_slots
from a3gnn.graphs.graph import Graph
from a3gnn.models.feature_rows import FeatureRows

#: Rows, dense or sparse, float32; XGBoost predicts no csr_array.
Matrix: TypeAlias = "NDArray[np.float32] | csr_matrix"
#: Bytes of dense rows that are read at once, half of a chunk, because means are as large; and the fewest and the most
#: rows, which bound very wide rows, and pointers of narrow or sparse ones.
_READ_BYTES, _FEWEST, _MOST = CHUNK_BYTES // 2, 64, 4096
_CPU = torch.device("cpu")


class NodeRows:
    """Reads rows of nodes of a graph, with types of the target type.

    Args:
        graph: The graph, whose in-neighbors are in this process.
        has_neighbors: Whether `matrix` has the mean features of in-neighbors too, with types for each relation.

    Attributes:
        columns: Columns of a row of `matrix`.

    Raises:
        LeftOutError: The nodes have no features, or no in-neighbor has any.
    """

    def __init__(self, graph: Graph, *, has_neighbors: bool = False) -> None:
        self._graph, types = graph, graph.types
        self._means: list[tuple[int | None, int, FeatureRows]] = []
        if types is None:
            self._first, self._own = 0, FeatureRows(graph.features)
            self._means = [(None, 0, self._own)] if has_neighbors else []
        else:
            rows = {
                kind: FeatureRows(one)
                for kind, one in zip(types.schema.types, types.features, strict=True)
                if one is not None
            }
            if types.target not in rows:
                raise LeftOutError(f"{types.target} nodes have no features")
            self._first, self._own = types.first, rows[types.target]
            if has_neighbors:
                self._means = [
                    (place, types.schema.first_node(one.source), rows[one.source])
                    for place, one in enumerate(types.schema.relations)
                    if one.target == types.target and one.source in rows
                ]
        if has_neighbors and not self._means:
            raise LeftOutError("no in-neighbors have features")
        self.columns = self._own.columns + sum(one.columns for _, _, one in self._means)

    @property
    def is_sparse(self) -> bool:
        """Whether `read` returns sparse CSR."""
        return self._own.is_sparse

    def read(self, ids: NDArray[np.int32]) -> Tensor:
        """Returns the features of the nodes `ids`, ascending: float32, dense or sparse CSR, shape (n, features)."""
        return self._own.read(ids - np.int32(self._first), _CPU)

    def chunks(self, ids: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
        """Yields `ids` some at a time, so that their rows take some MiB."""
        size = _rows_at_once(self._own, self.columns)
        for low in range(0, len(ids), size):
            yield ids[low : low + size]

    def matrix(self, ids: NDArray[np.int32]) -> Matrix:
        """Returns the rows of the nodes `ids`, ascending, shape (n, columns); NaN or no entries without in-neighbors.

        A sparse row's missing entries are zeros and means without in-neighbors alike.
        """
        parts = [_as_matrix(self.read(ids)), *(self._mean(ids, *one) for one in self._means)]
        if len(parts) == 1:
            return parts[0]
        return csr_matrix(hstack(parts, format="csr")) if any(map(issparse, parts)) else np.hstack(parts)

    def whole_matrix(self, ids: NDArray[np.int32], share: Share, copies: float) -> Matrix:
        """Returns `matrix` of many nodes.

        Raises:
            LeftOutError: `copies` of it exceed the share of memory, or the seconds are over.
        """
        parts: list[Matrix] = []
        rows = taken = 0
        for some in self.chunks(ids):
            share.check()
            parts.append(self.matrix(some))
            rows, taken = rows + len(some), taken + _nbytes(parts[-1])
            share.need_bytes(copies * taken * len(ids) / rows)
        return csr_matrix(vstack(parts, format="csr")) if issparse(parts[0]) else np.concatenate(parts)

    def _mean(self, ids: NDArray[np.int32], relation: int | None, first: int, features: FeatureRows) -> Matrix:
        """Returns the mean features of each node's in-neighbors in a relation."""
        graph, types = self._graph, self._graph.types
        if types is None or relation is None:
            pointers, rows = graph.indptr, ids
        else:
            pointers, rows = types.rows, types.schema.rows(relation, ids - np.int32(self._first)).astype(np.int32)
        own, slots = row_slots(pointers, rows)
        sources, places = np.unique(graph.indices[slots] - np.int32(first), return_inverse=True)
        counts = np.diff(own)
        shape = len(ids), features.columns
        if not len(sources):
            return csr_matrix(shape, dtype=np.float32) if features.is_sparse else np.full(shape, np.nan, np.float32)
        weights = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
        shares = csr_matrix((weights, places, own), shape=(len(ids), len(sources))).tocsc()
        size = _rows_at_once(features, features.columns)
        blocks = (slice(low, low + size) for low in range(0, len(sources), size))  # a hub may have all nodes
        means = sum(shares[:, some] @ _as_matrix(features.read(sources[some], _CPU)) for some in blocks)
        if features.is_sparse:
            means = csr_matrix(means)
            means.sort_indices()
            return means
        means[counts == 0] = np.nan
        return np.asarray(means, dtype=np.float32)


def _rows_at_once(features: FeatureRows, columns: int) -> int:
    width = 1 if features.is_sparse else columns
    return min(max(_READ_BYTES // (4 * width), _FEWEST), _MOST)


def _as_matrix(rows: Tensor) -> Matrix:
    if not rows.is_sparse_csr:
        dense: NDArray[np.float32] = rows.numpy()
        return dense
    parts: tuple[Any, ...] = rows.values().numpy(), rows.col_indices().numpy(), rows.crow_indices().numpy()
    return csr_matrix(parts, shape=tuple(rows.shape))


def _nbytes(matrix: Matrix) -> int:
    if isinstance(matrix, np.ndarray):
        return matrix.nbytes
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
