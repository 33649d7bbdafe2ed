"""`SparseHostStore`: sparse rows in host memory or on disk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.caches.static import SparseStaticCache, SparseTier
from a3gnn.features.rows.stored import CsrArrays, SparseRows, widened
from a3gnn.features.rows.table import Aggregator
from a3gnn.features.rows.tensors import csr
from a3gnn.features.stores.host import HostStore
from a3gnn.features.stores.store import ReadResult
from a3gnn.sampling.subgraph import Block


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
