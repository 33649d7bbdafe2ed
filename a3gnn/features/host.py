"""Feature rows in RAM or on disk, with rows of a cache and of the current part in faster memory before them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.aggregate import Aggregator, aggregate, gather, input_width
from a3gnn.features.cache import Tier
from a3gnn.features.csr import csr
from a3gnn.features.result import Rows
from a3gnn.features.row_kernels import locate, relocate
from a3gnn.features.rows import Csr, DenseRows, FeatureRows, SparseRows, widened
from a3gnn.features.table import RowTable, blank_row
from a3gnn.graphs.read_ahead import ReadAhead
from a3gnn.sampling.subgraph import Block

#: Where rows come from in one read: the rows, which of them, and to which rows of the output.
Route = list[tuple[FeatureRows, NDArray[np.int32], NDArray[np.int32]]]


class HostFeatures:
    """A `FeatureStore` in host memory and on disk.

    Args:
        base: All rows.
        num_nodes: Nodes of the graph.
        num_features: Columns.
        cached: Nodes whose rows are copied into the cache, sorted; empty for no cache.
        parts: Each node's part, int32, shape (num_nodes,), to keep the current part's rows in RAM; None keeps none.
        owns_base: Whether `base` is anonymous memory.
    """

    def __init__(
        self,
        base: FeatureRows,
        num_nodes: int,
        num_features: int,
        *,
        cached: NDArray[np.int32],
        parts: NDArray[np.int32] | None = None,
        owns_base: bool = False,
    ) -> None:
        self.num_features = num_features
        self.cached = cached
        self.device = "cpu"
        self._base = base
        self._num_nodes = num_nodes
        self._owns_base = owns_base
        self._parts = parts
        self._cache = Tier.of(base, cached, num_nodes) if len(cached) else None
        self._ahead = ReadAhead(base.array if isinstance(base, DenseRows) else np.empty((0, 0), dtype=np.float32))
        self._resident: Tier | None = None
        self._part = -1

    @property
    def is_sparse(self) -> bool:
        """Whether `read` answers torch's sparse CSR."""
        return isinstance(self._base, SparseRows)

    @property
    def can_aggregate(self) -> bool:
        """Whether `read_aggregated` works: the rows are dense."""
        return not self.is_sparse

    @property
    def cache_bytes(self) -> int:
        """What the cache really takes, its map included."""
        return self._cache.nbytes if self._cache else 0

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds."""
        base = self._base.nbytes if self._owns_base else 0
        return base + self.cache_bytes + (self._resident.nbytes if self._resident else 0)

    def enter_part(self, part: int) -> None:
        """Copies the rows of `part` into RAM in place of the last part's; nothing where no part is kept."""
        if self._parts is None or part == self._part:
            return
        # The old part goes first: two at once would be the peak of the memory that partitions are to save.
        self._resident = None
        nodes = np.flatnonzero(self._parts == part).astype(np.int32)
        self._resident = Tier.of(self._base, nodes, self._num_nodes)
        self._part = part

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> Rows:
        """Returns the rows of `ids`, and how many the cache served. Safe to call from several threads.

        Args:
            ids: Global node ids, int32.
            out: Where dense rows go: float32, shape (len(ids), num_features), contiguous; sparse rows ignore it.

        Raises:
            UsageError: An id is out of range, or `out` has another shape or dtype.
        """
        self._check(ids)
        if isinstance(self._base, SparseRows):
            routes, hits = self._routes(ids)
            return Rows(self._sparse(len(ids), routes), hits)
        table, hits = self._table(ids, self._base)
        x = _output(out, (len(ids), self.num_features))
        with self._ahead.reading(table.addresses):
            gather(table, x.numpy())
        return Rows(x, hits)

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> Rows:
        """Returns what the input layer's destinations need of the rows of `ids`, and how many the cache served.

        One pass over the rows, which are never copied by themselves. Safe to call from several threads.

        Args:
            ids: Global ids of the block's sources, int32.
            block: The input layer's.
            aggregator: mean gives (num_dst, 2 num_features), the mean and the own row; sum and gcn (num_dst,
                num_features), the own row included.
            out: Where it goes, float32, contiguous; None takes fresh memory.

        Raises:
            UsageError: The rows are sparse, an id is out of range, or `out` has another shape or dtype.
        """
        self._check(ids)
        if not isinstance(self._base, DenseRows):
            raise UsageError("read_aggregated needs dense features, got sparse ones; read them and aggregate later")
        table, hits = self._table(ids, self._base)
        x = _output(out, (block.num_dst, input_width(aggregator, self.num_features)))
        with self._ahead.reading(table.addresses):
            aggregate(aggregator, table, block.indptr, block.indices, x.numpy())
        return Rows(x, hits)

    def _check(self, ids: NDArray[np.int32]) -> None:
        # The kernels check no bounds.
        if len(ids) and (ids.min() < 0 or ids.max() >= self._num_nodes):
            raise UsageError(f"ids must be in [0, {self._num_nodes}), got ids from {ids.min()} to {ids.max()}")

    def _table(self, ids: NDArray[np.int32], base: DenseRows) -> tuple[RowTable, int]:
        """Returns where the row of each of `ids` lies, in the fastest tier that has it, and how many the cache has."""
        addresses = np.empty(len(ids), dtype=np.int64)
        owners, row_bytes, hits = [base.array], base.array.strides[0], 0
        locate(base.array.ctypes.data, row_bytes, ids, addresses)
        for tier in (self._resident, self._cache):
            if tier is not None and isinstance(tier.rows, DenseRows):
                owners.append(tier.rows.array)
                found = relocate(tier.rows.array.ctypes.data, row_bytes, tier.position, ids, addresses)
                hits = found if tier is self._cache else 0
        return RowTable(addresses, blank_row(base.array), tuple(owners)), hits

    def _routes(self, ids: NDArray[np.int32]) -> tuple[Route, int]:
        where = np.arange(len(ids), dtype=np.int32)
        routes: Route = []
        for tier in (self._cache, self._resident):
            if tier is not None:
                places, places_at, ids, where = tier.split(ids, where)
                routes.append((tier.rows, places, places_at))
        hits = len(routes[0][1]) if self._cache else 0
        return [*routes, (self._base, ids, where)], hits

    def _sparse(self, count: int, routes: Route) -> torch.Tensor:
        sparse = [(rows, ids, where) for rows, ids, where in routes if isinstance(rows, SparseRows)]
        indptr = np.zeros(count + 1, dtype=np.int64)
        for rows, ids, where in sparse:
            rows.lengths(ids, where, indptr[1:])
        np.cumsum(indptr, out=indptr)
        out = Csr(indptr, np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=sparse[0][0].csr.data.dtype))
        for rows, ids, where in sparse:
            rows.fill(ids, where, out)
        # torch's CSR wants both index arrays of one type; a mini-batch's rows stay below 2**31 entries in practice.
        crow = torch.from_numpy(indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr)
        columns = torch.from_numpy(out.indices)
        values = torch.from_numpy(widened(out.data))
        return csr(crow, columns.to(crow.dtype), values, (count, self.num_features))


def _output(out: torch.Tensor | None, shape: tuple[int, int]) -> torch.Tensor:
    x = torch.empty(shape, dtype=torch.float32) if out is None else out
    if x.shape != shape or x.dtype != torch.float32 or not x.is_contiguous():
        raise UsageError(f"out must be contiguous float32 of shape {shape}, got {x.dtype} of shape {tuple(x.shape)}")
    return x
