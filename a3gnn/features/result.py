"""What a feature store answers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.aggregate import Aggregator
from a3gnn.features.policies.stats import CacheStats
from a3gnn.sampling.subgraph import Block


class Rows(NamedTuple):
    """Rows that were read.

    Attributes:
        x: float32, shape (num_ids, num_features): dense, or torch's sparse CSR where the features are sparse.
        hits: How many of the rows the cache served.
    """

    x: torch.Tensor
    hits: int


class FeatureStore(Protocol):
    """Feature rows by node id. Whatever the tiers and the cache, `read` answers the same values."""

    @property
    def num_features(self) -> int:
        """Columns."""

    @property
    def is_sparse(self) -> bool:
        """Whether `read` answers torch's sparse CSR."""

    @property
    def can_aggregate(self) -> bool:
        """Whether `read_aggregated` works: the rows are dense and lie on the host."""

    @property
    def device(self) -> str:
        """Where `read`'s rows lie: cpu or cuda."""

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes whose rows a static cache holds, sorted; empty where rows come and go: nobody may rely on them."""

    @property
    def cache_bytes(self) -> int:
        """What the cache really takes, its maps included; 0 without one."""

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of the cache so far."""

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds."""

    def enter_part(self, part: int) -> None:
        """Makes `part`'s rows resident in place of the last part's, where the store keeps one part in RAM."""

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> Rows:
        """Returns the rows of `ids`. Safe to call from several threads.

        Args:
            ids: Global node ids, int32.
            out: Where dense rows go: float32, shape (len(ids), num_features), contiguous, on the store's device. None
                takes fresh memory, and sparse rows always do.
        """

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> Rows:
        """Returns what the input layer's destinations need of the rows of `ids`, where `can_aggregate`.

        Args:
            ids: Global ids of the block's sources, int32.
            block: The input layer's.
            aggregator: What to make of each destination's in-neighbours.
            out: Where it goes: float32, shape (num_dst, input_width), contiguous. None takes fresh memory.

        Raises:
            UsageError: The store can't aggregate.
        """
