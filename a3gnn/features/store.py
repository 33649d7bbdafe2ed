"""`FeatureStore`: the interface of feature stores, and the result of a read."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.cache import CacheStats
from a3gnn.features.row_table import Aggregator
from a3gnn.sampling.subgraph import Block


class ReadResult(NamedTuple):
    """The result of a read.

    Attributes:
        x: The rows, shape (num_ids, num_features): dense float32, bfloat16 if `out` has that dtype, or torch's sparse
            CSR for sparse features; or their aggregates, (num_dst, input_width).
        hits: Number of rows that were cached.
    """

    x: torch.Tensor
    hits: int


class FeatureStore(Protocol):
    """Feature rows by node id. `read` returns the same values for all tiers and caches."""

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
        """Device of the rows that `read` returns: cpu or cuda."""

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
        """Replaces the last part's rows in RAM by the rows of `part`; does nothing if the store keeps none."""

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns the rows of `ids`. Thread-safe.

        Args:
            ids: Global node ids, int32.
            out: Memory for dense rows: float32 or bfloat16, which rounds them, shape (len(ids), num_features),
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
            block: The block of the input layer.
            aggregator: How each destination's in-neighbors are combined.
            out: Memory for the aggregates: float32 or bfloat16, which rounds them, shape (num_dst, input_width),
                contiguous. None allocates float32.

        Raises:
            UsageError: The store can't aggregate, an id is out of range, or `out` has another shape or dtype.
        """
