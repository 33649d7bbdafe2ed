"""Stores of rows in host memory: `DenseHostStore`, `SparseHostStore`, and their common base `HostStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.ahead import AheadCache
from a3gnn.features.cache import (
    NO_CACHE,
    AnyRows,
    AnyTier,
    CacheStats,
    DenseRowCache,
    DenseTier,
    RowCache,
    SparseStaticCache,
    SparseTier,
)
from a3gnn.features.row_kernels import locate
from a3gnn.features.row_table import Aggregator, RowTable, aggregate, gather, input_width, row_like
from a3gnn.features.store import ReadResult
from a3gnn.features.stored_rows import CsrArrays, DenseRows, SparseRows, widened
from a3gnn.features.tensors import as_array
from a3gnn.sampling.subgraph import Block
from a3gnn.storage.csr_tensor import csr
from a3gnn.storage.mapping import ReadAhead

AnyCache = TypeVar("AnyCache", bound=RowCache)
_NO_NODES = np.empty(0, dtype=np.int32)


class ResidentPart(Generic[AnyTier]):
    """Keeps the rows of one part at a time in RAM, for training part by part.

    Args:
        parts: Each node's part, int32, shape (num_nodes,); None keeps nothing.
        copied: Returns the tier with the rows of some nodes.

    Attributes:
        tier: The current part's rows; None before the first part, and without parts.
    """

    def __init__(self, parts: NDArray[np.int32] | None, copied: Callable[[NDArray[np.int32]], AnyTier]) -> None:
        self.tier: AnyTier | None = None
        self._parts = parts
        self._copied = copied
        self._part = -1

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self.tier.nbytes if self.tier else 0

    def enter(self, part: int) -> None:
        """Replaces the rows of the last part by the rows of `part`."""
        if self._parts is None or part == self._part:
            return
        # The old part is freed first. Both at once would be the peak of memory that partitions are meant to lower.
        self.tier = None
        self.tier = self._copied(np.flatnonzero(self._parts == part).astype(np.int32))
        self._part = part


class HostStore(Generic[AnyRows, AnyTier, AnyCache]):
    """Rows in host memory or on disk, behind an optional cache and an optional resident part.

    Args:
        num_nodes: Nodes of the graph.
        num_features: Columns.
        cache: Rows in faster memory than `base`; None for no cache.
        parts: Each node's part, int32, shape (num_nodes,), to keep the current part's rows in RAM; None keeps none.
        owns_base: Whether `base` is anonymous memory.
        cache_of: Returns a cache of at most this many bytes, or None if not one row fits; None if the size is fixed.
    """

    device = "cpu"
    #: Type of the copy of a part's rows.
    tier: type[AnyTier]

    def __init__(
        self,
        base: AnyRows,
        num_nodes: int,
        num_features: int,
        *,
        cache: AnyCache | None = None,
        parts: NDArray[np.int32] | None = None,
        owns_base: bool = False,
        cache_of: Callable[[int], AnyCache | None] | None = None,
    ) -> None:
        self.num_features = num_features
        self._base: AnyRows = base
        self._num_nodes = num_nodes
        self._resident: ResidentPart[AnyTier] = ResidentPart(parts, partial(self.tier.of, base, num_nodes=num_nodes))
        self._cache, self._cache_of = cache, cache_of
        self._owned_bytes = base.nbytes if owns_base else 0

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes that a static cache holds, int32, sorted; none with a dynamic cache, whose rows are replaced."""
        return self._cache.cached if self._cache else _NO_NODES

    @property
    def cache_bytes(self) -> int:
        """Bytes that the cache takes, its maps included; 0 without one."""
        return self._cache.nbytes if self._cache else 0

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of the cache so far."""
        return self._cache.stats if self._cache else NO_CACHE

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds."""
        return self._owned_bytes + self.cache_bytes + self._resident.nbytes

    @property
    def row_bytes(self) -> int:
        """Mean bytes of a row as it is stored."""
        return self._base.nbytes // self._num_nodes

    @property
    def can_resize(self) -> bool:
        """Whether `resize` works."""
        return self._cache_of is not None

    def resize(self, cache_bytes: int) -> None:
        """Replaces the cache by one of at most `cache_bytes`, maps included; its counts start at 0.

        Reads return the same values afterwards. No thread may read during the call.

        Raises:
            UsageError: The store was opened with a cache of a fixed size.
        """
        if self._cache_of is None:
            raise UsageError("resize needs a store that was opened by a configuration (open_features)")
        self._cache = None  # freed before the new one is filled: both at once would be a peak of memory
        self._cache = self._cache_of(cache_bytes)

    def enter_part(self, part: int) -> None:
        """Replaces the last part's rows in RAM by the rows of `part`; does nothing if the store keeps none."""
        self._resident.enter(part)

    def check(self, ids: NDArray[np.int32]) -> None:
        """Checks that `ids` are nodes, because the kernels check no bounds.

        Raises:
            UsageError: An id is out of range.
        """
        if len(ids) and (ids.min() < 0 or ids.max() >= self._num_nodes):
            raise UsageError(f"ids must be in [0, {self._num_nodes}), got ids from {ids.min()} to {ids.max()}")


class DenseHostStore(HostStore[DenseRows, DenseTier, DenseRowCache]):
    """A `FeatureStore` of dense rows on the host; each row is read by its address in the fastest memory that holds it.

    The arguments are the same as for `HostStore`.
    """

    is_sparse = False
    can_aggregate = True
    tier = DenseTier

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns the rows of `ids` (`FeatureStore.read`).

        Raises:
            UsageError: An id is out of range, or `out` has another shape or dtype.
        """
        self.check(ids)
        x = _output(out, (len(ids), self.num_features))
        with self._reading(ids) as (table, hits):
            gather(table, as_array(x))
        return ReadResult(x, hits)

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> ReadResult:
        """Returns the rows of `ids`, aggregated by destination in one pass (`FeatureStore.read_aggregated`).

        Raises:
            UsageError: An id is out of range, or `out` has another shape or dtype.
        """
        self.check(ids)
        x = _output(out, (block.num_dst, input_width(aggregator, self.num_features)))
        with self._reading(ids) as (table, hits):
            aggregate(aggregator, table, block.indptr, block.indices, as_array(x))
        return ReadResult(x, hits)

    @property
    def ahead(self) -> AheadCache | None:
        """The cache that a pipeline fills with the rows of the next mini-batches, if there is one."""
        return self._cache if isinstance(self._cache, AheadCache) else None

    @cached_property
    def _read_ahead(self) -> ReadAhead:
        # Threads that read first may make one each; all learn the same, and the last one stays.
        return ReadAhead(self._base.array)

    @contextmanager
    def _reading(self, ids: NDArray[np.int32]) -> Iterator[tuple[RowTable, int]]:
        """Wraps one pass over the rows of `ids`: yields their addresses, and how many are cached."""
        table = self._uncached(ids)
        serving = self._cache.serving(ids, table) if self._cache else nullcontext(0)
        with serving as hits, self._read_ahead.reading(table.addresses):
            yield table, hits

    def _uncached(self, ids: NDArray[np.int32]) -> RowTable:
        """Returns the addresses of the rows of `ids` without the cache: in the resident part, or in the base."""
        base, addresses = self._base.array, np.empty(len(ids), dtype=np.int64)
        locate(base.ctypes.data, base.strides[0], ids, addresses)
        # Another epoch may enter its part meanwhile; the table keeps its own rows alive.
        if (tier := self._resident.tier) is None:
            return RowTable(addresses, row_like(base), (base,))
        table = RowTable(addresses, row_like(base), (base, tier.rows.array))
        tier.redirect(ids, table)
        return table


def _output(out: torch.Tensor | None, shape: tuple[int, int]) -> torch.Tensor:
    x = torch.empty(shape, dtype=torch.float32) if out is None else out
    if x.shape != shape or x.dtype not in (torch.float32, torch.bfloat16) or not x.is_contiguous():
        raise UsageError(
            f"out must be contiguous float32 or bfloat16 of shape {shape}, got {x.dtype} of shape {tuple(x.shape)}"
        )
    return x


class _Source(NamedTuple):
    """Rows `ids` of `rows`, for rows `where` of the output; int32."""

    rows: SparseRows
    ids: NDArray[np.int32]
    where: NDArray[np.int32]


class SparseHostStore(HostStore[SparseRows, SparseTier, SparseStaticCache]):
    """A `FeatureStore` of sparse rows on the host; each read copies its rows to one CSR matrix.

    The arguments are the same as for `HostStore`.
    """

    is_sparse = True
    can_aggregate = False
    tier = SparseTier

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns the rows of `ids` as torch's sparse CSR (`FeatureStore.read`); `out` is ignored.

        Raises:
            UsageError: An id is out of range.
        """
        self.check(ids)
        sources, hits = self._sources(ids)
        indptr = np.zeros(len(ids) + 1, dtype=np.int64)
        for rows, taken, where in sources:
            rows.lengths(taken, where, indptr[1:])
        np.cumsum(indptr, out=indptr)
        data = np.empty(indptr[-1], dtype=self._base.csr.data.dtype)
        copy = CsrArrays(indptr, np.empty(indptr[-1], dtype=np.int32), data)
        for rows, taken, where in sources:
            rows.fill(taken, where, copy)
        return ReadResult(_tensor(copy, (len(ids), self.num_features)), hits)

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> ReadResult:
        """Always raises, because sparse rows can't be aggregated in the read (`can_aggregate` is False).

        Raises:
            UsageError: Always.
        """
        raise UsageError("read_aggregated needs dense features, got sparse ones; read them and aggregate later")

    def _sources(self, ids: NDArray[np.int32]) -> tuple[list[_Source], int]:
        """Returns the place of the rows of `ids` (cache, resident part or base), and the number of cached rows."""
        where, hits = np.arange(len(ids), dtype=np.int32), 0
        sources = []
        for tier in (self._cache, self._resident.tier):
            if tier is not None:
                positions, hits_where, ids, where = tier.split(ids, where)
                sources.append(_Source(tier.rows, positions, hits_where))
                hits += len(positions) if tier is self._cache else 0
        return [*sources, _Source(self._base, ids, where)], hits


def _tensor(rows: CsrArrays, size: tuple[int, int]) -> torch.Tensor:
    indptr, indices, data = rows
    # torch's CSR needs both index arrays of one dtype; the rows of one mini-batch rarely pass 2**31 entries.
    crow = torch.from_numpy(indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr)
    return csr(crow, torch.from_numpy(indices).to(crow.dtype), torch.from_numpy(widened(data)), size)
