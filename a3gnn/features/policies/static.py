"""`StaticCache`: rows in RAM of nodes that were chosen before training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.policies.stats import CacheStats, Tally
from a3gnn.features.rows import FeatureRows
from a3gnn.features.table import RowTable
from a3gnn.features.tier import Split, Tier


class StaticCache:
    """Rows of the same nodes for as long as it lives, dense or sparse; any number of threads read at once.

    Args:
        base: All rows.
        nodes: Those to copy, int32, sorted, distinct.
        num_nodes: Nodes of the graph.
        policy: How they were chosen, for `stats`.
        reason: Why so, where the policy was chosen by measurement.
    """

    def __init__(
        self, base: FeatureRows, nodes: NDArray[np.int32], num_nodes: int, policy: str = "degree", reason: str = ""
    ) -> None:
        self.cached = nodes
        self._tier = Tier.of(base, nodes, num_nodes)
        self._tally = Tally(policy, reason)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self._tier.nbytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead so far."""
        return self._tally.stats

    @property
    def rows(self) -> FeatureRows:
        """The copies."""
        return self._tier.rows

    @contextmanager
    def serving(self, ids: NDArray[np.int32], table: RowTable) -> Iterator[int]:
        """Redirects the rows of `table` that it holds to it; yields how many (see `DynamicCache.serving`)."""
        begin = perf_counter()
        hits = self._tier.redirect(ids, table)
        self._tally.add(hits, len(ids) - hits, perf_counter() - begin)
        yield hits

    def split(self, ids: NDArray[np.int32], where: NDArray[np.int32]) -> Split:
        """Returns what `Tier.split` does, and counts."""
        begin = perf_counter()
        split = self._tier.split(ids, where)
        self._tally.add(len(split.places), len(split.ids), perf_counter() - begin)
        return split
