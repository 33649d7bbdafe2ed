"""Feature rows in RAM or on disk, with rows of a cache and of the current part in faster memory before them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.aggregate import Aggregator, aggregate, gather, input_width
from a3gnn.features.csr import csr
from a3gnn.features.policies.dynamic import DynamicCache
from a3gnn.features.policies.static import StaticCache
from a3gnn.features.policies.stats import NO_CACHE, CacheStats
from a3gnn.features.result import Rows
from a3gnn.features.row_kernels import locate
from a3gnn.features.rows import Csr, DenseRows, FeatureRows, SparseRows, widened
from a3gnn.features.table import RowTable, blank_row
from a3gnn.features.tier import Tier
from a3gnn.graphs.read_ahead import ReadAhead
from a3gnn.sampling.subgraph import Block

#: Where rows come from in one read: the rows, which of them, and to which rows of the output.
Route = list[tuple[FeatureRows, NDArray[np.int32], NDArray[np.int32]]]

_NOBODY = np.empty(0, dtype=np.int32)


class HostFeatures:
    """A `FeatureStore` in host memory and on disk.

    Args:
        base: All rows.
        num_nodes: Nodes of the graph.
        num_features: Columns.
        cache: Rows in faster memory than `base`.
        parts: Each node's part, int32, shape (num_nodes,), to keep the current part's rows in RAM; None keeps none.
        owns_base: Whether `base` is anonymous memory.
    """

    def __init__(
        self,
        base: FeatureRows,
        num_nodes: int,
        num_features: int,
        *,
        cache: StaticCache | DynamicCache | None = None,
        parts: NDArray[np.int32] | None = None,
        owns_base: bool = False,
    ) -> None:
        self.num_features = num_features
        self.device = "cpu"
        self._base = base
        self._num_nodes = num_nodes
        self._owns_base = owns_base
        self._parts = parts
        self._cache = cache
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
    def cached(self) -> NDArray[np.int32]:
        """The nodes that a static cache holds, sorted; none where the cache changes."""
        return self._cache.cached if isinstance(self._cache, StaticCache) else _NOBODY

    @property
    def cache_bytes(self) -> int:
        """What the cache really takes, its maps included."""
        return self._cache.nbytes if self._cache else 0

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of the cache so far."""
        return self._cache.stats if self._cache else NO_CACHE

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
        self.check(ids)
        if isinstance(self._base, SparseRows):
            routes, hits = self._routes(ids)
            return Rows(self._sparse(len(ids), routes), hits)
        x = _output(out, (len(ids), self.num_features))
        with self._serving(ids, self._base) as (table, hits):
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
        self.check(ids)
        if not isinstance(self._base, DenseRows):
            raise UsageError("read_aggregated needs dense features, got sparse ones; read them and aggregate later")
        x = _output(out, (block.num_dst, input_width(aggregator, self.num_features)))
        with self._serving(ids, self._base) as (table, hits):
            aggregate(aggregator, table, block.indptr, block.indices, x.numpy())
        return Rows(x, hits)

    def check(self, ids: NDArray[np.int32]) -> None:
        """Refuses ids that are out of range.

        Raises:
            UsageError: One is.
        """
        # The kernels check no bounds.
        if len(ids) and (ids.min() < 0 or ids.max() >= self._num_nodes):
            raise UsageError(f"ids must be in [0, {self._num_nodes}), got ids from {ids.min()} to {ids.max()}")

    @contextmanager
    def _serving(self, ids: NDArray[np.int32], base: DenseRows) -> Iterator[tuple[RowTable, int]]:
        """Surrounds a pass over the rows of `ids`: yields where they lie, and how many the cache has."""
        table = self._table(ids, base)
        serving = self._cache.serving(ids, table) if self._cache else nullcontext(0)
        with serving as hits, self._ahead.reading(table.addresses):
            yield table, hits

    def _table(self, ids: NDArray[np.int32], base: DenseRows) -> RowTable:
        """Returns where the row of each of `ids` lies without the cache: in the resident part, or in the base."""
        resident, addresses = self._resident, np.empty(len(ids), dtype=np.int64)
        locate(base.array.ctypes.data, base.array.strides[0], ids, addresses)
        if resident is None or not isinstance(resident.rows, DenseRows):
            return RowTable(addresses, blank_row(base.array), (base.array,))
        # Another epoch may enter its part meanwhile: the table keeps the rows that it points to.
        table = RowTable(addresses, blank_row(base.array), (base.array, resident.rows.array))
        resident.redirect(ids, table)
        return table

    def _routes(self, ids: NDArray[np.int32]) -> tuple[Route, int]:
        where, hits = np.arange(len(ids), dtype=np.int32), 0
        routes: Route = []
        if isinstance(self._cache, StaticCache):
            places, places_at, ids, where = self._cache.split(ids, where)
            routes.append((self._cache.rows, places, places_at))
            hits = len(places)
        if (resident := self._resident) is not None:
            places, places_at, ids, where = resident.split(ids, where)
            routes.append((resident.rows, places, places_at))
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
