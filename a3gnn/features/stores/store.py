"""`FeatureStore`: what a feature store offers, and what a read of it returns."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.caches.cache import CacheStats
from a3gnn.features.rows.table import Aggregator
from a3gnn.sampling.subgraph import Block


class ReadResult(NamedTuple):
    """What a read returns.

    Attributes:
        x: The rows, shape (num_ids, num_features): dense float32, or bfloat16 where they were read to memory of that
            dtype, or torch's sparse CSR where the features are sparse; or their aggregates, (num_dst, input_width).
        hits: How many of the rows were cached.
    """

    x: torch.Tensor
    hits: int


class FeatureStore(Protocol):
    """Feature rows by node id. `read` returns the same values whatever the tiers and the cache."""

    @property
    def num_features(self) -> int:
        """Columns."""

    @property
    def is_sparse(self) -> bool:
        """Whether `read` returns torch's sparse CSR."""

    @property
    def can_aggregate(self) -> bool:
        """Whether `read_aggregated` works: the rows are dense and on the host."""

    @property
    def row_bytes(self) -> int:
        """Mean bytes of a row as it is stored."""

    @property
    def device(self) -> str:
        """Where the rows that `read` returns are: cpu or cuda."""

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes that a static cache holds, int32, sorted; none with a dynamic cache, whose rows are replaced."""

    @property
    def cache_bytes(self) -> int:
        """Bytes that the cache takes, its maps included; 0 without one."""

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of the cache so far."""

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds."""

    def enter_part(self, part: int) -> None:
        """Copies the rows of `part` to RAM in place of the last part's, where the store keeps one part in RAM."""

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns the rows of `ids`. Thread-safe.

        Args:
            ids: Global node ids, int32.
            out: Where dense rows go: float32 or bfloat16, which rounds them, shape (len(ids), num_features),
                contiguous, on the store's device. None allocates float32; sparse rows ignore it.

        Raises:
            UsageError: An id is out of range, or `out` has another shape or dtype.
        """

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> ReadResult:
        """Returns the rows of `ids`, aggregated by destination while they are read. Thread-safe.

        Args:
            ids: Global ids of the block's sources, int32.
            block: The input layer's.
            aggregator: How each destination's in-neighbours are combined.
            out: Where the aggregates go: float32 or bfloat16, which rounds them, shape (num_dst, input_width),
                contiguous. None allocates float32.

        Raises:
            UsageError: The store can't aggregate, an id is out of range, or `out` has another shape or dtype.
        """
