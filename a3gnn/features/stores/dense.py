"""`DenseHostStore`: dense rows in host memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.caches.cache import DenseRowCache
from a3gnn.features.caches.tier import DenseTier
from a3gnn.features.rows.aggregate import Aggregator, aggregate, gather, input_width
from a3gnn.features.rows.kernels import locate
from a3gnn.features.rows.stored import DenseRows
from a3gnn.features.rows.table import RowTable, row_like
from a3gnn.features.stores.host import HostStore
from a3gnn.features.stores.resident import ResidentPart
from a3gnn.features.stores.store import ReadResult
from a3gnn.sampling.subgraph import Block
from a3gnn.storage.read_ahead import ReadAhead


class DenseHostStore(HostStore[DenseTier, DenseRowCache]):
    """A `FeatureStore` of dense rows on the host, each read by its address in the fastest memory that holds it.

    Args:
        base: All rows.
        num_nodes: Nodes of the graph.
        num_features: Columns.
        cache: Rows in faster memory than `base`; None for no cache.
        parts: Each node's part, int32, shape (num_nodes,), to keep the current part's rows in RAM; None keeps none.
        owns_base: Whether `base` is anonymous memory.
    """

    is_sparse = False
    can_aggregate = True

    def __init__(
        self,
        base: DenseRows,
        num_nodes: int,
        num_features: int,
        *,
        cache: DenseRowCache | None = None,
        parts: NDArray[np.int32] | None = None,
        owns_base: bool = False,
    ) -> None:
        resident = ResidentPart(parts, partial(DenseTier.of, base, num_nodes=num_nodes))
        super().__init__(num_nodes, num_features, resident, cache, base.nbytes if owns_base else 0)
        self._base = base
        self._read_ahead = ReadAhead(base.array)

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns the rows of `ids` (`FeatureStore.read`).

        Raises:
            UsageError: An id is out of range, or `out` has another shape or dtype.
        """
        self.check(ids)
        x = _output(out, (len(ids), self.num_features))
        with self._reading(ids) as (table, hits):
            gather(table, x.numpy())
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
            aggregate(aggregator, table, block.indptr, block.indices, x.numpy())
        return ReadResult(x, hits)

    @contextmanager
    def _reading(self, ids: NDArray[np.int32]) -> Iterator[tuple[RowTable, int]]:
        """Surrounds one pass over the rows of `ids`: yields where they are, and how many are cached."""
        table = self._uncached(ids)
        serving = self._cache.serving(ids, table) if self._cache else nullcontext(0)
        with serving as hits, self._read_ahead.reading(table.addresses):
            yield table, hits

    def _uncached(self, ids: NDArray[np.int32]) -> RowTable:
        """Returns where the rows of `ids` are without the cache: in the resident part, or in the base."""
        base, addresses = self._base.array, np.empty(len(ids), dtype=np.int64)
        locate(base.ctypes.data, base.strides[0], ids, addresses)
        # Another epoch may enter its part meanwhile: the table keeps the rows alive that it points to.
        if (tier := self._resident.tier) is None:
            return RowTable(addresses, row_like(base), (base,))
        table = RowTable(addresses, row_like(base), (base, tier.rows.array))
        tier.redirect(ids, table)
        return table


def _output(out: torch.Tensor | None, shape: tuple[int, int]) -> torch.Tensor:
    x = torch.empty(shape, dtype=torch.float32) if out is None else out
    if x.shape != shape or x.dtype != torch.float32 or not x.is_contiguous():
        raise UsageError(f"out must be contiguous float32 of shape {shape}, got {x.dtype} of shape {tuple(x.shape)}")
    return x
