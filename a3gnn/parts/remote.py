"""Mini-batches over graph servers: `PartedSampler` samples there, and `PartedStore` reads feature rows from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import DYNAMIC_POLICIES, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.cache import DynamicCache, StaticCache
from a3gnn.features.cache_ranking import that_fit
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.row_table import RowTable, row_like
from a3gnn.features.stored_rows import DenseRows
from a3gnn.graphs.edge_list_kernels import by_falling_count
from a3gnn.parts.graph import PartedGraph, RemoteFeatures
from a3gnn.parts.part_kernels import put_rows
from a3gnn.sampling.hops import HopSampler, NeighborDraw
from a3gnn.sampling.relabeling import forget, relabel
from a3gnn.sampling.sample_kernels import grown
from a3gnn.sampling.sampler import Fanout, too_many_edges
from a3gnn.storage.compiled import readonly


class PartedSampler(HopSampler):
    """Samples hop by hop: each graph server draws for the nodes of its part.

    Random numbers are keyed by seed, epoch, batch, hop and node, so they do not depend on the process that draws.

    Args:
        graph: A graph by parts.
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all.
        seed: Any non-negative integer below 2**64.

    Raises:
        UsageError: An argument is out of range.
    """

    def __init__(self, graph: PartedGraph, fanouts: Sequence[Fanout], *, seed: int) -> None:
        super().__init__(graph.num_nodes, fanouts, seed=seed)
        self._graph = graph

    def _draw(
        self, nodes: NDArray[np.int32], draw: NeighborDraw, most: int
    ) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
        counts = self._graph.counts(nodes, draw.fanout)
        if counts.sum() > most:
            raise too_many_edges()
        return counts, self._graph.draw(nodes, counts, draw)


def warm_up() -> None:
    """Compiles the clients' kernels, or loads them from numba's cache, before any timing."""
    nothing, one, longs = np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int64)
    relabel(nothing, nothing, one, 0)
    forget(nothing, nothing)
    grown(one, 0, 2)
    put_rows(readonly(nothing), longs, longs, longs, nothing)


@dataclass(frozen=True, slots=True, eq=False)
class RemoteRows(DenseRows):
    """Rows on graph servers with the interface of stored rows; `array` has no rows, but their width and dtype."""

    features: RemoteFeatures  # requests the rows

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, on all servers together."""
        return self.features.shape[0] * self.row_bytes

    def take(self, nodes: NDArray[np.int32]) -> DenseRows:
        """Returns a copy of the rows of `nodes`, in anonymous memory.

        Raises:
            GraphServerError: A server refuses, or can't be reached.
        """
        return DenseRows(readonly(self.features.read(nodes, self.array.dtype)))

    def copied(self) -> NoReturn:
        """Not available: only `take` copies rows, and only some at a time.

        Raises:
            UsageError: Always.
        """
        raise UsageError("rows of a graph by parts can't be copied as a whole; read them with take, some at a time")

    halved = copied


class PartedStore(DenseHostStore):
    """A `FeatureStore` of rows on graph servers; rows in the cache are not requested.

    Rows are copied, or aggregated, straight from the messages.

    Args:
        cache: Rows in RAM; None for no cache.
    """

    def __init__(self, base: RemoteRows, cache: StaticCache | DynamicCache | None) -> None:
        super().__init__(base, *base.features.shape, cache=cache)
        self._remote = base

    @contextmanager
    def _reading(self, ids: NDArray[np.int32]) -> Iterator[tuple[RowTable, int]]:
        """Wraps one pass over the rows of `ids`: yields their addresses, and how many are cached."""
        base = self._remote
        # Address 0 stands for a row that has not arrived.
        table = RowTable(np.zeros(len(ids), dtype=np.int64), row_like(base.array), ())
        serving = self._cache.serving(ids, table) if self._cache else nullcontext(0)
        with serving as hits:
            missing = np.flatnonzero(table.addresses == 0)
            messages = base.features.held(ids[missing], base.array.dtype)
            for places, rows in messages:
                table.addresses[missing[places]] = RowTable.of(rows).addresses
            # The messages must live until the cache has copied the rows that it admits, at the end of its context.
            yield RowTable(table.addresses, table.row_like, tuple(rows for _, rows in messages)), hits


def open_store(graph: PartedGraph, config: TrainConfig) -> PartedStore:
    """Returns the store of `graph`'s features with `config`'s cache in RAM; `config` has passed `check_over_parts`.

    With `config.feature_dtype` float16, the servers round float32 rows to float16.

    Raises:
        GraphServerError: A server can't be reached, or a value is beyond float16's range.
    """
    features, config = graph.features, config.canonical()
    dtype = np.dtype(np.float16) if config.feature_dtype == "float16" else features.dtype
    base = RemoteRows(np.empty((0, features.shape[1]), dtype=dtype), features)
    policy, cache_bytes, num_nodes = config.cache_policy, config.cache_bytes, graph.num_nodes
    if not cache_bytes:
        return PartedStore(base, None)
    if policy in DYNAMIC_POLICIES:
        return PartedStore(base, DynamicCache.that_fits(base, cache_bytes, num_nodes, policy))
    nodes = that_fit(by_falling_count(graph.entries), base, cache_bytes, num_nodes)
    return PartedStore(base, StaticCache(base, nodes, num_nodes, policy) if len(nodes) else None)
