"""What a feature store answers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray


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
        """Whether the store has `read_aggregated`, as `HostFeatures` of dense rows has."""

    @property
    def device(self) -> str:
        """Where `read`'s rows lie: cpu or cuda."""

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes whose rows are cached, sorted."""

    @property
    def cache_bytes(self) -> int:
        """What the cache really takes, its map from nodes to rows included; 0 without one."""

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
