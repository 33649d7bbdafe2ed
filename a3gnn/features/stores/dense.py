"""`DenseHostStore`: dense rows in host memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.caches.cache import DenseRowCache
from a3gnn.features.caches.static import DenseTier
from a3gnn.features.rows.row_kernels import locate
from a3gnn.features.rows.stored import DenseRows
from a3gnn.features.rows.table import Aggregator, RowTable, aggregate, gather, input_width, row_like
from a3gnn.features.rows.tensors import as_array
from a3gnn.features.stores.host import HostStore
from a3gnn.features.stores.store import ReadResult
from a3gnn.sampling.subgraph import Block
from a3gnn.storage.read_ahead import ReadAhead


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
