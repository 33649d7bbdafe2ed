"""Feature rows in RAM or on disk, with rows of a cache and of the current part in faster memory before them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.cache import Tier
from a3gnn.features.csr import csr
from a3gnn.features.result import Rows
from a3gnn.features.rows import Csr, DenseRows, FeatureRows, SparseRows, widened

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
        self._resident: Tier | None = None
        self._part = -1

    @property
    def is_sparse(self) -> bool:
        """Whether `read` answers torch's sparse CSR."""
        return isinstance(self._base, SparseRows)

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
        # The kernels check no bounds.
        if len(ids) and (ids.min() < 0 or ids.max() >= self._num_nodes):
            raise UsageError(f"ids must be in [0, {self._num_nodes}), got ids from {ids.min()} to {ids.max()}")
        routes, hits = self._routes(ids)
        return Rows(self._sparse(len(ids), routes) if self.is_sparse else self._dense(len(ids), routes, out), hits)

    def _routes(self, ids: NDArray[np.int32]) -> tuple[Route, int]:
        where = np.arange(len(ids), dtype=np.int32)
        routes: Route = []
        for tier in (self._cache, self._resident):
            if tier is not None:
                places, places_at, ids, where = tier.split(ids, where)
                routes.append((tier.rows, places, places_at))
        hits = len(routes[0][1]) if self._cache else 0
        return [*routes, (self._base, ids, where)], hits

    def _dense(self, count: int, routes: Route, out: torch.Tensor | None) -> torch.Tensor:
        shape = (count, self.num_features)
        x = torch.empty(shape, dtype=torch.float32) if out is None else out
        if x.shape != shape or x.dtype != torch.float32:
            raise UsageError(f"out must be float32 of shape {shape}, got {x.dtype} of shape {tuple(x.shape)}")
        target = x.numpy()
        for rows, ids, where in routes:
            if isinstance(rows, DenseRows):
                rows.fill(ids, where, target)
        return x

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
